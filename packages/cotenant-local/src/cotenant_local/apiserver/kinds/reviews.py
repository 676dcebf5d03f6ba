"""Access reviews: the holder of the bearer token may do everything, and the responses say so.

Nothing is stored. Source: Kubernetes API reference, SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectReview.
"""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import ApiAnswer, Resource, WriteOptions
from cotenant_local.apiserver.kinds import shapes
from cotenant_local.apiserver.storage.stored import encode

_WHY = "the holder of the cluster's token may do everything"


def review(resource: Resource, obj: Manifest, options: WriteOptions) -> ApiAnswer:
    """The review with its status. Raises ApiError 422 if it names no attributes."""
    shapes.check(obj, shapes.Review)
    answer: Manifest = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": obj.get("metadata") or {},
    }
    if resource.kind == "SelfSubjectReview":
        answer["status"] = {"userInfo": {"username": options.user, "groups": list(options.groups)}}
        return ApiAnswer(encode(answer), created=True)
    spec = obj.get("spec") or {}
    answer["spec"] = spec
    if resource.kind == "SelfSubjectRulesReview":
        answer["status"] = {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }
    else:
        if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
            why = "spec: Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise ApiError(
                422,
                "Invalid",
                f'{resource.kind}.{resource.group} "" is invalid: {why}',
                group=resource.group,
                kind=resource.kind,
            )
        answer["status"] = {"allowed": True, "reason": _WHY}
    return ApiAnswer(encode(answer), created=True)
