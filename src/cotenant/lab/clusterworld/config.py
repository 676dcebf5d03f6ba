"""How the simulated cluster around the engine behaves: delays, failures, checkpoints.

Problem: what gangs, quotas and topology are worth depends on what an interruption costs and how long a bind takes. Choice: one frozen value with each
parameter and where it is from. Limits: those marked "ours" are not measured.

Sources: of Kueue's waitForPodsReady the time-out of 5 minutes and the requeuing back-off of 60 s, doubled, at most an hour; Kubernetes' default grace of
30 s; a node of eight GPUs failing about once in 264 days (Llama 3 report: 419 unexpected interruptions in 54 days on 16,384 GPUs).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """All times in seconds of simulated time, which stands for `time_scale` times as much (see lab/workloads/training.py)."""

    period_s: float = 1.0  # the scheduler looks so often, ours
    bind_s: tuple[float, float] = (0.1, 0.5)  # from decision to answer, uniform, ours
    bind_fails: float = 0.005  # share of binds that the API server does not carry out, ours
    start_s: float = 5.0  # from bind to a running container, ours
    grace_s: float = 30.0
    checkpoint_s: float = 300.0  # a job that is interrupted goes on from its last one, ours
    restart_s: float = 30.0  # until an interrupted job's pods are made anew, ours
    timeout_s: float = inf  # a job whose members have not all started so long after the first was bound gives all back
    requeue_first_s: float = 60.0
    requeue_most_s: float = 3600.0
    between_failures_s: float = 264 * 86400.0 / 20.0  # of a node, exponential; inf = none
    outage_s: float = 1800.0  # ours
    crossing: float = 0.1  # a job whose members are not all in one rack takes so much longer, ours
    most_s: float = 48 * 3600.0  # the run ends then, whatever is unfinished


WAIT_FOR_PODS_READY_S = 300.0
