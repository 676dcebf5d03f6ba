"""Which task of which job goes next: compiled keys for jobs that are graphs of tasks with a deadline.

Problem: a deadline belongs to the job, but what is placed are tasks, and under overload somebody will be late. Choice: a key a ready
task, the least first; it depends on the task's own state only, so a heap holds it. Orders: arrival of the job, deadline of the job,
estimated work left in the job, and the latest start: deadline - margin x estimated path from the task's start to the job's end. Of two
tasks with equal slack now, the order by latest start is the order by slack.

Four refinements are ours. A wide job needs time for its width too: its work left over a share of the cluster. A task past its latest
start waits behind all that can still make it, the job with least work left first: a late job gains nothing from room that would make
another late. And jobs with little work left go before all others: they take next to nothing from large jobs, and would otherwise be
most of those that miss. And no job is believed to be hopeless from the start: where the estimates say so, they are scaled down until it
is not. Limits: estimates are not corrected by what a running task shows.
See order.py for the same judgement over pods.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from cotenant.model.compiled import njit


class JobOrder(IntEnum):
    """What the key is made of."""

    ARRIVAL = 0
    DEADLINE = 1
    REMAINING_WORK = 2
    LATEST_START = 3


class OrderKnobs(NamedTuple):
    """Numbers to turn; the defaults are those of plain orders, without our refinements."""

    margin: float = 1.0  # the estimated path is stretched by this
    hopeless: float = 0.0  # a task is given up once now + hopeless x path is past the deadline; 0 = never
    small_work: float = 0.0  # core-seconds: jobs with less estimated work left go first
    share: float = 0.0  # of the cluster's CPU that one job may hope for; 0 = its width costs no time
    cores: float = 1.0  # of the cluster
    believe: float = (
        0.0  # a job is believed to need at most this part of the time from arrival to deadline; 0 = any estimate
    )


_ARRIVAL, _DEADLINE, _WORK = int(JobOrder.ARRIVAL), int(JobOrder.DEADLINE), int(JobOrder.REMAINING_WORK)
FIRST = -1e12


@njit
def trust(arrival_s: float, deadline_s: float, job_path_s: float, knobs: OrderKnobs) -> float:
    """What a job's estimates are multiplied with: deadlines are set so that they can be met, so an estimate beyond that is wrong.

    `job_path_s`: the whole job's path by estimate.
    """
    if knobs.believe <= 0.0 or job_path_s <= 0.0:
        return 1.0
    return min(1.0, knobs.believe * (deadline_s - arrival_s) / job_path_s)


@njit
def time_needed(path_s: float, work: float, knobs: OrderKnobs) -> float:
    """Seconds to the job's end: its path, or its work over the cores it may hope for, whichever is longer."""
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
