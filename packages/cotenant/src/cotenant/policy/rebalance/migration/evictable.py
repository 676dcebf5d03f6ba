"""Filters that say whether a pod may be moved at all.

Some pods must never be evicted (static pods, pods of a DaemonSet, pods nothing would create again), others only if
configured. One function from a pod's facts to the first reason against it. An annotation on the pod overrides the
configurable reasons, as upstream.
Limits: whether it may move *now* is in workload_limits.py.
Source: Koordinator, pkg/descheduler/framework/plugins/kubernetes/defaultevictor and
.../controllers/migration/arbitrator/filter.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.policy.rebalance.migration.workload_limits import ReplicaShare, has_expected_replicas

NEVER_COST = 2**31 - 1  # of the eviction-cost annotation: the pod may not be evicted
CRITICAL_PRIORITY = 2_000_000_000  # from here on, the priority of system-critical pods


class EvictionGate(StrEnum):
    """Filters that a configuration may skip; the values are those of `skipEvictionGates`."""

    MAX_UNAVAILABLE = "MaxUnavailablePerWorkload"
    MAX_MOVING = "MaxMigratingPerWorkload"
    PER_NODE = "MaxMigratingPerNode"
    PER_NAMESPACE = "MaxMigratingPerNamespace"
    GLOBALLY = "MaxMigratingGlobally"
    EXPECTED_REPLICAS = "ExpectedReplicas"
    PVC = "PVC"
    BARE_PODS = "BarePods"
    LOCAL_STORAGE = "LocalStorage"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY_THRESHOLD = "PriorityThreshold"
    LABEL_SELECTOR = "LabelSelector"
    NAMESPACES = "Namespaces"
    NODE_FIT = "NodeFit"
    DISRUPTION_MARKS = "DisruptionMarks"  # ours: what owners and autoscalers say


@dataclass(frozen=True, slots=True)
class EvictionFacts:
    """What the filters read of a pod. `replicas` is None where those of its controller are not known."""

    namespace: str
    labels: Labels
    priority: int
    owner_kind: str = ""  # of the controller; empty = none
    is_static: bool = False  # a static or mirror pod
    terminating: bool = False
    finished: bool = False
    has_local_storage: bool = False
    has_claims: bool = False
    eviction_cost: int = 0
    forced: bool = False  # annotation descheduler.alpha.kubernetes.io/evict
    held: str = ""  # why its marks, or its node's taints, forbid it (model/cluster/disruption.py)
    replicas: int | None = None
    surges: bool = False  # its replacement is there before it goes


@dataclass(frozen=True, slots=True)
class EvictionFilter:
    """What is configured."""

    evicts_bare_pods: bool = False
    evicts_system_critical: bool = False
    evicts_local_storage: bool = False
    ignores_claims: bool = False
    priority_threshold: int | None = None
    selector: LabelSelector | None = None
    include: tuple[str, ...] = ()  # namespaces; empty = all
    exclude: tuple[str, ...] = ()
    checks_replicas: bool = True
    max_moving: ReplicaShare | None = None  # per workload
    max_unavailable: ReplicaShare | None = None
    skip: frozenset[EvictionGate] = frozenset()

    def refuses(self, pod: EvictionFacts) -> str:
        """The first reason why the pod may not be moved; empty = none."""
        fixed = _fixed(pod)
        if fixed or pod.forced:
            return fixed
        if pod.eviction_cost == NEVER_COST:
            return "its eviction cost forbids eviction"
        for gate, reason in self._reasons(pod):
            if reason and gate not in self.skip:
                return reason
        return ""

    def _reasons(self, pod: EvictionFacts) -> tuple[tuple[EvictionGate, str], ...]:
        limit = CRITICAL_PRIORITY if self.priority_threshold is None else self.priority_threshold
        is_critical = pod.priority >= CRITICAL_PRIORITY
        outside = (self.include and pod.namespace not in self.include) or pod.namespace in self.exclude
        return (
            (EvictionGate.DISRUPTION_MARKS, pod.held),
            (EvictionGate.BARE_PODS,
                "no controller would create it again" if not pod.owner_kind and not self.evicts_bare_pods else ""),
            (EvictionGate.SYSTEM_CRITICAL,
                "it is critical for the system" if is_critical and not self.evicts_system_critical else ""),
            (
                EvictionGate.PRIORITY_THRESHOLD,
                f"its priority {pod.priority} is not below {limit}"
                if pod.priority >= limit and not (is_critical and self.evicts_system_critical)
                else "",
            ),
            (EvictionGate.LOCAL_STORAGE,
                "it has local storage" if pod.has_local_storage and not self.evicts_local_storage else ""),
            (EvictionGate.PVC, "it has a persistent volume claim" if pod.has_claims and self.ignores_claims else ""),
            (EvictionGate.LABEL_SELECTOR,
                "the labelSelector does not select it" if self.selector is not None
                and not self.selector.matches(pod.labels) else ""),
            (EvictionGate.NAMESPACES, f"namespace {pod.namespace} is excluded" if outside else ""),
            (EvictionGate.EXPECTED_REPLICAS, self._replicas(pod)),
        )  # fmt: skip

    def _replicas(self, pod: EvictionFacts) -> str:
        if not pod.owner_kind or not self.checks_replicas or pod.surges:
            return ""
        if pod.replicas is None:
            return f"the replicas of its {pod.owner_kind} are not known"
        if has_expected_replicas(pod.replicas, self.max_moving, self.max_unavailable):
            return ""
        if pod.replicas == 1:
            return "its workload has one replica"
        return f"all {pod.replicas} replicas of its workload might move at once"


def _fixed(pod: EvictionFacts) -> str:
    """What no configuration changes."""
    if pod.is_static:
        return "it is a static pod"
    if pod.owner_kind == "DaemonSet":
        return "it belongs to a DaemonSet"
    if pod.terminating:
        return "it is terminating"
    if pod.finished:
        return "it has finished"
    return ""
