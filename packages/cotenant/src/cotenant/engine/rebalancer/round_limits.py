"""Limits of one round: how many pods may move of the cluster, a node, a namespace and a workload, and what disruption
budgets allow.

Each move of a plan must still be allowed after the moves before it. Moves chosen so far count as under way; a
workload's unavailable pods are those that are not ready and those that its controller has not created yet, and the pods
of a workload are looked up once. A budget that other moves have used up is a turn to wait for; one that is used up
without them is not.
Limits: moves that another process carries out at the same time are seen only as pods that are not ready.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.observed import DisruptionBudget, OwnedBy, PodPhase
from cotenant.model.counted import counted
from cotenant.model.groups.migration import EVICT_POLICY, EvictPolicy, JobStep, MigrationJob, PodRef
from cotenant.policy.rebalance.migration.arbitration import BUDGET
from cotenant.policy.rebalance.migration.evictable import EvictionGate
from cotenant.policy.rebalance.migration.workload_limits import MovingWorkload, admits_one_more, workload_refuses

_ROLLED_OUT = ("ReplicaSet", "Deployment")


class RoundLimits:
    """The limits with the moves of this round counted."""

    def __init__(
        self,
        cluster: Cluster,
        settings: RebalancerSettings,
        replicas: Mapping[str, int],
        notes_of: Callable[[str], EvictionNotes],
    ) -> None:
        """Reads the pods of the cluster as they are now."""
        self._settings, self._replicas, self._notes_of = settings, replicas, notes_of
        self._total = 0
        self._per_node: Counter[str] = Counter()
        self._per_namespace: Counter[str] = Counter()
        self._moving: dict[str, set[str]] = {}  # UIDs by that of the controller
        self._unavailable: dict[str, frozenset[str]] = {}
        self._cluster = cluster
        self._budgets = cluster.budgets()
        self._left = {(budget.namespace, budget.name): budget.allowed for budget in self._budgets}
        self._under: Counter[tuple[str, str]] = Counter()  # moves by the budget that they take from
        self._every = tuple(cluster.every_pod())

    @cached_property
    def _pods(self) -> dict[str, list[PodInfo]]:
        """Pods by the UID of their controller."""
        found: dict[str, list[PodInfo]] = {}
        for entry in self._every:
            owner = controller(entry)
            if owner is not None:
                found.setdefault(owner.uid, []).append(entry)
        return found

    def refuses(self, entry: PodInfo, node: str) -> str:
        """Why this pod of a node may not move now; empty = it may."""
        if surges(entry, self._settings, self._replicas):  # nothing becomes unavailable
            workload = entry.seen.workload
            paused = f"{workload.owner.kind} {workload.owner.name} is paused" if workload and workload.is_paused else ""
            return self._by_counts(entry, node) or paused
        return self._by_counts(entry, node) or self._by_workload(entry) or self._by_budgets(entry)

    def several_budgets(self, entry: PodInfo, policy: EvictPolicy | None = None) -> str:
        """Why a running pod can never be evicted by the eviction API: it takes at most one budget; empty = it can,
        or is not evicted so. `policy` None = the configured one.
        """
        if (policy or self._settings.acting.migration.policy) is not EvictPolicy.EVICTION:
            return ""
        if entry.seen.phase is PodPhase.PENDING:
            return ""
        covering = [f"{budget.namespace}/{budget.name}" for budget in self._budgets if budget.covers(entry.seen.pod)]
        if len(covering) < 2:
            return ""
        return (
            f"PodDisruptionBudgets {', '.join(covering)} cover this pod, and the eviction API refuses a pod with "
            "more than one"
        )

    def moved(self, entry: PodInfo, node: str) -> None:
        """Count a move."""
        pod = entry.seen.pod
        self._total += 1
        self._per_node[node] += 1
        self._per_namespace[pod.namespace] += 1
        owner = controller(entry)
        if owner is not None:
            self._moving.setdefault(owner.uid, set()).add(entry.seen.uid)
        for budget in self._budgets:
            if self._takes_from(entry, budget):
                self._left[budget.namespace, budget.name] -= 1
                self._under[budget.namespace, budget.name] += 1

    def saved(self) -> Callable[[], None]:
        """A function that forgets the moves counted from now on."""
        total, per_node, per_namespace = self._total, self._per_node.copy(), self._per_namespace.copy()
        moving, left = {owner: set(uids) for owner, uids in self._moving.items()}, dict(self._left)
        under = self._under.copy()

        def restore() -> None:
            self._total, self._per_node, self._per_namespace = total, per_node, per_namespace
            self._moving, self._left, self._under = moving, left, under

        return restore

    def moving(self, job: MigrationJob, owner: str) -> None:
        """Count a move that is under way; `owner`: UID of the pod's controller. A budget knows by itself of what was
        evicted. Of a pod that is gone, and whose replacement is not known, it counts as any of its namespace's.
        """
        self._total += 1
        self._per_node[job.node] += 1
        self._per_namespace[job.pod.namespace] += 1
        if owner:
            self._moving.setdefault(owner, set()).add(job.pod.uid)
        if job.has(JobStep.SURGE):
            return
        stays = self._find(job.pod)
        known = stays or self._find(job.new_pod)
        for budget in self._budgets:
            key = budget.namespace, budget.name
            if known is None:
                self._under[key] += budget.namespace == job.pod.namespace
            elif budget.selects(known.seen.pod):
                self._under[key] += 1
                self._left[key] -= stays is not None and not stays.seen.terminating and self._takes_from(stays, budget)

    def _by_counts(self, entry: PodInfo, node: str) -> str:
        limits, skip = self._settings.limits, self._settings.filter.skip
        namespace = entry.seen.pod.namespace
        on_node, in_namespace = self._per_node[node], self._per_namespace[namespace]
        for gate, limit, moving, where in (
            (EvictionGate.GLOBALLY, limits.globally, self._total, "of the cluster"),
            (EvictionGate.PER_NODE, limits.per_node, on_node, f"of {node}"),
            (EvictionGate.PER_NAMESPACE, limits.per_namespace, in_namespace, f"of namespace {namespace}"),
        ):
            if gate not in skip and not admits_one_more(limit, moving):
                pods = counted(moving, f"pod {where} is", f"pods {where} are")
                return f"{pods} moving, at most {limit} may at a time"
        for limit, moved, where in (
            (limits.round_total, self._total, ""),
            (limits.round_per_node, on_node, f" of {node}"),
            (limits.round_per_namespace, in_namespace, f" of namespace {namespace}"),
        ):
            if not admits_one_more(limit, moved):
                return f"{counted(moved, f'pod{where} moves', f'pods{where} move')} in this round, at most {limit} may"
        return ""

    def _by_workload(self, entry: PodInfo) -> str:
        owner, workload = controller(entry), entry.seen.workload
        if workload is not None and workload.is_paused:
            return f"{workload.owner.kind} {workload.owner.name} is paused"
        replicas = self._replicas.get(owner.uid) if owner is not None else None
        if owner is None or replicas is None:
            return ""  # the filters decide about such pods
        filters = self._settings.filter
        return workload_refuses(
            entry.seen.uid,
            MovingWorkload(replicas, self._moving.get(owner.uid, ()), self._unavailable_of(owner.uid, replicas)),
            filters.max_moving,
            filters.max_unavailable,
            checks_moving=EvictionGate.MAX_MOVING not in filters.skip,
            checks_unavailable=EvictionGate.MAX_UNAVAILABLE not in filters.skip,
        )

    def _by_budgets(self, entry: PodInfo) -> str:
        for budget in self._budgets:
            key = budget.namespace, budget.name
            if self._left[key] > 0 or not self._takes_from(entry, budget):
                continue
            name = f"{BUDGET} {budget.namespace}/{budget.name}"
            if moving := self._under[key]:
                pods = counted(moving, f"pod under {name} is", f"pods under {name} are")
                return f"{pods} moving, it allows no more at a time"
            return f"{name} allows no further disruption now"
        return ""

    def _takes_from(self, entry: PodInfo, budget: DisruptionBudget) -> bool:
        """Whether the eviction API asks the budget about this pod: not where it has not started, nor, where the
        budget spares such pods, where it is not ready.
        """
        seen = entry.seen
        if seen.phase is PodPhase.PENDING or not budget.covers(seen.pod):
            return False
        return not (budget.spares_unready and not self._notes_of(seen.pod.key).is_ready)

    def _find(self, pod: PodRef | None) -> PodInfo | None:
        entry = None if pod is None else self._cluster.find(pod.key)
        return None if entry is None or pod is None or entry.seen.uid != pod.uid else entry

    def _unavailable_of(self, owner: str, replicas: int) -> frozenset[str]:
        """UIDs of the controller's pods that are not ready, and a placeholder for each that is missing."""
        if owner not in self._unavailable:
            pods = [pod.seen for pod in self._pods.get(owner, ()) if not pod.seen.phase.is_final]
            away = {pod.uid for pod in pods if pod.terminating or not self._notes_of(pod.pod.key).is_ready}
            missing = {f"missing-{number}" for number in range(replicas - len(pods))}
            self._unavailable[owner] = frozenset(away | missing)
        return self._unavailable[owner]


def surges(entry: PodInfo, settings: RebalancerSettings, replicas: Mapping[str, int]) -> bool:
    """Whether a pod moves by a rollout in place of an eviction: the only one of a ReplicaSet. Its Deployment is looked
    at when it is to be rolled out.
    """
    owner = controller(entry)
    if not settings.surges or owner is None or owner.kind not in _ROLLED_OUT or replicas.get(owner.uid) != 1:
        return False
    label = entry.seen.pod.labels.get(EVICT_POLICY)
    policy = settings.acting.migration.policy if label is None else label
    return policy == EvictPolicy.EVICTION


def controller(entry: PodInfo) -> OwnedBy | None:
    """The workload of a declared kind that a pod belongs to, else its controller; None without one."""
    if entry.seen.workload is not None:
        return entry.seen.workload.owner
    for owner in entry.seen.owned_by:
        if owner.controller:
            return owner
    return None
