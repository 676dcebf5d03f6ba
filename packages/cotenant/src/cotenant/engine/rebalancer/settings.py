"""What a rebalancer's configuration sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.engine.migration.contracts import MigrationSettings
from cotenant.model.cluster.labels import LabelSelector
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.migration import JobMode
from cotenant.model.machine.use_targets import BEST_EFFORT_TARGET_PERCENT
from cotenant.model.resources import CPU_NAME
from cotenant.policy.rebalance.loads.pools import NodePool
from cotenant.policy.rebalance.migration.evictable import EvictionFilter
from cotenant.policy.rebalance.objectives import MissSettings
from cotenant.policy.rebalance.violations.contract import ViolationRule


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """How many pods may move at a time; 0 or None = no limit. The `round_` limits count the moves of one round."""

    globally: int | None = None
    per_node: int | None = 2
    per_namespace: int | None = None
    round_total: int | None = None
    round_per_node: int | None = None
    round_per_namespace: int | None = None


@dataclass(frozen=True, slots=True)
class ActingSettings:
    """How moves are carried out. `acts` None = the configuration does not say."""

    acts: bool | None = None
    interval_s: float = 120.0  # between rounds of planning
    mode: JobMode = JobMode.RESERVATION_FIRST
    ttl_s: float = 300.0  # of jobs; 0 = no limit
    grace_s: int | None = None  # of the evicted pods; None = their own
    evictions_per_s: float = 10.0
    burst: int = 1
    migration: MigrationSettings = field(default_factory=MigrationSettings)
    ignored: tuple[str, ...] = ()  # settings without effect


@dataclass(frozen=True, slots=True)
class PodScope:
    """Whose pods a kind of moves is about; nothing set = all."""

    include: tuple[str, ...] = ()  # namespaces
    exclude: tuple[str, ...] = ()
    selector: LabelSelector | None = None

    def covers(self, pod: Pod) -> bool:
        """Whether the pod is in scope."""
        outside = (self.include and pod.namespace not in self.include) or pod.namespace in self.exclude
        return not outside and (self.selector is None or self.selector.matches(pod.labels))


@dataclass(frozen=True, slots=True)
class Packing:
    """HighNodeUtilization: nodes with requests at or below all of these percentages are emptied."""

    thresholds: Mapping[str, float]
    number_of_nodes: int = 0
    most: int = 1  # nodes a round
    scope: PodScope = field(default_factory=PodScope)


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Room for pods that wait."""

    waits_s: float = 60.0  # pods that have waited for less are left to the scheduler
    max_pods: int = 4  # that move for one waiting pod
    max_waiting: int = 4  # waiting pods, or gangs, a round
    scope: PodScope = field(default_factory=PodScope)  # of the pods that wait


@dataclass(frozen=True, slots=True)
class MissedObjectives:
    """Pods whose objective keeps being missed."""

    misses: MissSettings = field(default_factory=MissSettings)
    most: int = 4  # victims a round
    neighbours: int = 4  # that may move instead, for each victim
    # Of the pods with an objective that may be moved an hour, kept for up to a day; None = no limit.
    hour_share: float | None = None
    scope: PodScope = field(default_factory=PodScope)  # of the victims


@dataclass(frozen=True, slots=True)
class MoveKinds:
    """The kinds of moves other than LowNodeLoad; None and absent = not done."""

    repairs: Mapping[ViolationRule, PodScope] = field(default_factory=dict)
    excluded_taints: tuple[str, ...] = ()  # keys, or key=value
    objectives: MissedObjectives | None = None
    defragmentation: Defragmentation | None = None
    packing: Packing | None = None

    def __bool__(self) -> bool:
        return bool(self.repairs or self.objectives or self.defragmentation or self.packing)


@dataclass(frozen=True, slots=True)
class RebalancerSettings:
    """One profile with LowNodeLoad, other kinds of moves, and the filters and limits of MigrationController."""

    pools: tuple[NodePool, ...]
    number_of_nodes: int = 0
    node_fit: bool = True
    min_relief_percent: float = (
        1.0  # of a node: below it neither an excess nor what a pod would free is worth a restart
    )
    expires_s: float = 180.0  # of a node's measurement
    include: tuple[str, ...] = ()  # namespaces whose pods LowNodeLoad moves; empty = all
    exclude: tuple[str, ...] = ()
    pod_selectors: tuple[LabelSelector, ...] = ()  # any must select the pod; empty = every pod
    node_selector: LabelSelector | None = None  # of the profile; None = every node
    filter: EvictionFilter = field(default_factory=EvictionFilter)
    limits: MoveLimits = field(default_factory=MoveLimits)
    acting: ActingSettings = field(default_factory=ActingSettings)
    kinds: MoveKinds = field(default_factory=MoveKinds)
    surges: bool = False  # the only replica of a Deployment moves by a rollout that starts its replacement first
    not_applied: tuple[str, ...] = ()  # settings that only matter where moves are carried out

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is probably not meant, as sentences: a node that is used as its agent is told to is relieved."""
        return tuple(
            f"{pool.name}: highThresholds.cpu {high:g} is not above the {BEST_EFFORT_TARGET_PERCENT} % of a node up to "
            "which best-effort work is given CPU by default: nodes that are used as meant will be relieved; name more "
            "than the cpuSuppressThresholdPercent of your NodeSLOs"
            for pool in self.pools
            for high in (pool.percentages.high.get(CPU_NAME),)
            if high is not None and not pool.percentages.deviation and high <= BEST_EFFORT_TARGET_PERCENT
        )
