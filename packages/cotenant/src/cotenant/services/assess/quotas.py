"""Pods that do not exist because a ResourceQuota refuses them: their controllers want more than they have.

A quota is enforced when a pod is created, so what it holds back is no pending pod and no lack of room: only the
difference between what a controller wants and has shows it. What a missing pod would request is taken from its
siblings.
Limits: limits.* and quotas with scopes are not weighed; without a sibling only a quota that is used up counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.report import PendingPods, WaitCause
from cotenant.model.cluster.namespace_quota import NamespaceQuota
from cotenant.model.quantities import Quantity
from cotenant.model.resources import CPU_NAME, Amounts
from cotenant.services.assess.copying import ClusterCopy

_NANO, _NANO_OF_MILLI = 10**9, 10**6
_PODS = ("pods", "count/pods")


def held_by_quotas(copy: ClusterCopy) -> tuple[PendingPods, ...]:
    """Missing pods by the quota that refuses them, the most first."""
    if not copy.quotas:
        return ()
    siblings: defaultdict[str, list[PodInfo]] = defaultdict(list)
    for info in copy.engine.every_pod():
        for owner in info.seen.owned_by:
            if owner.controller:
                siblings[owner.uid].append(info)
    of_namespace: defaultdict[str, list[NamespaceQuota]] = defaultdict(list)
    for quota in copy.quotas:
        if not quota.scoped:
            of_namespace[quota.namespace].append(quota)
    held: Counter[str] = Counter()
    for uid, controller in copy.controllers.items():
        quotas = of_namespace.get(controller.namespace)
        missing = controller.replicas - len(siblings[uid])
        if not quotas or missing <= 0:
            continue
        like = siblings[uid][0].seen.pod.requests if siblings[uid] else None
        why = next((text for text in (_full(quota, like) for quota in quotas) if text), "")
        if why:
            held[why] += missing
    return tuple(
        PendingPods(why, pods, 0, 0, WaitCause.QUOTA)
        for why, pods in sorted(held.items(), key=lambda one: (-one[1], one[0]))
    )


def _full(quota: NamespaceQuota, requests: Amounts | None) -> str:
    """Why one more pod is refused; "" where it is not."""
    for name, hard in sorted(quota.hard_nano.items()):
        need = _need(name, requests)
        used = quota.used_nano.get(name, 0)
        if need is not None and used + need > hard:
            shown = f"{name} {Quantity(used)} of {Quantity(hard)} used"
            return f"ResourceQuota {quota.namespace}/{quota.name} allows no more: {shown}"
    return ""


def _need(name: str, requests: Amounts | None) -> int | None:
    """What one pod more counts of it; None where that is not known or not weighed."""
    if name in _PODS:
        return _NANO
    resource = name.removeprefix("requests.")
    if resource == name and name not in ("cpu", "memory"):
        return None
    if requests is None:
        return 1  # anything at all
    amount = requests.get(resource)
    return (amount * (_NANO_OF_MILLI if resource == CPU_NAME else _NANO)) or None
