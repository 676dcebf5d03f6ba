"""What a rule of sharing decides, and the rivals' rules.

A rule sees memory, which pods state, and of a model server what a guard would be told; never what a job keeps busy. It
names a card for a replica and for a job; the world evicts, youngest first, what is in a replica's way.

- dedicated: cards for the peak's replicas, always there; jobs on the others.
- spot: jobs on cards without a replica, `reserve` of which stay idle; evicted when the autoscaler needs the card.
- mps-blind: jobs wherever their memory fits, also beside a replica, without a limit of multiprocessors.
- mps-fixed: the same, with one percentage of active threads for the jobs beside a replica.
- time-slice: as mps-blind, in turns with the replica.
- fgd: as mps-blind, on the card by fragmentation gradient descent (the lab's own, `baselines/fgd.py`), with memory as
  the share.
- gfs: as spot, within a quota by forecast, evicted by cost (`gfs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np

from cotenant.policy.placement.devices.strategy import UsualPod
from cotenant.policy.placement.gpu.fragmentation import GpuMix, GpuWeights, mix_of
from cotenant.policy.placement.gpu.state import ANY_MODEL, MAX_DEVICES, GpuNodeArrays, GpuShapes
from cotenant_lab.baselines.fgd import TYPICAL_COVER, GpuRule, node_term, score_node
from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.config import WHOLE_MILLI, GpuWorldConfig

WHOLE_PCT = 100
_NO_WEIGHTS = GpuWeights(0.0, 0.0, 0.0, 1, 0.0)  # FGD has none


class ReplicaPhase(IntEnum):
    """What a card has of the model server."""

    NONE = 0
    STARTING = 1
    SERVING = 2
    DRAINING = 3


@dataclass(slots=True)
class Card:
    """One card as rules see it."""

    number: int
    replica: ReplicaPhase = ReplicaPhase.NONE
    replica_pct: int = 0  # memory of its replica
    jobs: list[OfflineJob] = field(default_factory=list)

    @property
    def free_pct(self) -> int:
        """Memory that nobody holds."""
        return WHOLE_PCT - self.replica_pct - sum(job.memory_pct for job in self.jobs)

    def youngest(self) -> OfflineJob:
        """The job that started last."""
        return max(self.jobs, key=lambda job: (job.started_s, job.number))


@dataclass(frozen=True, slots=True)
class ServerSignal:
    """What is known of one replica over the last seconds. Latencies are over their objective, in millionths."""

    now_us: int
    window_us: int
    requests: int
    p99_ppm: int
    over: int
    jobs_sm_milli: int  # multiprocessors that the jobs beside it have


class SharingRule(Protocol):
    """One way of sharing the cards. May have a memory; made anew for each run."""

    permanent: bool  # the peak's replicas are always there
    sliced: bool
    alone: bool  # no job beside a replica
    reads_signals: bool  # of replicas, to set ceilings
    leave_s: float  # in which an evicted job writes a checkpoint, and a replica waits for it; 0: it is ended at once
    observed_every_s: int

    def replica_card(self, cards: Sequence[Card]) -> int:
        """The card for a new replica, one without a replica; jobs in its way are evicted."""

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """The card for a job, or None: it waits."""

    def ceiling_milli(self, card: Card, signal: ServerSignal | None) -> int:
        """What the jobs on a card may have of its multiprocessors. No signal: no replica with jobs beside it."""

    def measured(self, now_s: float, wanted: int, peak: int) -> None:
        """Every ten minutes: the most replicas that were wanted since, and how many the service may ask for."""

    def observed(
        self, now_s: float, cards: Sequence[Card], signals: Mapping[int, ServerSignal]
    ) -> Sequence[OfflineJob]:
        """Every `observed_every_s`: the jobs that are to leave now. `signals`: of replicas, by card."""

    def share_pct(self, job: OfflineJob) -> int:
        """What a job asks for, percent of a card: who asks for less fits wherever it does."""

    def limit_milli(self, job: OfflineJob) -> int:
        """What a job may have of multiprocessors, wherever it is: from its start and every `observed_every_s`."""


@dataclass(slots=True)
class PlainRule:
    """The rivals that go by memory alone."""

    permanent: bool = False
    sliced: bool = False
    alone: bool = False
    jobs_per_card: int = 1
    reserve: int = 0  # cards that stay idle
    fixed_milli: int = WHOLE_MILLI  # beside a replica
    reads_signals: bool = False
    leave_s: float = 0.0
    observed_every_s: int = 10

    def replica_card(self, cards: Sequence[Card]) -> int:
        """An idle card, the first on which it fits, else the card of the youngest job."""
        return plain_replica_card(cards, self.alone)

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """The first that fits."""
        return next(iter(self.fitting(cards, job)), None)

    def fitting(self, cards: Sequence[Card], job: OfflineJob) -> list[int]:
        """The cards that this rule allows for a job."""
        idle = sum(1 for card in cards if not card.jobs and card.replica is ReplicaPhase.NONE)
        return [
            card.number
            for card in cards
            if job.memory_pct <= card.free_pct
            and len(card.jobs) < self.jobs_per_card
            and not (self.alone and card.replica is not ReplicaPhase.NONE)
            and (card.jobs or card.replica is not ReplicaPhase.NONE or idle > self.reserve)
        ]

    def ceiling_milli(self, card: Card, signal: ServerSignal | None) -> int:
        """One figure beside a replica, everything elsewhere."""
        return WHOLE_MILLI if card.replica is ReplicaPhase.NONE else self.fixed_milli

    def measured(self, now_s: float, wanted: int, peak: int) -> None:
        """Nothing is learned."""

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


def plain_replica_card(cards: Sequence[Card], alone: bool, memory_pct: int = 50) -> int:
    """An idle card, else the first on which it fits, else the card of the youngest job."""
    free = [card for card in cards if card.replica is ReplicaPhase.NONE]
    for card in free:
        if not card.jobs:
            return card.number
    if not alone:
        for card in free:
            if card.free_pct >= memory_pct:
                return card.number
    return max(free, key=lambda card: (card.youngest().started_s, card.youngest().number)).number


@dataclass(slots=True)
class FgdRule(PlainRule):
    """FGD's choice among the cards that fit."""

    usual: tuple[UsualPod, ...] = ()
    _mix: GpuMix = field(init=False)

    def __post_init__(self) -> None:
        rows = np.ones(len(self.usual), np.int64)
        milli = np.array([pod.percent * 10 for pod in self.usual])
        shapes = GpuShapes(rows * 0, rows * 0, rows, milli, rows * ANY_MODEL)
        self._mix = mix_of(shapes, np.array([pod.weight for pod in self.usual]), 1, MAX_DEVICES, TYPICAL_COVER)

    def replica_card(self, cards: Sequence[Card]) -> int:
        """By score where it fits, else as the others."""
        chosen = self._scored(cards, [card.number for card in cards if self._takes_replica(card)], 50)
        return plain_replica_card(cards, self.alone) if chosen is None else chosen

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """By score."""
        return self._scored(cards, self.fitting(cards, job), job.memory_pct)

    @staticmethod
    def _takes_replica(card: Card) -> bool:
        return card.replica is ReplicaPhase.NONE and card.free_pct >= 50

    def _scored(self, cards: Sequence[Card], allowed: list[int], memory_pct: int) -> int | None:
        if len(allowed) < 2:
            return allowed[0] if allowed else None
        free = np.zeros((1, len(cards)), np.int64)
        for number in allowed:
            free[0, number] = cards[number].free_pct * 10
        one = np.ones(1, np.int64)
        nodes = GpuNodeArrays(one, one, free, one, one, one * len(cards), one * 0)
        asked = GpuShapes(one * 0, one * 0, one, one * memory_pct * 10, one * ANY_MODEL)
        term = node_term(GpuRule.FGD, nodes, 0, self._mix, _NO_WEIGHTS)
        _, mask = score_node(GpuRule.FGD, nodes, 0, 0, asked, 0, self._mix, _NO_WEIGHTS, term)
        return int(mask).bit_length() - 1


def usual_pods(config: GpuWorldConfig) -> tuple[UsualPod, ...]:
    """What usually comes, by memory in steps of five percent: known to FGD and to ours."""
    whole = round(100 * config.whole_share)
    found = [UsualPod(config.server_memory_pct, 1, 10)]
    found += [UsualPod(percent, 1, max(1, (100 - whole) // 8)) for percent in range(10, 46, 5)]
    found += [UsualPod(percent, 1, max(1, whole // 9)) for percent in range(55, 96, 5)]
    return tuple(found)
