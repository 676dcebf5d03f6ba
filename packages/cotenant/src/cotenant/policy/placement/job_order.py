"""Order of ready tasks: compiled keys for jobs that are graphs of tasks with a deadline.

A deadline belongs to the job, but tasks are placed, and under overload some jobs will be late. One key per ready task,
the smallest first; it depends on the task's own state only, so a heap can hold it. Orders: arrival of the job, deadline
of the job, estimated work left in the job, and the latest start: deadline - margin x estimated path from the task's
start to the job's end. For two tasks with equal slack now, the order by latest start is the order by slack.

Four refinements are ours. A wide job also needs time for its width: its remaining work divided by a share of the
cluster. A task past its latest start waits behind all that can still meet their deadline, the job with least remaining
work first: placing a late job may only delay another job past its deadline. Jobs with little remaining work go before
all others: they delay large jobs only slightly, and would otherwise be most of those that miss. Estimates by which a
job could not meet its deadline from the start are scaled down until it can. Limits: estimates are not corrected by what
a running task shows. order.py has the corresponding order of pods.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from cotenant.model.compiled import njit


class JobOrder(IntEnum):
    """Basis of the key."""

    ARRIVAL = 0
    DEADLINE = 1
    REMAINING_WORK = 2
    LATEST_START = 3


class OrderKnobs(NamedTuple):
    """Parameters; the defaults are those of the plain orders, without our refinements."""

    margin: float = 1.0  # factor on the estimated path
    hopeless: float = 0.0  # a task is given up once now + hopeless x path exceeds the deadline; 0 = never
    small_work: float = 0.0  # core-seconds: jobs with less estimated remaining work go first
    share: float = 0.0  # of the cluster's CPU that one job is assumed to get; 0 = its width is ignored
    cores: float = 1.0  # of the cluster
    believe: float = (
        0.0  # a job's estimated need is capped at this share of the time from arrival to deadline; 0 = no cap
    )


_ARRIVAL, _DEADLINE, _WORK = int(JobOrder.ARRIVAL), int(JobOrder.DEADLINE), int(JobOrder.REMAINING_WORK)
FIRST = -1e12


@njit
def trust(arrival_s: float, deadline_s: float, job_path_s: float, knobs: OrderKnobs) -> float:
    """The factor on a job's estimates: deadlines are assumed to be feasible, so an estimate beyond the deadline must be
    too high.

    `job_path_s`: the whole job's path by estimate.
    """
    if knobs.believe <= 0.0 or job_path_s <= 0.0:
        return 1.0
    return min(1.0, knobs.believe * (deadline_s - arrival_s) / job_path_s)


@njit
def time_needed(path_s: float, work: float, knobs: OrderKnobs) -> float:
    """Seconds to the job's end: the larger of its path and its work over the cores that it is assumed to get."""
    return max(path_s, work / (knobs.share * knobs.cores)) if knobs.share > 0.0 else path_s


@njit
def key_at(order: int, arrival_s: float, deadline_s: float, path_s: float, work: float, knobs: OrderKnobs) -> float:
    """The key of a task when it becomes ready: least first. `work`: estimated core-seconds left in its job."""
    if order == _ARRIVAL:
        return arrival_s
    if order == _DEADLINE:
        return deadline_s
    if order == _WORK:
        return work
    latest = deadline_s - knobs.margin * time_needed(path_s, work, knobs)
    return latest + FIRST if work < knobs.small_work else latest


@njit
def given_up_at(now_s: float, deadline_s: float, path_s: float, work: float, knobs: OrderKnobs) -> bool:
    """Whether a task that has not started yet can no longer make its job's deadline, by estimate."""
    return knobs.hopeless > 0.0 and now_s + knobs.hopeless * time_needed(path_s, work, knobs) > deadline_s
