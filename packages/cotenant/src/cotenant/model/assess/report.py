"""What is said of a cluster. Amounts are milli-CPU and MiB, as the engine has them; pages show cores and GiB."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.assess.figure import AssessedFigure
from cotenant.model.assess.what_if import WhatIfs


@dataclass(frozen=True, slots=True)
class ReportSource:
    """Where a report's facts are from."""

    taken: str  # RFC 3339
    cluster: str  # in words
    server: str  # version
    use: str  # where use over time is from, a sentence
    is_anonymised: bool
    lacking: tuple[str, ...]  # what could not be read, a sentence each
    notes: tuple[str, ...]  # what a reader must know


@dataclass(frozen=True, slots=True)
class ShapeRoom:
    """Room for one more pod of a shape: what pods request together. Stranded is what is free on nodes where it does
    not fit.
    """

    cpu_m: int
    memory_mib: int
    pods: int  # that have this shape
    more: int  # that would fit
    stranded_cpu_m: int
    stranded_memory_mib: int


@dataclass(frozen=True, slots=True)
class WorkloadUse:
    """A workload's requests against its use. Times of use are None where use was not measured."""

    name: str  # namespace/kind/name
    pods: int
    cpu_request_m: int
    memory_request_mib: int
    cpu_p50_m: float | None
    cpu_p95_m: float | None
    cpu_p99_m: float | None
    cpu_peak_m: tuple[float, float] | None  # the smallest and the largest of the days' peaks
    memory_p99_mib: float | None
    peak_hours: tuple[int, ...]  # of the day, UTC, that set the peak
    idle_cpu_m: float | None  # requested beyond the p99 of use, or beyond the last measurements
    idle_memory_mib: float | None


@dataclass(frozen=True, slots=True)
class Lendable:
    """What could be lent of one resource to one class, over the whole cluster."""

    name: str  # class and resource
    unit: str
    ours: AssessedFigure
    koordinator: AssessedFigure
    in_use: float | None = None  # of `ours`, what pods of the class use already; None = not known


class WaitCause(StrEnum):
    """What pods wait for; only `ROOM` is a lack of room."""

    NOTHING = "nothing"  # they are placed as soon as they are judged
    ROOM = "room"
    RULES = "their rules"  # affinity, taints, spread, volumes
    QUOTA = "a quota"
    GATE = "a gate"
    POD = "what they ask for"  # which cannot be judged


@dataclass(frozen=True, slots=True)
class PendingPods:
    """Pods that wait for the same reason. Those that a ResourceQuota refuses do not exist yet."""

    why: str
    pods: int
    placed_now: int  # that cotenant would place on the nodes as they are
    placed_lent: int | None  # with the lendable room too; None = that is not known
    holder: WaitCause


@dataclass(frozen=True, slots=True)
class EmptiedNode:
    """A node that would be empty, with where its pods go."""

    node: str
    pods: int
    targets: int


@dataclass(frozen=True, slots=True)
class RefusedNodes:
    """Why nodes are not emptied, with how many."""

    why: str
    nodes: int
    example: str  # a pod


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Which nodes could be emptied one after another, each whole."""

    empty_nodes: tuple[str, ...]  # that have no pods to move already
    considered: int  # other nodes, of which at most half is requested
    emptied: tuple[EmptiedNode, ...]
    refused: tuple[RefusedNodes, ...]
    cpu_m: int  # allocatable of the emptied nodes
    memory_mib: int
    note: str = ""
    basis: str = "by requests alone"  # what the pods must fit by


@dataclass(frozen=True, slots=True)
class Cards:
    """Devices of one kind."""

    kind: str
    cards: int
    allocated: float  # cards, of which parts may be allocated
    shared: int  # cards that are allocated in parts
    used: AssessedFigure
    shareable: AssessedFigure


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A pod that the engine would place elsewhere today, by its score."""

    pod: str
    node: str
    better: str  # node
    place: int  # of its node among those that fit; 0 = it does not fit there
    of: int
    why: str  # the term of the score that differs most, or what rejects the pod


@dataclass(frozen=True, slots=True)
class AssessedPlacement:
    """The engine asked anew for running pods, one at a time."""

    asked: int
    rejected: int  # whose own node would not take them today
    worse_half: int  # whose node is in the worse half of those that fit
    elsewhere: tuple[Elsewhere, ...]  # those with the worst places first
    share: AssessedFigure


@dataclass(frozen=True, slots=True)
class AdvisedMove:
    """What a rebalancer would move in the first hour."""

    pod: str
    node: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What one rule's predictions were worth on the past; percents of time and of capacity, None where not known."""

    name: str
    risk_pct: float | None  # of the time in which use was above what was predicted
    pinball_pct: float | None
    lent_pct: float | None
    squeezed_pct: float | None


@dataclass(frozen=True, slots=True)
class PastTrial:
    """Our rule and rivals on the first part of the history, judged by the rest. `scores[0]` is ours."""

    resource: str
    scores: tuple[Tried, ...]
    verdict: str
    told: str = ""  # what the manager would have lent on one day, and what of it would have been squeezed


@dataclass(frozen=True, slots=True)
class EmptyingTried:
    """What one rule would have emptied by the first half of the history, and what came of it in the second."""

    rule: str
    nodes: tuple[str, ...]  # in the order in which they would have been emptied
    moved: int  # pods
    squeezed: AssessedFigure  # percent of pod-steps
    before_pct: float  # the same without any move
    overflowed: int  # nodes whose use was above their capacity at some time
    peak_pct: float | None  # highest use of a node that took pods in, of its capacity; None = there is none
    late: int  # pods that came later
    unplaced: int  # of those, found no place


@dataclass(frozen=True, slots=True)
class EmptyingTrial:
    """A consolidation tried on the past; `rules[0]` is the plan's."""

    resource: str
    rules: tuple[EmptyingTried, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class SizeTried:
    """Sizes by one rule against the next day's peaks, percent; None = not known."""

    rule: str
    short_pct: float | None  # of workloads: above their size for longer than the risk
    over_pct: float | None  # beyond the peaks, of their sum
    loss_pct: float | None  # of a workload's mean use


@dataclass(frozen=True, slots=True)
class SizeTrial:
    """Sizes tried on the past; `rules[0]` is ours."""

    resource: str
    workloads: int  # judged
    rules: tuple[SizeTried, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Spending:
    """A month of some pods: what they pay for, use, leave idle, and what of that could be lent."""

    name: str
    pods: int
    paid: float
    used: float
    idle: float
    lent: float
    unmeasured: int  # pods that count as wholly used
    unpriced: int  # pods on nodes without a price, which are left out


@dataclass(frozen=True, slots=True)
class Saving:
    """What a step of the plan saves in a month, and how."""

    step: str
    month: float
    how: str


@dataclass(frozen=True, slots=True)
class Money:
    """A month, by the prices that were given. Groups: those that pay most."""

    currency: str
    nodes: float  # all that have a price
    unpriced_nodes: int
    pods: Spending  # all
    free: float  # what nobody asked for
    free_lent: float  # of it, what could be lent
    emptied: float  # of the nodes that could be emptied
    namespaces: tuple[Spending, ...]
    tenants: tuple[Spending, ...]  # empty where no pod names one
    workloads: tuple[Spending, ...]
    savings: tuple[Saving, ...]  # by step of the plan, each beside the others
    left_out: tuple[str, ...]  # prices of something else, sentences


@dataclass(frozen=True, slots=True)
class EnergyOf:
    """A day's energy of some pods: the mean of the days."""

    name: str
    kwh_a_day: float


@dataclass(frozen=True, slots=True)
class EnergyGroups:
    """Those with most first; tenants are empty where no pod names one."""

    tenants: tuple[EnergyOf, ...]
    namespaces: tuple[EnergyOf, ...]
    workloads: tuple[EnergyOf, ...]


@dataclass(frozen=True, slots=True)
class NextStep:
    """A next step: a command, how to take it back, and what it risks."""

    title: str
    command: str
    back: str  # in words
    risk: str
    back_command: str = ""  # "" = there is nothing to take back


@dataclass(frozen=True, slots=True)
class AssessmentReport:
    """All of it."""

    source: ReportSource
    nodes: int
    pods: int
    figures: tuple[AssessedFigure, ...]
    shapes: tuple[ShapeRoom, ...]
    workloads: tuple[WorkloadUse, ...]  # the largest by requests
    idle: tuple[WorkloadUse, ...]  # the ten that hold most idle
    lendable: tuple[Lendable, ...]
    waiting: tuple[PendingPods, ...]
    placement: AssessedPlacement
    consolidation: Consolidation
    cards: tuple[Cards, ...]
    moves: tuple[AdvisedMove, ...]
    moves_note: str
    back_test: PastTrial | None  # None = no history of days
    steps: tuple[NextStep, ...]
    money: Money | None  # None = no prices were given
    energy: EnergyGroups | None  # None = the figures of energy say why
    risk: float
    what_ifs: WhatIfs | None = None  # None = none were asked
    emptying: EmptyingTrial | None = None  # None = no history of pods over two days
    sizes: SizeTrial | None = None  # the same
