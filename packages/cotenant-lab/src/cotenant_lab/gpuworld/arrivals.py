"""Requests, the replicas that they ask for, and offline jobs, as a seed draws them.

The autoscaler counts arrivals of the last minute and nothing of latency, so how many replicas are wanted is the same
under every policy, and two earlier days of it can be drawn without their requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, pi

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant_lab.gpuworld.config import SECOND_US, WHOLE_MILLI, GpuWorldConfig, SeedDraw
from cotenant_lab.gpuworld.serving import ServedRequests, new_requests

_MINUTE_S = 60
_LOWER_AFTER = 5  # minutes in which fewer replicas were wanted, before one goes


@dataclass(slots=True)
class OfflineJob:
    """One job. What it keeps busy is the world's to know; a policy sees its memory, and what was measured of its
    workload before.
    """

    number: int
    arrives_s: float
    work_s: float  # alone on a card
    memory_pct: int
    sm: float  # share of a card's multiprocessors that it keeps busy alone
    bandwidth: float
    pcie: float
    measured_sm_pct: int = 0
    measured_bandwidth_pct: int = 0
    done_s: float = 0.0
    started_s: float = -1.0  # last start; -1: waits
    ready_s: float = 0.0  # it makes progress from then on
    limit_milli: int = WHOLE_MILLI  # multiprocessors that it may have; 0: it is suspended

    @property
    def part(self) -> float:
        """What its limit leaves of what it wants."""
        return min(1.0, self.limit_milli / WHOLE_MILLI / self.sm)


def rate_by_minute(config: GpuWorldConfig, rng: np.random.Generator) -> Float:
    """Requests a second in each minute of one squeezed day."""
    minutes = config.day_s // _MINUTE_S
    at = (np.arange(minutes) + 0.5) / minutes
    shape = 1.0 - (1.0 - config.trough) * 0.5 * (1.0 + np.cos(2.0 * pi * at))
    noise, level = np.empty(minutes), 0.0
    for minute in range(minutes):
        level = 0.9 * level + config.noise_sd * (1.0 - 0.81) ** 0.5 * float(rng.standard_normal())
        noise[minute] = exp(level)
    return config.peak_replicas * config.replica_rps * 0.9 * shape * noise


def arrival_times(rate: Float, gap_cv: float, rng: np.random.Generator) -> Int:
    """Microseconds of arrivals: Gamma gaps of mean one, in the time in which one request is due a unit."""
    due = due_by_minute(rate)
    shape = 1.0 / gap_cv**2
    count = int(due[-1] * 1.2) + 200
    at = np.cumsum(rng.gamma(shape, 1.0 / shape, count))
    at = at[at < due[-1]]
    return _when_due(at, due)


def due_by_minute(rate: Float) -> Float:
    """How many requests are due by the begin of each minute, and by the day's end."""
    return np.concatenate([[0.0], np.cumsum(rate) * _MINUTE_S])


def _when_due(at: Float, due: Float) -> Int:
    times = np.interp(at, due, np.arange(len(due)) * float(_MINUTE_S * SECOND_US))
    return times.astype(np.int64)


def wanted_replicas(config: GpuWorldConfig, arrive_us: Int) -> Int:
    """Replicas wanted at the begin of each minute: enough for the minute before with a fifth more, down only after
    five minutes.
    """
    minutes = config.day_s // _MINUTE_S
    counts = np.bincount(np.minimum(arrive_us // (_MINUTE_S * SECOND_US), minutes - 1), minlength=minutes)
    wanted = np.ones(minutes, np.int64)
    now, lower = _for_rate(config, counts[0] / _MINUTE_S), 0
    for minute in range(minutes):
        asked = _for_rate(config, counts[max(0, minute - 1)] / _MINUTE_S)
        lower = lower + 1 if asked < now else 0
        if asked > now:
            now = asked
        elif lower >= _LOWER_AFTER:
            now, lower = now - 1, 0
        wanted[minute] = now
    return wanted


def _for_rate(config: GpuWorldConfig, rps: float) -> int:
    return min(config.peak_replicas, max(1, ceil(1.2 * rps / config.replica_rps)))


def request_times(config: GpuWorldConfig, gap_cv: float, rng: np.random.Generator) -> tuple[Int, Int]:
    """When the requests of one day arrive, in microseconds, and the row of the recording of each; without one, 0."""
    rate = rate_by_minute(config, rng)
    if config.requests is None:
        arrive_us = arrival_times(rate, gap_cv, rng)
        return arrive_us, np.zeros(len(arrive_us), np.int64)
    due = due_by_minute(rate)
    at, rows = config.requests.from_request(int(rng.integers(len(config.requests.gaps))), float(due[-1]))
    return _when_due(at, due), rows


def draw_requests(config: GpuWorldConfig, seen: SeedDraw, rng: np.random.Generator) -> ServedRequests:
    """The requests of one day."""
    arrive_us, rows = request_times(config, seen.gap_cv, rng)
    if config.requests is not None:
        return new_requests(arrive_us, config.requests.prompt[rows], config.requests.output[rows])
    count = len(arrive_us)
    coding = rng.random(count) < seen.coding_share
    spread = np.exp(config.length_sd * rng.standard_normal((count, 2)))
    medians = np.where(coding[:, None], np.array(config.coding), np.array(config.conversation))
    lengths = np.clip(np.rint(medians * spread), 1, [config.max_prompt, config.max_output]).astype(np.int64)
    return new_requests(arrive_us, lengths[:, 0], lengths[:, 1])


def draw_jobs(config: GpuWorldConfig, rng: np.random.Generator, measured: np.random.Generator) -> list[OfflineJob]:
    """The jobs of one day, in their order: a backlog, then Poisson. `measured` draws the errors of what is known."""
    later = int(config.day_s / config.job_every_s)
    at = np.concatenate([np.zeros(config.backlog), np.cumsum(rng.exponential(config.job_every_s, later))])
    jobs = []
    for number, arrives_s in enumerate(at):
        whole = rng.random() < config.whole_share
        memory = int(rng.integers(55, 96)) if whole else int(rng.integers(10, 46))
        sm = float(rng.uniform(0.6, 1.0) if whole else rng.uniform(0.2, 0.8))
        work_s = min(3600.0, config.job_median_s * exp(0.7 * float(rng.standard_normal())))
        bandwidth, pcie = float(rng.uniform(0.1, 0.8)), min(1.0, 0.1 * exp(0.8 * float(rng.standard_normal())))
        jobs.append(OfflineJob(number, float(arrives_s), work_s, memory, sm, bandwidth, pcie))
    error = np.exp(config.need_error_sd * measured.standard_normal((len(jobs), 2)))
    for job, (of_sm, of_bandwidth) in zip(jobs, error.tolist(), strict=True):
        job.measured_sm_pct = min(100, round(100 * job.sm * of_sm))
        job.measured_bandwidth_pct = min(100, round(100 * job.bandwidth * of_bandwidth))
    return jobs
