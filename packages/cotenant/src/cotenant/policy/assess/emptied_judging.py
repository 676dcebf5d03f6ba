"""What came of nodes that one would have emptied, by the second half of the history.

The moved pods use what they really used, on the nodes that they were moved to. A pod that came later to an emptied
node, or to one that took pods in and has no room for its requests by then, goes to the node where most is left of
requests, as a scheduler would place it; where no node has room it *found no place*. A pod-step is *squeezed* where the
use of its node exceeds the capacity of CPU or of memory. How many nodes a rule frees is what it gains, the other two
are what that costs, so rules are compared by all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Int, Mask
from cotenant.policy.assess.predictor import DAY_S
from cotenant.policy.assess.recorded_pods import RecordedPods

MIN_DAYS = 2  # whole days of the second half, for an interval by their spread


class MovedPods(NamedTuple):
    """What a rule did. `on`: node of each pod afterwards; `there`: pods that it knew."""

    rule: str
    on: Int
    emptied: tuple[int, ...]
    there: Mask


class EmptyingOutcome(NamedTuple):
    """What came of one rule. Shares are of pod-steps in the second half; `before`: squeezed without any move. `low` and
    `high`: 95 % of the squeezed share by the spread of its whole days; NaN for fewer than two, or where nothing was.
    """

    rule: str
    nodes: tuple[int, ...]  # rows, in the order in which they were emptied
    moved: int  # pods
    squeezed_pct: float
    low_pct: float
    high_pct: float
    before_pct: float
    overflowed: int  # nodes whose use was above the capacity at some step
    peak_pct: float  # highest use of a node that took pods in, of its capacity; NaN = there is none
    late: int  # pods that came later
    unplaced: int  # of those, found no place
    hits: int  # squeezed pod-steps
    steps: int  # pod-steps
    days: int  # whole days of the second half

    def keeps(self, risk: float) -> bool:
        """Whether at most this share of pods' time was squeezed by the moves, and of later pods found no place."""
        return self.squeezed_pct - self.before_pct <= 100.0 * risk and self.unplaced <= risk * self.late


def judged(recorded: RecordedPods, moved: MovedPods, half: int) -> EmptyingOutcome:
    """By the second half, `half` being its first column."""
    on, unplaced = _latecomers(recorded, moved, half)
    takers = sorted(set(on[(on != recorded.on) & (on >= 0)].tolist()))
    runs = recorded.runs[:, half:]
    over, peak = _over(recorded, on, half, moved.emptied, takers)
    hit = _hits(runs, over, on)
    runs_each = (runs & (recorded.on >= 0)[:, None]).sum(axis=0)
    plain, _ = _over(recorded, recorded.on, half, (), ())
    steps = int(runs_each.sum())
    low, high, days = _by_days(hit, runs_each, max(1, round(DAY_S / recorded.step_s)))
    return EmptyingOutcome(
        moved.rule,
        moved.emptied,
        int(((moved.on != recorded.on) & moved.there).sum()),
        _percent(int(hit.sum()), steps),
        low,
        high,
        _percent(int(_hits(runs, plain, recorded.on).sum()), steps),
        int(over.any(axis=1).sum()),
        peak,
        int(((recorded.lives(half)[0] >= 0) & (recorded.on >= 0) & ~moved.there).sum()),
        unplaced,
        int(hit.sum()),
        steps,
        days,
    )


def _latecomers(recorded: RecordedPods, moved: MovedPods, half: int) -> tuple[Int, int]:
    """Where all pods are, with those that came later; and how many of these found no place."""
    emptied = set(moved.emptied)
    on = moved.on.copy()
    if not emptied:
        return on, 0
    takes = np.array([np.nan_to_num(of.requested) for of in recorded.resources])
    room = np.array([of.capacity.astype(np.float64) for of in recorded.resources])
    takers = set(on[(on != recorded.on) & moved.there].tolist())
    for at in range(len(room)):
        np.subtract.at(room[at], on[moved.there], takes[at, moved.there])
    room[:, moved.emptied] = -np.inf
    scale = np.array([np.where(of.capacity > 0, of.capacity, np.nan) for of in recorded.resources])
    came, left = recorded.lives(half)
    events = [(at, 1, pod) for pod, at in enumerate(came.tolist()) if at >= 0 and not moved.there[pod]]
    events += [(at, 0, pod) for pod, at in enumerate(left.tolist()) if at >= 0]  # at the same step room is free first
    unplaced: set[int] = set()
    for _, is_arrival, pod in sorted(event for event in events if recorded.on[event[2]] >= 0):
        node = int(on[pod])
        if not is_arrival:
            if pod not in unplaced:
                room[:, node] += takes[:, pod]
            continue
        if node in emptied or (node in takers and not (room[:, node] >= takes[:, pod]).all()):
            after = ((room - takes[:, pod, None]) / scale).min(axis=0)
            node = int(np.argmax(np.nan_to_num(after, nan=-np.inf)))
            if not after[node] >= 0:
                unplaced.add(pod)
                on[pod] = -1
                continue
            on[pod] = node
            takers.add(node)
        room[:, node] -= takes[:, pod]
    return on, len(unplaced)


def _over(
    recorded: RecordedPods, on: Int, half: int, emptied: Sequence[int], takers: Sequence[int]
) -> tuple[Mask, float]:
    """Where a node's use exceeds its capacity, `[nodes, steps]`, and the highest use of those that took pods in."""
    found = np.zeros((recorded.nodes, recorded.steps - half), np.bool_)
    peak = np.nan
    for of in recorded.resources:
        total = np.nan_to_num(of.nodes[:, half:]).astype(np.float64)
        for pod in np.flatnonzero(on != recorded.on).tolist():
            use = np.nan_to_num(of.pods[pod, half:])
            if on[pod] >= 0:
                total[on[pod]] += use
            if recorded.on[pod] >= 0:
                total[recorded.on[pod]] -= use
        found |= total > of.capacity[:, None] * (1 + 1e-6)  # sums of float32
        if len(takers):
            highest = total[list(takers)].max(axis=1) / np.where(of.capacity > 0, of.capacity, np.nan)[list(takers)]
            peak = float(np.fmax(peak, 100.0 * np.fmax.reduce(highest)))
    found[list(emptied)] = False
    return found, peak


def _hits(runs: Mask, over: Mask, on: Int) -> Int:
    """Squeezed pods of each step."""
    some = np.flatnonzero(over.any(axis=1))
    pods = np.flatnonzero(np.isin(on, some))
    return np.asarray((runs[pods] & over[on[pods]]).sum(axis=0), np.int64)


def _by_days(hit: Int, steps: Int, day: int) -> tuple[float, float, int]:
    """95 % of the squeezed share by Student's law over whole days, and how many there are."""
    days = len(hit) // day
    if days < MIN_DAYS or not hit.any():
        return np.nan, np.nan, days
    hits, of = (values[: days * day].reshape(days, day).sum(axis=1).astype(np.float64) for values in (hit, steps))
    if not of.sum():
        return np.nan, np.nan, days
    middle = hits.sum() / of.sum()
    reach = _t(days - 1) * float((hits - middle * of).std(ddof=1)) / days**0.5 / of.mean()
    return 100.0 * max(0.0, middle - reach), 100.0 * min(1.0, middle + reach), days


_T = ((1, 12.71), (2, 4.30), (3, 3.18), (4, 2.78), (5, 2.57), (7, 2.36), (10, 2.23), (20, 2.09), (100, 1.98))
"""Degrees of freedom -> the 0.975 quantile of Student's distribution."""


def _t(freedom: int) -> float:
    return float(np.interp(freedom, [at for at, _ in _T], [value for _, value in _T]))


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
