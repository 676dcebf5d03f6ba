"""Pods at admission, as their quotas see them: whether a pod may belong to its quota, and whether its request still
fits.

A pod of a parent quota is counted nowhere, and a full quota is better said when a pod is created than while it waits.
Two pure functions; the caller knows the quota of a pod (forest.py) and what its pods request together. The optional
limit at creation is the quota's annotation `admission`, and its maximum for each resource that the annotation does not
name.
Limits: an update is judged only where it changes the quota; upstream judges every update, so a pod whose quota became a
parent later cannot be changed at all.

Source: Koordinator, pkg/webhook/pod/validating (quota rules), pkg/webhook/quotaevaluate (admission); a partial
annotation removes the other limits there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cotenant.model.groups.quota import BUILT_IN, DEFAULT_QUOTA, NAME, PREEMPTIBLE, SYSTEM_QUOTA, Quota
from cotenant.model.resources import Amounts, format_amount
from cotenant.policy.quota.admission import QuotaViolation

_SYSTEM_NAMESPACE = "kube-system"


def quota_of_pod(namespace: str, label: str, quotas: Mapping[str, Quota]) -> str:
    """The name of a pod's quota: its label's, or else its namespace's; an unknown one is the default quota. A
    parent counts, unlike when a scheduler accounts for the pod.
    """
    if label:
        return label if label in quotas else DEFAULT_QUOTA
    for quota in quotas.values():
        if namespace in quota.namespaces:
            return quota.name
    if namespace in quotas:
        return namespace
    return SYSTEM_QUOTA if namespace == _SYSTEM_NAMESPACE else DEFAULT_QUOTA


def closed_to(namespace: str, name: str, quotas: Mapping[str, Quota], home_of: Callable[[str], str]) -> str:
    """Why a pod of this namespace may not name this quota; "" where it may.

    A quota that lists namespaces is theirs, and that of the object's own namespace (`home_of` a quota's name); so are
    the quotas below it that list none. Without any list, everybody may name it, as upstream.
    """
    seen: set[str] = set()
    while (quota := quotas.get(name)) is not None and name not in seen:
        seen.add(name)
        if quota.namespaces:
            if namespace in quota.namespaces or namespace in (home_of(name), name):
                return ""
            of = ", ".join(quota.namespaces)
            return f"quota {name} is of the namespaces that it lists ({of}), and not of {namespace}"
        name = quota.parent
    return ""


def check_pod_quota(
    quota: Quota | None, *, changes_quota: bool = True, preemptible: str = "", old_preemptible: str | None = None
) -> list[QuotaViolation]:
    """Rules about a pod and its quota. `old_preemptible`: the label before an update, None at creation; texts of
    absent labels are empty.
    """
    found = []
    if quota is not None and quota.is_parent and changes_quota:
        text = (
            f"quota {quota.name} is a parent, which must not have pods: label the pod with one of its children ({NAME})"
        )
        found.append(QuotaViolation(quota.name, "parent-quota", text))
    if old_preemptible is not None and old_preemptible != preemptible:
        text = (
            f"the label {PREEMPTIBLE} cannot change after creation ({old_preemptible or 'none'} -> "
            f"{preemptible or 'none'})"
        )
        found.append(QuotaViolation(quota.name if quota else "", "preemptible-immutable", text))
    return found


def unknown(label: str, quotas: Mapping[str, Quota]) -> tuple[QuotaViolation, ...]:
    """A pod's label that names no quota. Admission refuses it: such a pod would be counted beside the quota that it
    is meant for.
    """
    if not label or label in quotas or label in BUILT_IN:
        return ()
    text = f"there is no quota {label} (label {NAME}): create it first, or name one that exists"
    return (QuotaViolation(label, "not-found", text),)


def exceeded(
    quota: Quota, used: Amounts, request: Amounts, admission: Amounts | None = None
) -> tuple[QuotaViolation, ...]:
    """The resources of a quota's maximum that a pod's request does not fit into, beside what the other pods request."""
    found = []
    for resource, most in quota.maximum:
        limit = admission.get(resource) if admission is not None and resource in admission else most
        asked = request.get(resource)
        if asked and used.get(resource) + asked > limit:
            shown = [format_amount(resource, amount) for amount in (asked, used.get(resource), limit)]
            text = (
                f"quota {quota.name} has no room for {shown[0]} of {resource}: {shown[1]} of {shown[2]} are requested"
            )
            found.append(QuotaViolation(quota.name, "exceeded", text))
    return tuple(found)
