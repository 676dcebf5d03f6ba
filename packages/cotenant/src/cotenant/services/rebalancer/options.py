"""What a rebalancer's process is started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.tls import Tls
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.autonomy.autonomy import MoveMode
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.services.kube_process.span_target import SpanTarget
from cotenant.services.rebalancer.configuration import DEFAULT

LISTEN = Address("127.0.0.1", 10264)

COMPONENT = "cotenant-rebalancer"


@dataclass(frozen=True, slots=True)
class RebalancerOptions:
    """What may be set of the process."""

    profile: PlacementProfile
    names: dict[str, PlacementProfile]
    listen: Address = LISTEN
    tls: Tls | None = None
    settings: RebalancerSettings = DEFAULT
    load_aware: LoadAwareSettings | None = None
    workload_kinds: tuple[WorkloadKind, ...] = ()
    seals: Seals = NO_SEALS
    acts: bool = False  # False = dry run
    mode: MoveMode = MoveMode.ACT
    span_target: SpanTarget | None = None  # of rounds and moves; None = no spans


@dataclass(slots=True)
class RoundTotals:
    """Counts of the rounds so far, and the last plan."""

    number: int = 0
    planned: int = 0
    created: int = 0
    seconds: float = 0.0
    last: MovePlan | None = None
    writes: dict[str, int] = field(default_factory=lambda: {"done": 0, "refused": 0, "conflict": 0})
    helped: dict[str, int] = field(default_factory=lambda: {"True": 0, "False": 0, "Unknown": 0})
