"""What the cluster's objects say about tenants: guarantees, requests of running pods, and measured use.

The same pod must belong to the same tenant here and in the scheduler. A tenant is a quota that holds pods, and pods are
mapped to quotas by the scheduler's own rules (engine/plugins/quotas/objects.py). Memory and GPUs (nvidia.com/gpu) count
for tenants whose guarantee names them. A pod that left is remembered for a while, so that an incident of it finds its
tenant.
Limits: lent resources (batch-cpu) and shared GPUs are neither earned with nor paid for; a tenant of which any running
pod has no recent measurement is not measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.engine.plugins.quotas.objects import Sorted
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.quota import NAME, QuotaObject
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, NVIDIA_GPU, Amounts
from cotenant.policy.credit.pricing import PeriodUse, Priced
from cotenant.policy.quota.forest import OUTSIDE, Forest

FRESH_S = 180.0  # a NodeMetric that is older says nothing
REMEMBERED_S = 3600.0  # for how long a pod that left still has a tenant
MAX_REMEMBERED = 20_000
_NAMES = {Priced.CPU: CPU_NAME, Priced.MEMORY: MEMORY_NAME, Priced.GPU: NVIDIA_GPU}


@dataclass(slots=True)
class _RunningPod:
    namespace: str
    label: str
    node: str
    requests: Amounts


@dataclass(frozen=True, slots=True)
class PodPlace:
    """The tenant of a pod, empty for one outside all of them, and the node it runs or ran on."""

    tenant: str
    node: str


class ClusterFacts:
    """The observed objects. `now` is a clock that does not go back, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._quotas: dict[str, QuotaObject] = {}
        self._pods: dict[str, _RunningPod] = {}
        self._left: dict[str, tuple[float, _RunningPod]] = {}  # pods that left: remembered until; in that order
        self._measured: dict[str, tuple[float, dict[str, Use]]] = {}  # node -> valid until, use by pod
        self._placing: tuple[Sorted, Forest] | None = None

    def quota_seen(self, seen: QuotaObject) -> None:
        """Record a quota object."""
        self._quotas[seen.key] = seen
        self._placing = None

    def quota_gone(self, key: str) -> None:
        """Remove a quota object."""
        self._quotas.pop(key, None)
        self._placing = None

    def pod_seen(self, seen: ObservedPod) -> None:
        """Record a pod; it counts from its binding to its end."""
        if not seen.node or seen.phase.is_final or seen.reservation:
            self.pod_gone(seen.pod.key)
            return
        label = seen.pod.labels.get(NAME) or ""
        self._pods[seen.pod.key] = _RunningPod(seen.pod.namespace, label, seen.node, seen.pod.requests)

    def pod_gone(self, key: str) -> None:
        """Remove a pod; its tenant is remembered for `REMEMBERED_S`."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        now_s = self._now()
        self._left.pop(key, None)
        self._left[key] = (now_s + REMEMBERED_S, pod)
        while len(self._left) > MAX_REMEMBERED or next(iter(self._left.values()))[0] < now_s:
            del self._left[next(iter(self._left))]

    def place_of(self, key: str) -> PodPlace | None:
        """Tenant and node of a pod by namespace/name; None where it is not known, or no longer."""
        pod = self._pods.get(key)
        if pod is None:
            until_s, pod = self._left.get(key, (0.0, None))
            if pod is None or until_s < self._now():
                return None
        classified, forest = self._sorted()
        name = classified.place(forest, pod.namespace, pod.label).quota
        return PodPlace(name if name in self.quotas() else "", pod.node)

    def metric_seen(self, seen: NodeMetric) -> None:
        """Record a node's measurements."""
        if seen.is_empty or not seen.pods:
            self._measured.pop(seen.node, None)
            return
        until_s = self._now() + FRESH_S - seen.age_s
        self._measured[seen.node] = (until_s, {key: pod.use for key, pod in seen.pods.items()})

    def metric_gone(self, node: str) -> None:
        """Remove a node's measurements."""
        self._measured.pop(node, None)

    def quotas(self) -> dict[str, QuotaObject]:
        """The quota objects of tenants, by tenant: those that are used and hold pods."""
        used = self._sorted()[0].used
        return {name: quota_object for name, quota_object in sorted(used.items()) if not quota_object.quota.is_parent}

    def uses(self) -> tuple[PeriodUse, ...]:
        """The present use of every tenant: CPU, and the other resources that its guarantee names."""
        classified, forest = self._sorted()
        tenants = self.quotas()
        requests: dict[str, list[Amounts]] = {name: [] for name in tenants}
        measured: dict[str, Use | None] = dict.fromkeys(tenants, Use())
        now_s = self._now()
        of_pod: dict[str, Use] = {}
        for until_s, by_pod in self._measured.values():
            if until_s >= now_s:
                of_pod.update(by_pod)
        for key, pod in self._pods.items():
            name = classified.place(forest, pod.namespace, pod.label).quota
            if name not in tenants or name in OUTSIDE:
                continue
            requests[name].append(pod.requests)
            so_far, own = measured[name], of_pod.get(key)
            measured[name] = None if so_far is None or own is None else so_far.plus(own)
        found = []
        for name, tenant in tenants.items():
            use = measured[name]
            amounts = {} if use is None else {Priced.CPU: use.cpu_m, Priced.MEMORY: use.memory_bytes}
            for priced, resource in _NAMES.items():
                if priced is Priced.CPU or resource in tenant.quota.minimum:
                    declared = sum(one.get(resource) for one in requests[name])
                    least = tenant.quota.minimum.get(resource)
                    found.append(PeriodUse(name, least, declared, amounts.get(priced), priced))
        return tuple(found)

    def _sorted(self) -> tuple[Sorted, Forest]:
        if self._placing is None:
            classified = Sorted(self._quotas.values())
            self._placing = classified, Forest(classified.quotas)
        return self._placing
