"""What agent and scheduler do with `gpu_lending: {beside_percent: 50}` and `--gpu-neighbours`, called and not copied.

Every job asks for what is lent (`cotenant.io/lent-gpu`), every replica for its share. The agent's policy
(`engine/node/gpu_lending`) says what of each card is lent, whom it suspends beside a replica and who leaves; cards are
chosen by the scheduler's allocation (`policy/placement/devices`) on a ledger with the agent's offers. A job's share is
fixed when it starts, as MPS fixes it, and holds it on a card of its own as well. Who leaves writes a checkpoint.
Limits: one node, so nothing is preempted elsewhere; the agent looks every five seconds, on nodes every second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cotenant.engine.node.gpu_lending.policy import GpuLendingMemory, decide
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, DeviceAllocation
from cotenant.model.devices.card_need import CardNeed
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.request import device_requests
from cotenant.model.devices.shares import lent_threads_percent
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.knob import KnobTarget
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, LENT_GPU, Amounts
from cotenant.policy.placement.devices.allocation import ANY_ISOLATION, DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.strategy import LENT_STRATEGY, DeviceStrategy
from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.config import SECOND_US, WHOLE_MILLI
from cotenant_lab.gpuworld.serving import PPM
from cotenant_lab.gpuworld.sharing import WHOLE_PCT, Card, ReplicaPhase, ServerSignal

_MEMORY_BYTES = 80 << 30
_BUSY_PCT = 95  # of the time in which a replica's kernels run
_EARLIER_S = 1e7  # the agent has run for longer than the day
_WARM_S = 1200
_LATENCIES = 2  # of a request: its first token, and its time per token. A request misses where either is late


@dataclass(slots=True)
class BesideRule:
    """One agent and one scheduler over one machine's cards."""

    cards: int
    cards_per_root: int
    replica_pct: int
    replica_need: CardNeed
    settings: GpuLendingSettings
    leave_s: float  # in which who leaves writes a checkpoint
    permanent: bool = False
    sliced: bool = False
    alone: bool = False
    reads_signals: bool = True
    observed_every_s: int = 5
    _memory: GpuLendingMemory = field(default_factory=GpuLendingMemory)
    _suspended: frozenset[str] = frozenset()
    _ledger: DeviceLedger = field(init=False)
    _lent: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for at_s in range(-_WARM_S, 0, self.settings.measured_every_s):
            self.observed(float(at_s), [Card(number) for number in range(self.cards)], {})

    def replica_card(self, cards: Sequence[Card]) -> int:
        """The scheduler's choice, which sees who borrows only where cards are equal else."""
        self._hold(cards)
        found = allocate(self._ledger, self._ask({GPU: self.replica_pct}, self.replica_need, _replicas(cards)))
        assert isinstance(found, DeviceChoice), found
        return found.allocations[0].minor

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """The same, of what is lent. Memory that a job still has which was told to leave is not there yet."""
        self._hold(cards)
        full = frozenset(card.number for card in cards if card.free_pct < job.memory_pct)
        found = allocate(self._ledger, self._ask({LENT_GPU: self.share_pct(job)}, _need(job), full))
        return found.allocations[0].minor if isinstance(found, DeviceChoice) else None

    def share_pct(self, job: OfflineJob) -> int:
        """Its memory."""
        return job.memory_pct

    def limit_milli(self, job: OfflineJob) -> int:
        """Its multiprocessors; none while it is suspended."""
        if f"job-{job.number}" in self._suspended:
            return 0
        return lent_threads_percent(job.memory_pct, self.settings.beside_percent) * WHOLE_MILLI // WHOLE_PCT

    def ceiling_milli(self, card: Card, signal: ServerSignal | None) -> int:
        """Jobs have limits of their own."""
        return WHOLE_MILLI

    def measured(self, now_s: float, wanted: int, peak: int) -> None:
        """The agent sees its node, and nothing else."""

    def observed(
        self, now_s: float, cards: Sequence[Card], signals: Mapping[int, ServerSignal]
    ) -> Sequence[OfflineJob]:
        """One tick of the agent."""
        pods: list[PodUse] = []
        gpus = []
        for card in cards:
            number, uses = card.number, []
            signal = signals.get(number)
            if card.replica is not ReplicaPhase.NONE:
                pods.append(_server(card, signal))
                loaded = card.replica is not ReplicaPhase.STARTING
                uses.append(_use(f"server-{number}", card.replica_pct, _BUSY_PCT if loaded else 0))
            taken = _taken(card, self, signal)
            for job, sm_pct in zip(card.jobs, taken, strict=True):
                pods.append(_borrower(card, job, self.share_pct(job)))
                uses.append(_use(f"job-{job.number}", job.memory_pct, sm_pct))
            used = sum(use.memory_bytes for use in uses)
            gpus.append(GpuCounters(number, f"GPU-{number}", "A100", True, 0, _MEMORY_BYTES, used, pods=tuple(uses)))
        at_us = round((now_s + _EARLIER_S) * SECOND_US)
        interval_us = self.observed_every_s * SECOND_US
        state = NodeState(at_us, interval_us, HostUse(1, None, 1, 0), tuple(pods), gpus=tuple(gpus))
        verdict, self._memory = decide(state, self.settings, self._memory)
        self._suspended = frozenset(_uid(knob.target) for knob in verdict.knobs)
        self._offer(self._memory.percent())
        going = {eviction.uid for eviction in verdict.evictions}
        return [job for card in cards for job in card.jobs if f"job-{job.number}" in going]

    def _offer(self, percent: Mapping[str, int]) -> None:
        """The Device object with the agent's offers."""
        lent = tuple(percent.get(f"GPU-{number}", 0) for number in range(self.cards))
        if lent == self._lent:
            return
        devices = []
        for number in range(self.cards):
            total = {
                GPU_CORE: WHOLE_PCT,
                GPU_MEMORY: _MEMORY_BYTES,
                GPU_MEMORY_RATIO: WHOLE_PCT,
                LENT_GPU: lent[number],
            }
            root = str(number // self.cards_per_root)
            devices.append(Device(DeviceType.GPU, number, Amounts.of(total), True, 0, root))
        if self._lent:
            self._ledger = self._ledger.with_devices(devices)
        else:
            self._ledger = DeviceLedger.of(devices, isolation="mps", returns_s=self.settings.return_s)
        self._lent = lent

    def _ask(self, amounts: dict[str, int], need: CardNeed, without: frozenset[int]) -> DeviceAsk:
        others = sum(1 << number for number in range(self.cards) if number not in without)
        return DeviceAsk(
            device_requests(Amounts.of(amounts)),
            strategy=LENT_STRATEGY if LENT_GPU in amounts else DeviceStrategy.SPREAD,  # away from other replicas
            isolation=ANY_ISOLATION,
            required=((DeviceType.GPU, others),),
            need=need,
            grace_s=round(self.leave_s),
        )

    def _hold(self, cards: Sequence[Card]) -> None:
        """The cards' holders and borrowers, as the scheduler knows them."""
        wanted: dict[str, DeviceHolding] = {}
        for card in cards:
            if card.replica_pct:
                amounts = {GPU_CORE: card.replica_pct, GPU_MEMORY_RATIO: card.replica_pct}
                uid = f"server-{card.number}"
                wanted[uid] = _holding(uid, card.number, amounts, self.replica_need)
            for job in card.jobs:
                uid = f"job-{job.number}"
                wanted[uid] = _holding(uid, card.number, {LENT_GPU: self.share_pct(job)}, _need(job))
        there = {holding.uid: holding for holding in self._ledger.holdings}
        gone = [uid for uid, holding in there.items() if wanted.get(uid) != holding]
        ledger = self._ledger.returned_all(gone)
        for uid, holding in wanted.items():
            if uid not in there or uid in gone:
                ledger = ledger.observed(holding)
        self._ledger = ledger


def _holding(uid: str, card: int, amounts: dict[str, int], need: CardNeed) -> DeviceHolding:
    return DeviceHolding(uid, (DeviceAllocation(DeviceType.GPU, card, Amounts.of(amounts)),), need)


def _need(job: OfflineJob) -> CardNeed:
    return CardNeed(job.measured_sm_pct, job.measured_bandwidth_pct)


def _replicas(cards: Sequence[Card]) -> frozenset[int]:
    return frozenset(card.number for card in cards if card.replica is not ReplicaPhase.NONE)


def _server(card: Card, signal: ServerSignal | None) -> PodUse:
    name = f"server-{card.number}"
    written = _written(card.number, GPU_MEMORY_RATIO, card.replica_pct)
    pod = NodePod(name, "lab", name, name, QoSClass.LS, objective_p99_us=PPM, workload="server", annotations=written)
    if signal is None or card.replica is ReplicaPhase.STARTING:
        return PodUse(pod, GroupUse(name))
    requests = -(-signal.requests // _LATENCIES)
    health = ServiceHealth(signal.window_us, requests, signal.p99_ppm, min(requests, signal.over), 0)
    return PodUse(pod, GroupUse(name), health=health)


def _borrower(card: Card, job: OfflineJob, share_pct: int) -> PodUse:
    name = f"job-{job.number}"
    written = _written(card.number, LENT_GPU, share_pct)
    return PodUse(NodePod(name, "lab", name, name, QoSClass.BE, annotations=written), GroupUse(name))


@lru_cache(maxsize=1024)
def _written(card: int, resource: str, percent: int) -> Labels:
    given = {resource: str(percent)}
    return Labels.of({DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": card, "resources": given}]})})


def _taken(card: Card, rule: BesideRule, signal: ServerSignal | None) -> list[int]:
    """Percent of multiprocessors that each job on a card had: beside a replica, of what they had together."""
    wanted = [min(job.sm, rule.limit_milli(job) / WHOLE_MILLI) for job in card.jobs]
    if signal is None or not sum(wanted):
        return [round(WHOLE_PCT * part) for part in wanted]
    return [round(signal.jobs_sm_milli / WHOLE_MILLI * WHOLE_PCT * part / sum(wanted)) for part in wanted]


def _use(uid: str, memory_pct: int, sm_pct: int) -> GpuPodUse:
    return GpuPodUse(uid, memory_pct * _MEMORY_BYTES // WHOLE_PCT, sm_pct, sm_pct)


def _uid(target: KnobTarget) -> str:
    return target.group
