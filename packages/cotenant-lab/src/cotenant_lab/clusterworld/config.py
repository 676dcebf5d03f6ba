"""Behaviour of the simulated cluster around the engine: delays, failures, checkpoints.

The benefit of gangs, quotas and topology depends on the cost of an interruption and the duration of a bind. One frozen
value with each parameter and its source.
Limits: those marked "ours" are not measured.

Sources: of Kueue's waitForPodsReady the time-out of 5 minutes and the requeuing back-off of 60 s, doubled, at most an
hour; Kubernetes' default grace of 30 s; a node of eight GPUs failing about once in 264 days (Llama 3 report: 419
unexpected interruptions in 54 days on 16,384 GPUs).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """All times in seconds of simulated time; a simulated second represents `time_scale` seconds (see
    cotenant_lab/workloads/training.py).
    """

    period_s: float = 1.0  # between scheduling rounds, ours
    bind_s: tuple[float, float] = (0.1, 0.5)  # from decision to response, uniform, ours
    bind_fails: float = 0.005  # share of binds that fail, ours
    start_s: float = 5.0  # from bind to a running container, ours
    grace_s: float = 30.0
    checkpoint_s: float = 300.0  # between checkpoints; an interrupted job restarts from its last one, ours
    restart_s: float = 30.0  # until an interrupted job's pods are recreated, ours
    timeout_s: float = inf  # a job is requeued if its members have not all started this long after the first bind
    requeue_first_s: float = 60.0
    requeue_most_s: float = 3600.0
    between_failures_s: float = 264 * 86400.0 / 20.0  # of a node, exponential; inf = none
    outage_s: float = 1800.0  # ours
    crossing: float = 0.1  # share by which a job takes longer if its members are not all in one rack, ours
    max_s: float = 48 * 3600.0  # the run ends then, even with unfinished jobs


WAIT_FOR_PODS_READY_S = 300.0
