"""GFS (Duan et al., ASPLOS'26): a quota for spot jobs by a forecast of the service's demand, and preemption by cost.

- Quota, at every measurement: the demand of the coming guaranteed hours at probability `rate`, taken from all cards;
  the least of these hours, times a safety factor. A job starts while what spot jobs hold, with it, is within the quota.
- The factor is corrected by the evictions of the last guaranteed hours, as a share of the promises of an hour that
  ended in that time. Where it is 1.5 times `1 - rate` or more, the factor is divided by the excess; where it is half of
  `1 - rate` or less and a job waits for more than an hour, the factor grows, by a half at most.
- Preemption: a replica takes an idle card, else the one whose jobs cost least to evict: the share of broken promises as
  it would become, and `_WASTE` times what these jobs have run since their start, in days of all cards.
- A job goes to the card with the fewest evictions in the last hour, the fullest of equals.

Differences: an hour of the paper is an hour of the squeezed day. Their forecast is a trained linear network over many
tenants with calendars; here it is `forecasting.py`, for one service, by the measurements that every rule gets. A card
goes whole to a replica: sharing one with a language model is no part of GFS. Jobs share a card by memory, as under
`spot`, and wait in the order of all rules, where GFS takes larger ones first.
Source: arXiv 2509.11134; constants of its authors' public simulator. Its formula for growth divides by the share of
evictions, which may be 0; read as 1.5 less the share over the promised one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from cotenant_lab.gpuworld.arrivals import OfflineJob
from cotenant_lab.gpuworld.forecasting import STEP_S, DemandForecast
from cotenant_lab.gpuworld.sharing import WHOLE_PCT, Card, PlainRule, ReplicaPhase, ServerSignal

_WASTE = 5.0
_MANY, _FEW, _GROWTH = 1.5, 0.5, 1.5  # evictions over what the rate promises
_HOURS_A_DAY = 24


@dataclass(slots=True)
class GfsRule(PlainRule):
    """`hours` are those that a job is promised."""

    rate: float = 0.9
    hours: int = 4
    day_s: float = 7200.0
    _forecast: DemandForecast = field(init=False)
    _demand: float = 0.0  # cards
    _factor: float = 1.0
    _now_s: float = 0.0
    _promised: dict[int, float] = field(default_factory=dict)  # running job -> begin of its present hour
    _kept_s: list[float] = field(default_factory=list)  # when an hour's promise was kept, or its job ended
    _broken: list[tuple[float, int]] = field(default_factory=list)  # when, on which card
    _waits_since: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.alone = True
        self._forecast = DemandForecast(self.day_s)

    def measured(self, now_s: float, wanted: int, peak: int) -> None:
        """The forecast and the factor."""
        self._forecast.seen(now_s, wanted, self._steps)
        self._demand = max(self._forecast.quantile(steps, self.rate) for steps in range(1, self._steps + 1))
        if now_s >= 0.0:
            self._now_s = now_s
            self._correct()

    def quota(self, cards: int) -> float:
        """Cards that jobs may hold together."""
        return self._factor * (cards - min(cards, max(0, floor(self._demand))))

    def observed(
        self, now_s: float, cards: Sequence[Card], signals: Mapping[int, ServerSignal]
    ) -> Sequence[OfflineJob]:
        """Nobody leaves; promises that were kept are counted."""
        self._now_s = now_s
        running = {job.number: job for card in cards for job in card.jobs}
        for number in [number for number in self._promised if number not in running]:
            del self._promised[number]  # it ended: who was evicted is not here any more
            self._kept_s.append(now_s)
        for number, job in running.items():
            since = self._promised.setdefault(number, job.started_s)
            if now_s - since >= self._hour_s:
                self._promised[number] = since + self._hour_s
                self._kept_s.append(now_s)
        return ()

    def replica_card(self, cards: Sequence[Card]) -> int:
        """An idle card, else the cheapest to clear."""
        free = [card for card in cards if card.replica is ReplicaPhase.NONE]
        chosen = min(free, key=lambda card: (self._cost(card, len(cards)), card.number))
        for job in chosen.jobs:
            self._promised.pop(job.number, None)
            self._broken.append((self._now_s, chosen.number))
        return chosen.number

    def job_card(self, cards: Sequence[Card], job: OfflineJob) -> int | None:
        """Within the quota; by evictions, then packed."""
        held = sum(one.memory_pct for card in cards for one in card.jobs)
        within = held + job.memory_pct <= self.quota(len(cards)) * WHOLE_PCT
        allowed = self.fitting(cards, job) if within else []
        if not allowed:
            self._waits_since.setdefault(job.number, self._now_s)
            return None
        self._waits_since.pop(job.number, None)
        return min(allowed, key=lambda at: (self._evictions_on(at), cards[at].free_pct, at))

    @property
    def _hour_s(self) -> float:
        return self.day_s / _HOURS_A_DAY

    @property
    def _steps(self) -> int:
        return max(1, round(self.hours * self._hour_s / STEP_S))

    def _correct(self) -> None:
        since = self._now_s - self.hours * self._hour_s
        broken = sum(1 for at_s, _ in self._broken if at_s > since)
        ended = broken + sum(1 for at_s in self._kept_s if at_s > since)
        excess = broken / ended / (1.0 - self.rate) if ended else 0.0
        waits_s = self._now_s - min(self._waits_since.values(), default=self._now_s)
        if excess >= _MANY:
            self._factor /= excess
        elif ended and excess <= _FEW and waits_s > self._hour_s:
            self._factor *= _GROWTH - excess

    def _cost(self, card: Card, cards: int) -> float:
        if not card.jobs:
            return -1.0
        broken = len(self._broken) + len(card.jobs)
        ran_s = sum((self._now_s - job.started_s) * job.memory_pct / WHOLE_PCT for job in card.jobs)
        return broken / (broken + len(self._kept_s)) + _WASTE * ran_s / (cards * self.day_s)

    def _evictions_on(self, number: int) -> int:
        return sum(1 for at_s, at in self._broken if at == number and at_s > self._now_s - self._hour_s)
