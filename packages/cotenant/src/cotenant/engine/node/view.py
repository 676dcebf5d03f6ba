"""The pods of the node and how they fare: from discovery, services' reports and rates to the one snapshot that policies
decide on.

Pods come and go between samples, a group may be gone before discovery reports it, a service may report for an unknown
pod, and policies must see one consistent value. Discovery says which pods exist, samples say what they use; a pod whose
group was not read has unknown use, not zero. State of a pod is dropped with it.
Limits: an answer of discovery is trusted until the next.

The group of all best-effort pods, where settings do not name it: the deepest group that contains every best-effort pod
and no other pod, strictly below one of the agent's roots. A single best-effort pod beside services is its own group.
There may be none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.knobs.plan import within
from cotenant.engine.node.rates import NodeRates
from cotenant.engine.node.replica_signals import ReplicaSignals, judged
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.autonomy.autonomy import Action
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.counters import GpuCounters, LogicalCpu
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import (
    Allocatable,
    BindingLimit,
    GroupUse,
    HostUse,
    NodeState,
    PodUse,
    ServiceHealth,
)
from cotenant.model.machine.replica_signal import ReplicaSignal

LONGEST_LATENCY_US = 3600 * 1_000_000
NO_OWNERS: Mapping[KnobTarget, str] = MappingProxyType({})
NO_LIMITS: Mapping[str, BindingLimit] = MappingProxyType({})


class NodePodsView:
    """The pods of one node and their services' health."""

    def __init__(self, settings: AgentSettings, counts: AgentCounts) -> None:
        self._settings = settings
        self._counts = counts
        self._pods: dict[str, NodePod] = {}  # by UID, in order of namespace, name, UID
        self._by_key: dict[str, str] = {}
        self._by_group: dict[str, str] = {}  # a pod's and its containers' groups -> UID
        self._named_by_objectives: set[str] = set()  # UIDs, for as long as the pod is here
        self._unconfirmed: set[str] = set()  # UIDs of services by their label only that none of these names
        self._health: dict[str, tuple[int, ServiceHealth]] = {}  # by UID: when it was received
        self.signals = ReplicaSignals()  # by UID
        self._groups: tuple[str, ...] = tuple(sorted({*settings.watch_groups, *self._named()}))
        self._best_effort_group = settings.best_effort_group
        self._cpus: tuple[LogicalCpu, ...] = ()
        self.allocatable: Allocatable | None = None  # as reported by its cluster
        self.kubelet = KubeletFacts()
        self.permissions = Permissions()

    def _named(self) -> tuple[str, ...]:
        group = self._settings.best_effort_group
        return (group,) if group else ()

    @property
    def pods(self) -> Mapping[str, NodePod]:
        """By UID, without finished pods."""
        return self._pods

    @property
    def best_effort_group(self) -> str | None:
        """The group that contains all best-effort pods; None where there is none."""
        return self._best_effort_group

    def groups(self) -> tuple[str, ...]:
        """The groups to read, sorted."""
        return self._groups

    def find(self, asked: str) -> NodePod | None:
        """A pod by UID, namespace/name, or its or a container's group."""
        uid = asked if asked in self._pods else self._by_key.get(asked) or self._by_group.get(asked)
        return self._pods.get(uid) if uid else None

    def pods_seen(self, pods: Sequence[NodePod]) -> tuple[frozenset[str], frozenset[str]]:
        """Replace all pods by discovery's answer. Returns the groups that are new, and those that are gone."""
        alive = [pod for pod in pods if pod.phase is not NodePodPhase.OVER]
        # Of two pods of one name the running one comes last, so that the name refers to it.
        alive.sort(key=lambda pod: (pod.namespace, pod.name, pod.phase is NodePodPhase.RUNNING, pod.uid))
        before = self._groups
        self._pods = {pod.uid: pod for pod in alive}
        self._by_key = {pod.key: pod.uid for pod in self._pods.values()}
        self._by_group = {group: pod.uid for pod in self._pods.values() for group in _groups_of(pod)}
        self._health = {uid: health for uid, health in self._health.items() if uid in self._pods}
        self.signals.keep(self._pods)
        self._named_by_objectives &= self._pods.keys()
        self._regroup()
        groups = set(self._groups)
        return frozenset(groups.difference(before)), frozenset(set(before) - groups)

    def _regroup(self) -> None:
        self._unconfirmed = {
            pod.uid
            for pod in self._pods.values()
            if pod.is_service_by_label_only and pod.uid not in self._named_by_objectives
        }
        self._best_effort_group = self._common(
            [pod for pod in self._pods.values() if pod.uid not in self._unconfirmed],
        )
        groups = {*self._by_group, *self._settings.watch_groups, *self._named()}
        if self._best_effort_group:
            groups.add(self._best_effort_group)
        self._groups = tuple(sorted(groups))

    def _common(self, pods: Sequence[NodePod]) -> str | None:
        """`pods`: without those that are services by their label only. They bear the limits of the group that they
        stand in: else whoever may create a pod could lift the limit of all others.
        """
        named = self._settings.best_effort_group
        if named is None:
            return common_group(pods, self._settings.roots)
        # A limit of the group would stop a service in it together with what disturbs it: the pods are held one by one.
        return None if any(within(group, (named,)) for group in _protected(pods)) else named

    def health_reported(self, asked: str, health: ServiceHealth, at_us: int) -> NodePod | None:
        """Store a service's report. Returns its pod; None where it is not known."""
        uid = asked if asked in self._pods else self._by_key.get(asked)
        if uid is None:
            self._counts.health_unknown += 1
            return None
        self._health[uid] = (at_us, health)
        return self._pods[uid]

    def signal_reported(self, asked: str, signal: ReplicaSignal, at_us: int) -> NodePod | None:
        """Store what the trace process measured of a pod. Returns the pod; None where it is not known. Raises
        `InvalidInput`.
        """
        uid = asked if asked in self._pods else self._by_key.get(asked)
        if uid is None:
            return None
        self.signals.reported(uid, signal, at_us)
        if signal.guard and uid not in self._named_by_objectives:
            # Kept when its spans stay away: a service that is stopped sends none.
            self._named_by_objectives.add(uid)
            self._regroup()
        return self._pods[uid]

    def signal_withdrawn(self, asked: str, objective: str) -> None:
        """The objective no longer concerns the pod."""
        pod = self.find(asked)
        if pod is None:
            return
        self.signals.withdrawn(pod.uid, objective)
        if pod.uid in self._named_by_objectives and not self.signals.is_guarded(pod.uid):
            self._named_by_objectives.remove(pod.uid)
            self._regroup()

    def state(
        self,
        rates: NodeRates,
        knobs: Mapping[KnobTarget, str],
        cpus: Sequence[LogicalCpu],
        supported: frozenset[Knob],
        now_us: int,
        owners: Mapping[KnobTarget, str] = NO_OWNERS,
        wall_s: float = 0.0,
        limits: Mapping[str, BindingLimit] = NO_LIMITS,
        gpus: tuple[GpuCounters, ...] = (),
    ) -> NodeState:
        """The snapshot for the policies. `wall_s`: Unix time, by which windows and blackouts are open."""
        if cpus:
            self._cpus = tuple(cpus)
        uses = rates.groups
        entries = tuple(self._use(pod, uses, now_us) for pod in self._pods.values())
        group = self._best_effort_group
        return NodeState(
            at_us=now_us,
            interval_us=rates.interval_us,
            host=rates.host,
            pods=entries,
            best_effort=_best_effort(uses.get(group) if group is not None else None, rates.best_effort_sent_bps),
            best_effort_group=group,
            cpus=self._cpus,
            reserved_cpu_m=self._settings.reserved_cpu_m,
            reserved_cpus=self._settings.reserved_cpus,
            knobs=knobs,
            owners=owners,
            supported=supported,
            blame=rates.blame,
            allocatable=self.allocatable,
            kubelet=self.kubelet,
            held=self.permissions.held(Action.RECOVERY, (pod.namespace for pod in self._pods.values()), wall_s),
            lending_frozen=self.permissions.frozen(Action.LENDING, "", wall_s) if gpus else "",
            limits=limits,
            gpus=gpus,
        )

    def _use(self, pod: NodePod, uses: Mapping[str, GroupUse], now_us: int) -> PodUse:
        signals = self.signals.of(pod.uid, now_us)
        of_objective, health = judged(pod, self._healthy(pod.uid, now_us), signals)
        return PodUse(
            of_objective,
            uses.get(pod.group) or GroupUse(pod.group),
            tuple(uses.get(container.group) or GroupUse(container.group) for container in pod.containers),
            health,
            signals,
            pod.uid in self._unconfirmed,
        )

    def outline(self, supported: frozenset[Knob]) -> NodeState:
        """A state with only the pods known: for policies to say which knobs they read."""
        nothing = NodeRates(0, HostUse(0, None, 0, 0), {}, None, 0)
        return self.state(nothing, {}, (), supported, 0)

    def _healthy(self, uid: str, now_us: int) -> ServiceHealth | None:
        """The last report, with its age now; None where it is too old."""
        known = self._health.get(uid)
        if known is None:
            return None
        received_us, health = known
        age = health.age_us + max(0, now_us - received_us)
        return replace(health, age_us=age) if age <= self._settings.health_us else None

    def owner(self, group: str) -> NodePod | None:
        """The pod that a group belongs to: its own group, a container's, or one below those."""
        while group:
            uid = self._by_group.get(group)
            if uid is not None:
                return self._pods[uid]
            group = group.rpartition("/")[0]
        return None


def check_health(health: ServiceHealth) -> None:
    """Raises `InvalidInput` for an impossible report."""
    for name in ("window_us", "requests", "over_objective", "age_us"):
        if getattr(health, name) < 0:
            raise InvalidInput(name, getattr(health, name), "0 or more")
    if not 0 <= health.p99_us <= LONGEST_LATENCY_US:
        raise InvalidInput("p99_us", health.p99_us, f"0 to {LONGEST_LATENCY_US} microseconds")
    if health.over_objective > health.requests:
        raise InvalidInput("over_objective", health.over_objective, f"at most the {health.requests} requests")


def _groups_of(pod: NodePod) -> list[str]:
    return [group for group in (pod.group, *(container.group for container in pod.containers)) if group]


def _best_effort(use: GroupUse | None, sent_bps: int | None) -> GroupUse | None:
    return use if use is None or sent_bps is None else replace(use, network_sent_bps=sent_bps)


def common_group(pods: Sequence[NodePod], roots: Sequence[str]) -> str | None:
    """The group of all best-effort pods; None where no group below a root contains only them."""
    best_effort = [pod.group for pod in pods if pod.best_effort and pod.group]
    if not best_effort:
        return None
    others = _protected(pods)
    parents = [group.split("/")[:-1] for group in best_effort]
    shared: list[str] = []
    for parts in zip(*parents):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    group = "/".join(shared)
    if _is_exclusive(group, others, roots):
        return group
    return best_effort[0] if len(best_effort) == 1 and _is_exclusive(best_effort[0], others, roots) else None


def _protected(pods: Sequence[NodePod]) -> list[str]:
    """Groups of pods for which a limit of best-effort work is lifted from a group that holds them, too.

    A pod of the node itself without requests stands in the kubelet's best-effort group, on most nodes: it has to bear
    the group's limits, not to lift them.
    """
    return [
        group for pod in pods if not pod.best_effort and pod.qos is not QoSClass.SYSTEM for group in _groups_of(pod)
    ]


def _is_exclusive(group: str, others: Sequence[str], roots: Sequence[str]) -> bool:
    below_a_root = group not in roots and within(group, roots)
    return below_a_root and not any(within(other, (group,)) for other in others)
