"""One day of one machine's cards under one rule of sharing, a second at a time.

Every second: requests are routed, rates follow from who is on which card, servers and jobs advance. Every five seconds
the rule is told of each replica and sets the jobs' ceiling; every minute the autoscaler starts replicas or lets them
drain; every ten minutes the rule learns how many were wanted. A job that must go falls back to its last checkpoint and
waits again, behind those that wait.
Limits: replicas do not fail; a replica that drains serves what it has, and takes no part in routing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cotenant_lab.gpuworld.arrivals import (
    OfflineJob,
    draw_jobs,
    draw_requests,
    request_times,
    wanted_replicas,
)
from cotenant_lab.gpuworld.config import SECOND_US, WHOLE_MILLI, GpuWorldConfig, draw
from cotenant_lab.gpuworld.contention import contend, gpu_law, new_loads, new_rates
from cotenant_lab.gpuworld.serving import LOGGED, PPM, ServerLaw, advance, new_replicas, route
from cotenant_lab.gpuworld.sharing import WHOLE_PCT, Card, ReplicaPhase, ServerSignal, SharingRule

_SIGNAL_S, _MINUTE_S, _MEASURED_S = 5, 60, 600
_WINDOW_US = 20 * SECOND_US
_LOOKED_AT = 30  # jobs of the queue that are tried at once
_EDGE_US = 60 * SECOND_US  # requests of the last minute are not judged


@dataclass(frozen=True, slots=True)
class GpuOutcome:
    """What one day came to. `offline_cards`: useful work of jobs, in cards that do nothing else."""

    requests: int
    missed: float  # share of requests whose first token or time per token was over its objective
    first_token_p99_ms: float
    per_token_p99_ms: float
    offline_cards: float
    lost: float  # share of the jobs' work that evictions undid
    starts: int
    evictions: int
    queue_s: float = 0.0  # mean time that a job waited, before its first start and after evictions

    @property
    def eviction_rate(self) -> float:
        """Evictions a start."""
        return self.evictions / self.starts if self.starts else 0.0


class GpuWorld:
    """One run. Deterministic in its arguments."""

    def __init__(self, config: GpuWorldConfig, seed: int, rule: Callable[[], SharingRule]) -> None:
        self.config, self.rule, self.now_s = config, rule(), 0
        seen = draw(config, seed)
        self._form, self._law = seen.law, gpu_law(config, seen, self.rule.sliced)
        self.server = ServerLaw(
            config.max_batch, config.max_prefill_tokens, config.kv_tokens, config.prefill_us_per_token,
            config.weights_us, config.kv_us_per_token, seen.first_token_us, seen.per_token_us,
        )  # fmt: skip
        self.requests = draw_requests(config, seen, np.random.default_rng([seed, 1]))
        self.wanted = wanted_replicas(config, self.requests.arrive_us)
        self.jobs = draw_jobs(config, np.random.default_rng([seed, 2]), np.random.default_rng([seed, 5]))
        self.cards = [Card(number) for number in range(config.cards)]
        self.replicas = new_replicas(config.cards, config.max_batch)
        self.loads, self.rates = new_loads(config.cards), new_rates(config.cards)
        self.queue: list[OfflineJob] = []
        self.starts = self.evictions = 0
        self.lost_s = 0.0
        self.queued_s = 0
        self._due: list[OfflineJob] = list(self.jobs)
        self._ready_s = [0.0] * config.cards  # of replicas that start
        self._routed, self._changed = 0, True
        self._learn_two_days(seed, seen.gap_cv)

    def run(self) -> GpuOutcome:
        """The whole day."""
        while self.now_s < self.config.day_s:
            self.step()
        return self._outcome()

    def step(self) -> None:
        """One second."""
        if self.now_s % _MINUTE_S == 0:
            self._scale()
        if self.now_s and self.now_s % _MEASURED_S == 0:
            minute = self.now_s // _MINUTE_S
            self.rule.measured(float(self.now_s), int(self.wanted[minute - 10 : minute].max()), self._peak)
            self._changed = True
        if self.now_s % self.rule.observed_every_s == 0:
            self._observe()
        self._replicas_change()
        while self._due and self._due[0].arrives_s <= self.now_s:
            self.queue.append(self._due.pop(0))
            self._changed = True
        if self._changed:
            self._place()
        self.queued_s += len(self.queue)
        if self.now_s % _SIGNAL_S == 0:
            self._ceilings()
        until_us = (self.now_s + 1) * SECOND_US
        end = int(np.searchsorted(self.requests.arrive_us, until_us))
        route(self.replicas, self.requests, self._routed, end)
        self._routed = end
        share = 1.0 / SECOND_US
        contend(
            self.loads, np.minimum(self.replicas.prefill_us * share, 1.0),
            np.minimum(self.replicas.decode_us * share, 1.0 - np.minimum(self.replicas.prefill_us * share, 1.0)),
            self._law, self._form, self.rates,
        )  # fmt: skip
        advance(self.replicas, self.requests, self.server, until_us, self.rates.slow_prefill, self.rates.slow_decode)
        self.now_s += 1
        self._jobs_work()

    @property
    def _peak(self) -> int:
        return self.config.peak_replicas

    def _learn_two_days(self, seed: int, gap_cv: float) -> None:
        """How many replicas were wanted on the two days before."""
        for back in (2, 1):
            rng = np.random.default_rng([seed, 2 + back])
            wanted = wanted_replicas(self.config, request_times(self.config, gap_cv, rng)[0])
            for minute in range(10, len(wanted) + 1, 10):
                at_s = float(minute * _MINUTE_S - back * self.config.day_s)
                self.rule.measured(at_s, int(wanted[minute - 10 : minute].max()), self._peak)

    def _scale(self) -> None:
        wanted = self._peak if self.rule.permanent else int(self.wanted[self.now_s // _MINUTE_S])
        there = [card for card in self.cards if card.replica in (ReplicaPhase.STARTING, ReplicaPhase.SERVING)]
        for card in self.cards:
            if len(there) < wanted and card.replica is ReplicaPhase.DRAINING:
                card.replica = ReplicaPhase.SERVING
                self.replicas.serves[card.number] = 1
                there.append(card)
        while len(there) < wanted:
            there.append(self._start_replica())
        serving = [card for card in there if card.replica is ReplicaPhase.SERVING]
        for card in reversed(serving):
            if len(there) <= wanted or len(serving) <= 1:
                break
            card.replica = ReplicaPhase.DRAINING
            self.replicas.serves[card.number] = 0
            there.remove(card)

    def _start_replica(self) -> Card:
        card = self.cards[self.rule.replica_card(self.cards)]
        assert card.replica is ReplicaPhase.NONE, card
        needed = WHOLE_PCT if self.rule.alone else self.config.server_memory_pct
        starts_s = self.config.start_s
        if card.jobs and card.free_pct < needed:
            starts_s += self.rule.leave_s
        while card.jobs and card.free_pct < needed:
            self._evict(card, card.youngest())
        card.replica, card.replica_pct = ReplicaPhase.STARTING, self.config.server_memory_pct
        first = card.number - card.number % self.config.cards_per_root
        wire = min(1.0, float(self.loads.pcie[first : first + self.config.cards_per_root].sum()))
        starts_s += self.config.weights_s * (1.0 + wire)
        self._ready_s[card.number] = self.now_s + (starts_s if self.now_s else 0.0)
        self._changed = True
        return card

    def _observe(self) -> None:
        with_replica = [card for card in self.cards if card.replica is not ReplicaPhase.NONE]
        signals = {card.number: self._signal(card.number) for card in with_replica if self.rule.reads_signals}
        for job in self.rule.observed(float(self.now_s), self.cards, signals):
            self._evict(next(card for card in self.cards if job in card.jobs), job)
            self._changed = True
        for card in self.cards:
            for job in card.jobs:
                job.limit_milli = self.rule.limit_milli(job)
            self._sum(card)

    def _replicas_change(self) -> None:
        for card in self.cards:
            at = card.number
            if card.replica is ReplicaPhase.STARTING and self._ready_s[at] <= self.now_s:
                card.replica = ReplicaPhase.SERVING
                self.replicas.serves[at] = 1
                self.replicas.clock_us[at] = self.now_s * SECOND_US
            elif card.replica is ReplicaPhase.DRAINING and not self.replicas.waiting[at] + self.replicas.batch[at]:
                card.replica, card.replica_pct = ReplicaPhase.NONE, 0
                self._changed = True

    def _evict(self, card: Card, job: OfflineJob) -> None:
        card.jobs.remove(job)
        kept = job.done_s if self.rule.leave_s else job.done_s - job.done_s % self.config.checkpoint_s
        self.lost_s += job.done_s - kept
        job.done_s, job.started_s = kept, -1.0
        self.evictions += 1
        self.queue.append(job)
        self._sum(card)

    def _place(self) -> None:
        self._changed = False
        refused_pct = WHOLE_PCT + 1
        for job in self.queue[:_LOOKED_AT]:
            asked_pct = self.rule.share_pct(job)
            number = self.rule.job_card(self.cards, job) if asked_pct < refused_pct else None
            if number is None:
                refused_pct = min(refused_pct, asked_pct)
                continue
            card = self.cards[number]
            card.jobs.append(job)
            assert card.free_pct >= 0, card
            self.queue.remove(job)
            job.started_s, job.ready_s = float(self.now_s), self.now_s + self.config.restart_s
            job.limit_milli = self.rule.limit_milli(job)
            self.starts += 1
            self._sum(card)

    def _sum(self, card: Card) -> None:
        at, jobs = card.number, card.jobs
        self.loads.jobs[at] = len(jobs)
        self.loads.sm[at] = sum(job.sm * job.part for job in jobs)
        self.loads.bandwidth[at] = sum(job.bandwidth * job.part for job in jobs)
        self.loads.pcie[at] = sum(job.pcie * job.part for job in jobs)

    def _ceilings(self) -> None:
        for card in self.cards:
            if card.replica is ReplicaPhase.NONE or not card.jobs or not self.rule.reads_signals:
                ceiling = self.rule.ceiling_milli(card, None)
            else:
                ceiling = self.rule.ceiling_milli(card, self._signal(card.number))
            self.loads.ceiling[card.number] = ceiling / WHOLE_MILLI

    def _signal(self, at: int) -> ServerSignal:
        now_us = self.now_s * SECOND_US
        known = min(int(self.replicas.logged[at]), LOGGED)
        recent = self.replicas.log_ppm[at, :known][self.replicas.log_at_us[at, :known] > now_us - _WINDOW_US]
        p99 = int(np.sort(recent)[(99 * len(recent) - 1) // 100]) if len(recent) else 0
        used = round(float(self.rates.granted_sm[at]) * WHOLE_MILLI)
        return ServerSignal(now_us, _WINDOW_US, len(recent), p99, int((recent > PPM).sum()), used)

    def _jobs_work(self) -> None:
        for card in self.cards:
            speed = float(self.rates.speed[card.number])
            for job in list(card.jobs):
                if job.ready_s <= self.now_s:
                    job.done_s = min(job.work_s, job.done_s + speed * job.part)
                if job.done_s >= job.work_s:
                    card.jobs.remove(job)
                    self._sum(card)
                    self._changed = True

    def _outcome(self) -> GpuOutcome:
        q, end_us = self.requests, self.config.day_s * SECOND_US
        judged = q.arrive_us < end_us - _EDGE_US
        first = np.where(q.first_us >= 0, q.first_us, end_us) - q.arrive_us
        ended = judged & (q.end_us >= 0) & (q.output > 1)
        per_token = np.where(ended, (q.end_us - q.first_us) // np.maximum(q.output - 1, 1), 0)
        missed = judged & ((first > self.server.first_token_us) | (per_token > self.server.per_token_us))
        done_s = sum(job.done_s for job in self.jobs)
        return GpuOutcome(
            int(judged.sum()),
            float(missed.sum() / judged.sum()),
            float(np.quantile(first[judged], 0.99)) / 1000.0,
            float(np.quantile(per_token[ended], 0.99)) / 1000.0,
            done_s / self.config.day_s,
            self.lost_s / (done_s + self.lost_s) if done_s else 0.0,
            self.starts,
            self.evictions,
            self.queued_s / (len(self.jobs) - len(self._due)),
        )
