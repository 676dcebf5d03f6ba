"""Ours: the policies of the product, called and not copied.

- Placement of shares: `policy/placement/devices/allocation.py` on one node's ledger, with preemption as a scheduler
  tries it: the youngest job's share counts as free, then the next.
- Lending at a risk: `policy/overcommit/peak.py` on the cards that the service may ask for, measured every ten minutes;
  a job that leaves a card without room for a replica starts only on a card that is lent. Nothing lent is evicted for
  that alone.
- Placement by need (`replica_need`): the same allocation is told what a job and a replica take of a card, as earlier
  runs were measured, and keeps like-bound neighbours apart (`policy/placement/devices/neighbours.py`).
- The guard: `policy/nodeqos/guard/policy.py` on each card with a replica. Its amount is the card's multiprocessors in
  place of a node's CPU, its signal the replica's latencies over their objectives.

- Headroom (`beside_milli`): beside a replica jobs never have more than this, whatever the guard allows.
  A share of `gpu-core` that MPS holds is such a limit, though on a card of the job's own as well.

Limits: the ceiling is one that running jobs follow at once; MPS takes a new percentage only for clients that start from
then on, so no node does this. What nodes do is in `beside.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.request import device_requests
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, Amounts
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.policy import GuardMemory, judge
from cotenant.policy.overcommit.peak import (
    LearntPool,
    MeasuredPodUse,
    PeakHistory,
    PeakSettings,
    new_history,
    new_pool,
    observe,
    peak_amount,
)
from cotenant.policy.placement.devices.allocation import ANY_ISOLATION, DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod
from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.config import SECOND_US, WHOLE_MILLI
from cotenant_lab.gpuworld.sharing import Card, ReplicaPhase, ServerSignal

_MEASURED_S = 600.0
_PPM = 1_000_000


@dataclass(slots=True)
class CotenantRule:
    """The product's policies over one machine's cards."""

    cards: int
    cards_per_root: int
    replica_pct: int
    usual: tuple[UsualPod, ...]
    guard: GuardConfig
    peak: PeakSettings
    lends_at_risk: bool = True
    replica_need: CardNeed | None = None  # None: needs are not looked at
    beside_milli: int = WHOLE_MILLI  # most multiprocessors of the jobs beside a replica
    strategy: DeviceStrategy = DeviceStrategy.FRAGMENTATION
    permanent: bool = False
    sliced: bool = False
    alone: bool = False
    reads_signals: bool = True
    leave_s: float = 0.0
    observed_every_s: int = 10
    _memories: dict[int, GuardMemory] = field(default_factory=dict)
    _history: PeakHistory = field(init=False)
    _pool: LearntPool = field(init=False)
    _lent: int = 0
    _idle: DeviceLedger = field(init=False)
    _known: DeviceLedger | None = None

    def __post_init__(self) -> None:
        total = Amounts.of({GPU_CORE: 100, GPU_MEMORY: 80 << 30, GPU_MEMORY_RATIO: 100})
        roots = [str(number // self.cards_per_root) for number in range(self.cards)]
        devices = [Device(DeviceType.GPU, number, total, True, 0, root) for number, root in enumerate(roots)]
        self._idle = DeviceLedger.of(devices, isolation="mps")
        self._history = new_history(self.peak)
        self._pool = new_pool(self.peak, 3600.0 / _MEASURED_S)

    def measured(self, now_s: float, wanted: int, peak: int) -> None:
        """Learn, and say how many cards may be lent until the next measurement."""
        pods = {"service": MeasuredPodUse(PriorityClass.PROD, peak * WHOLE_MILLI, wanted * WHOLE_MILLI)}
        capacity = self.cards * WHOLE_MILLI
        self._history, self._pool = observe(self._history, self._pool, pods, capacity, self.peak, now_s)
        amount = peak_amount("gpu-core", self._history, self._pool, pods, capacity, 0, self.peak)
        self._lent = amount.value // WHOLE_MILLI

    def observed(
        self, now_s: float, cards: Sequence[Card], signals: Mapping[int, ServerSignal]
    ) -> Sequence[OfflineJob]:
        """Nobody leaves but for a replica."""
        return ()

    def share_pct(self, job: OfflineJob) -> int:
        """Its memory."""
        return job.memory_pct

    def limit_milli(self, job: OfflineJob) -> int:
        """None of its own."""
        return WHOLE_MILLI

    def replica_card(self, cards: Sequence[Card]) -> int:
        """The allocation's card; where there is none, with the youngest jobs' shares counted as free."""
        ledger = self._ledger(cards)
        youngest = sorted((job for card in cards for job in card.jobs), key=lambda job: (-job.started_s, -job.number))
        with_replica = frozenset(card.number for card in cards if card.replica is not ReplicaPhase.NONE)
        for given_up in range(len(youngest) + 1):
            gone = {f"job-{job.number}" for job in youngest[:given_up]}
            free = tuple(part for holding in ledger.holdings if holding.uid in gone for part in holding.allocations)
            ask = replace(self._ask(self.replica_pct, ledger, with_replica), preemptible=free, need=self._replica_need)
            found = allocate(ledger, ask)
            if isinstance(found, DeviceChoice):
                return found.allocations[0].minor
        raise RuntimeError("more replicas than cards")

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """The allocation's card, if it is lent where the job fills it."""
        if all(card.free_pct < job.memory_pct for card in cards):
            return None
        ledger = self._ledger(cards)
        not_lent: frozenset[int] = frozenset()
        if self.lends_at_risk:
            filled = sum(1 for card in cards if self._is_filled(card, 0))
            if filled >= self._lent:
                not_lent = frozenset(card.number for card in cards if self._is_new_loss(card, job.memory_pct))
        ask = replace(self._ask(job.memory_pct, ledger, not_lent), need=self._need(job))
        found = allocate(ledger, ask)
        return found.allocations[0].minor if isinstance(found, DeviceChoice) else None

    def ceiling_milli(self, card: Card, signal: ServerSignal | None) -> int:
        """The guard's ceiling of the card."""
        if signal is None:
            self._memories.pop(card.number, None)
            return WHOLE_MILLI
        before = self._memories.get(card.number, GuardMemory())
        ceiling, self._memories[card.number] = judge(_node_state(signal), self.guard, before)
        return min(ceiling.cpu_m, self.beside_milli)

    @property
    def _replica_need(self) -> CardNeed:
        return self.replica_need or NO_NEED

    def _need(self, job: OfflineJob) -> CardNeed:
        return CardNeed(job.measured_sm_pct, job.measured_bandwidth_pct) if self.replica_need else NO_NEED

    def _is_filled(self, card: Card, more_pct: int) -> bool:
        return card.replica is ReplicaPhase.NONE and card.free_pct - more_pct < self.replica_pct

    def _is_new_loss(self, card: Card, memory_pct: int) -> bool:
        return self._is_filled(card, memory_pct) and not self._is_filled(card, 0)

    def _ask(self, percent: int, ledger: DeviceLedger, without: frozenset[int]) -> DeviceAsk:
        requests = device_requests(Amounts.of({GPU: percent}))
        others = sum(1 << number for number in range(self.cards) if number not in without)
        required = ((DeviceType.GPU, others),) if without else ()
        return DeviceAsk(
            requests,
            strategy=self.strategy,
            usual=self.usual,
            isolation=ANY_ISOLATION,
            required=required,
        )

    def _ledger(self, cards: Sequence[Card]) -> DeviceLedger:
        """The cards' holders as the scheduler knows them: every share is enforced on this node."""
        ledger = self._idle if self._known is None else self._known
        held = {
            f"replica-{card.number}": (card.number, card.replica_pct, self._replica_need)
            for card in cards
            if card.replica_pct
        }
        held |= {
            f"job-{job.number}": (card.number, job.memory_pct, self._need(job)) for card in cards for job in card.jobs
        }
        where = {holding.uid: holding.allocations[0].minor for holding in ledger.holdings}
        ledger = ledger.returned_all([uid for uid, minor in where.items() if held.get(uid, (None,))[0] != minor])
        kept = {holding.uid for holding in ledger.holdings}
        for uid, (minor, percent, need) in held.items():
            if uid not in kept:
                ask = DeviceAsk(device_requests(Amounts.of({GPU: percent})), required=((DeviceType.GPU, 1 << minor),))
                found = allocate(ledger, ask)
                assert isinstance(found, DeviceChoice), found
                ledger = ledger.given(DeviceHolding(uid, found.allocations, need))
        self._known = ledger
        return ledger


def _node_state(signal: ServerSignal) -> NodeState:
    """A card as a node that the guard judges: 1000 m are its multiprocessors."""
    health = ServiceHealth(signal.window_us, signal.requests, signal.p99_ppm, signal.over, 0)
    server = NodePod("server", "lab", "server", "server", qos=QoSClass.LS, objective_p99_us=_PPM)
    jobs = NodePod("jobs", "lab", "jobs", "jobs", qos=QoSClass.BE)
    return NodeState(
        signal.now_us,
        5 * SECOND_US,
        HostUse(1, None, 1, 0),
        (
            PodUse(server, GroupUse("server"), health=health if signal.requests else None),
            PodUse(jobs, GroupUse("jobs", cpu_m=signal.jobs_sm_milli)),
        ),
    )
