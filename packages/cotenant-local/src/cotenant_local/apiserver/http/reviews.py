"""Access reviews, which are answered and not stored (`kubectl auth can-i`, `kubectl auth whoami`).

Clients ask whether they may do something. There is one user and no RBAC, so every request is allowed, reported in the
form of each kind.
Source: Kubernetes API reference, authorization.k8s.io/v1 and authentication.k8s.io/v1.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope
from cotenant_local.apiserver.http.auth import GROUPS, USER

_ALL_RULES: Manifest = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def _review(group: str, kind: str, scope: ResourceScope = ResourceScope.CLUSTER) -> Resource:
    plural = kind.lower() + "s"
    return Resource(group, "v1", kind, plural, kind.lower(), scope, frozenset({"create"}))


REVIEWS: dict[tuple[str, str, str], Resource] = {
    (resource.group, resource.version, resource.plural): resource
    for resource in (
        _review("authorization.k8s.io", "SelfSubjectAccessReview"),
        _review("authorization.k8s.io", "SelfSubjectRulesReview"),
        _review("authorization.k8s.io", "SubjectAccessReview"),
        _review("authorization.k8s.io", "LocalSubjectAccessReview", ResourceScope.NAMESPACED),
        _review("authentication.k8s.io", "SelfSubjectReview"),
    )
}


def answer(review: Resource, obj: Manifest) -> Manifest:
    """The review with its status. Raises ApiError 422 if it names no attributes."""
    spec = obj.get("spec") or {}
    status: Manifest
    if review.kind == "SelfSubjectReview":
        status = {"userInfo": {"username": USER, "groups": list(GROUPS)}}
    elif review.kind == "SelfSubjectRulesReview":
        status = _ALL_RULES
    else:
        attributes = [name for name in ("resourceAttributes", "nonResourceAttributes") if spec.get(name)]
        if len(attributes) != 1:
            raise ApiError(
                422,
                "Invalid",
                f'{review.kind}.{review.group} "" is invalid: spec.resourceAttributes: Invalid value: '
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                group=review.group,
                kind=review.kind,
            )
        status = {"allowed": True, "reason": "this server has one user, who may do everything"}
    return {
        "kind": review.kind,
        "apiVersion": review.api_version,
        "metadata": {"creationTimestamp": None, **(obj.get("metadata") or {})},
        "spec": spec,
        "status": status,
    }
