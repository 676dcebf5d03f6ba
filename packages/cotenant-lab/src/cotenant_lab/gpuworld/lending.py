"""Dedicated cards whose idle ones are lent: the agent's own lending (`engine/node/gpu_lending`), called and not copied.

The service holds cards for its peak, as under `dedicated`, but its autoscaler starts replicas on as many as it wants;
the others are allocated and idle. What the policy offers of these is lent to jobs, up to its stated risk; the remaining
cards are the jobs' own. A replica that starts on a card with borrowers waits until these have written a checkpoint.
The policy sees what the agent would: which pod was given which card, and what each uses of it.
Limits: no borrower beside a replica: the driver's share of time with a kernel is near 100 % there at any load.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cotenant.engine.node.gpu_lending.policy import GpuLendingMemory, decide
from cotenant.engine.node.gpu_lending.settings import GpuLendingSettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, LENT_GPU
from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.config import SECOND_US, WHOLE_MILLI
from cotenant_lab.gpuworld.sharing import WHOLE_PCT, Card, ReplicaPhase, ServerSignal

_MEMORY_BYTES = 80 << 30
_BUSY_PCT = 95  # of the time in which a replica's kernels run


@dataclass(slots=True)
class LentRule:
    """The service's cards are the first `held`."""

    held: int
    replica_pct: int
    settings: GpuLendingSettings
    jobs_per_card: int
    leave_s: float  # in which a borrower writes its checkpoint
    permanent: bool = False
    sliced: bool = False
    alone: bool = True
    reads_signals: bool = False
    observed_every_s: int = 10
    _memory: GpuLendingMemory = field(default_factory=GpuLendingMemory)

    def replica_card(self, cards: Sequence[Card]) -> int:
        """A held card without borrowers, else the one whose borrower began last."""
        free = [card for card in cards[: self.held] if card.replica is ReplicaPhase.NONE]
        for card in free:
            if not card.jobs:
                return card.number
        return max(free, key=lambda card: (card.youngest().started_s, card.youngest().number)).number

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """The first of the jobs' own cards, then the first with as much lent."""
        for card in (*cards[self.held :], *cards[: self.held]):
            if card.replica is ReplicaPhase.NONE and len(card.jobs) < self.jobs_per_card:
                taken = sum(one.memory_pct for one in card.jobs)
                if taken + job.memory_pct <= (WHOLE_PCT if card.number >= self.held else self._lent(card.number)):
                    return card.number
        return None

    def ceiling_milli(self, card: Card, signal: ServerSignal | None) -> int:
        """Nobody is beside a replica."""
        return WHOLE_MILLI

    def measured(self, now_s: float, wanted: int, peak: int) -> None:
        """Two days before are days of these cards as well: the first `wanted` of them were in use."""
        if now_s < 0:
            for minute in range(10):
                at_s = now_s + 60.0 * (minute - 9)
                self._decide(at_s, [(number, number < wanted, ()) for number in range(self.held)])

    def share_pct(self, job: OfflineJob) -> int:
        """Its memory."""
        return job.memory_pct

    def limit_milli(self, job: OfflineJob) -> int:
        """None: it is alone on its card, or with others of its kind."""
        return WHOLE_MILLI

    def observed(
        self, now_s: float, cards: Sequence[Card], signals: Mapping[int, ServerSignal]
    ) -> Sequence[OfflineJob]:
        """One look at the held cards; the jobs that are to leave."""
        seen = [(card.number, card.replica is not ReplicaPhase.NONE, card.jobs) for card in cards[: self.held]]
        going = self._decide(now_s, seen)
        return [job for card in cards[: self.held] for job in card.jobs if f"job-{job.number}" in going]

    def _decide(self, now_s: float, cards: Sequence[tuple[int, bool, Sequence[OfflineJob]]]) -> frozenset[str]:
        pods, gpus = [], []
        for number, is_used, jobs in cards:
            pods.append(_pod(f"server-{number}", number, {GPU_CORE: WHOLE_PCT, GPU_MEMORY_RATIO: WHOLE_PCT}))
            pods += [_pod(f"job-{job.number}", number, {LENT_GPU: job.memory_pct}) for job in jobs]
            uses = [_use(f"server-{number}", self.replica_pct, _BUSY_PCT)] if is_used else []
            uses += [_use(f"job-{job.number}", job.memory_pct, round(job.sm * WHOLE_PCT)) for job in jobs]
            gpus.append(GpuCounters(number, f"GPU-{number}", "A100", True, 0, _MEMORY_BYTES, 0, pods=tuple(uses)))
        at_us = round((now_s + 1e7) * SECOND_US)  # days before the first are in the past
        state = NodeState(at_us, SECOND_US, HostUse(1, None, 1, 0), tuple(pods), gpus=tuple(gpus))
        verdict, self._memory = decide(state, self.settings, self._memory)
        return frozenset(eviction.uid for eviction in verdict.evictions)

    def _lent(self, number: int) -> int:
        return self._memory.percent().get(f"GPU-{number}", 0)


def _pod(name: str, card: int, amounts: dict[str, int]) -> PodUse:
    given = json.dumps({"gpu": [{"minor": card, "resources": {key: str(part) for key, part in amounts.items()}}]})
    return PodUse(NodePod(name, "lab", name, name, annotations=Labels.of({DEVICE_ALLOCATED: given})), GroupUse(name))


def _use(uid: str, memory_pct: int, sm_pct: int) -> GpuPodUse:
    return GpuPodUse(uid, memory_pct * _MEMORY_BYTES // WHOLE_PCT, sm_pct, sm_pct)
