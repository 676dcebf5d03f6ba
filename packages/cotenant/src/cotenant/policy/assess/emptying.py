"""A consolidation tried on the past: which nodes one would have emptied by the first half of a history, and whether the
growth of the second half still fitted.

A rule says of the first half how much each node and each pod will use. The node with the least is emptied if all its
pods fit elsewhere by the rule (each goes where most room is left), then the next, until one does not fit. In the second
half the moved pods use what they really used, on the nodes that they were moved to; pods that came later to an emptied
node go where most room is left by then. A pod-step is *squeezed* where the use on its node exceeds the capacity: that
is what a consolidation costs, and how many nodes it frees is what it gains, so rules are compared by both.
Limits: one resource at a time; budgets, spread and affinity are not looked at here; use that is no pod's goes with its
node, and of a pod whose use is unknown nothing is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.predictor import Past, Predictor
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, NSigma, Requests
from cotenant.policy.assess.size_blend import SizeBlend
from cotenant.policy.assess.sizes import sizes

MAX_EMPTIED = 100
RULES: tuple[Predictor, ...] = (SizeBlend(), Requests(), LastDayPeak(), NSigma(), BorgPeak())


@dataclass(frozen=True, slots=True)
class RecordedPods:
    """One resource: nodes `[nodes, steps]` and pods `[pods, steps]`; `on`: row of each pod's node, -1 = none."""

    nodes: Float32
    pods: Float32
    on: Int
    requested: Float  # of each pod; NaN = unknown
    capacity: Float  # of each node
    movable: Mask  # pods
    step_s: float

    def __post_init__(self) -> None:
        if self.nodes.shape[1] != self.pods.shape[1]:
            raise InvalidInput("pods' steps", self.pods.shape[1], f"those of nodes, {self.nodes.shape[1]}")
        for name, wanted in (("on", self.pods), ("requested", self.pods), ("movable", self.pods)):
            if len(getattr(self, name)) != len(wanted):
                raise InvalidInput(f"pods' {name}", len(getattr(self, name)), f"one for each of {len(wanted)} pods")
        if len(self.capacity) != len(self.nodes):
            raise InvalidInput("capacity", len(self.capacity), f"one for each of {len(self.nodes)} nodes")


@dataclass(frozen=True, slots=True)
class Emptied:
    """What came of one rule. Shares are of pod-steps in the second half; `before`: squeezed without any move."""

    rule: str
    nodes: tuple[int, ...]  # rows, in the order in which they were emptied
    moved: int  # pods
    squeezed_pct: float
    before_pct: float
    overflowed: int  # nodes whose use was above the capacity at some step


def try_emptying(recorded: RecordedPods, rules: Sequence[Predictor] = RULES, risk: float = 0.01) -> tuple[Emptied, ...]:
    """Each rule on the first half, judged by the second; nothing for fewer than two steps or nodes."""
    half = recorded.nodes.shape[1] // 2
    if half < 1 or len(recorded.nodes) < 2:
        return ()
    return tuple(_tried(recorded, rule, half, risk) for rule in rules)


def _tried(recorded: RecordedPods, rule: Predictor, half: int, risk: float) -> Emptied:
    pods = Past(recorded.pods[:, :half], recorded.step_s, recorded.requested, np.full(len(recorded.pods), np.nan))
    asked = np.zeros(len(recorded.nodes))
    there = (recorded.on >= 0) & ~np.isnan(pods.use).all(axis=1)  # in the first half
    np.add.at(asked, recorded.on[there], np.nan_to_num(recorded.requested[there]))
    of_nodes = Past(recorded.nodes[:, :half], recorded.step_s, asked, recorded.capacity)
    horizon = recorded.nodes.shape[1] - half
    will_use = np.nan_to_num(sizes(of_nodes, risk, horizon, rule), nan=np.inf)
    size = np.nan_to_num(sizes(pods, risk, horizon, rule))
    on, emptied = _chosen(recorded, will_use, size, there)
    moved = int(((on != recorded.on) & there).sum())
    on = _latecomers(recorded, on, emptied, will_use, size, there)
    later = recorded.pods[:, half:]
    squeezed, overflowed = _squeezed(recorded, on, half, later, emptied)
    before, _ = _squeezed(recorded, recorded.on, half, later, [])
    return Emptied(rule.name, tuple(emptied), moved, squeezed, before, overflowed)


def _chosen(recorded: RecordedPods, will_use: Float, size: Float, there: Mask) -> tuple[Int, list[int]]:
    """Nodes to empty, and where their pods go."""
    room = recorded.capacity - will_use
    on = recorded.on.copy()
    emptied: list[int] = []
    taken: set[int] = set()
    for node in np.argsort(will_use, kind="stable").tolist():
        own = np.flatnonzero((on == node) & there)
        if node in taken or not np.isfinite(will_use[node]) or not len(own):
            continue
        if len(emptied) == MAX_EMPTIED or not recorded.movable[own].all():
            continue
        trial = room.copy()
        trial[[node, *emptied]] = -np.inf
        goes = {}
        for pod in own[np.argsort(-size[own], kind="stable")].tolist():
            best = int(np.argmax(trial))
            if trial[best] < size[pod]:
                break
            trial[best] -= size[pod]
            goes[pod] = best
        if len(goes) < len(own):
            break
        emptied.append(node)
        for pod, best in goes.items():
            on[pod] = best
            room[best] -= size[pod]
            taken.add(best)
    return on, emptied


def _latecomers(
    recorded: RecordedPods, on: Int, emptied: Sequence[int], will_use: Float, size: Float, there: Mask
) -> Int:
    """Pods that came to an emptied node later, by what they request."""
    found = on.copy()
    room = recorded.capacity - will_use
    moved = (on != recorded.on) & there
    np.subtract.at(room, on[moved], size[moved])
    room[list(emptied)] = -np.inf
    for pod in np.flatnonzero(np.isin(on, emptied)).tolist():
        best = int(np.argmax(room))
        room[best] -= np.nan_to_num(recorded.requested[pod])
        found[pod] = best
    return found


def _squeezed(recorded: RecordedPods, on: Int, half: int, later: Float32, emptied: Sequence[int]) -> tuple[float, int]:
    """Percent of pod-steps on a node whose use exceeds its capacity, and how many nodes ever did."""
    total = np.nan_to_num(recorded.nodes[:, half:]).astype(np.float64)
    for pod in np.flatnonzero(on != recorded.on).tolist():
        use = np.nan_to_num(later[pod])
        total[on[pod]] += use
        if recorded.on[pod] >= 0:
            total[recorded.on[pod]] -= use
    over = total > recorded.capacity[:, None]
    over[list(emptied)] = False
    runs = ~np.isnan(later) & (on >= 0)[:, None]
    steps = int(runs.sum())
    hit = int((runs & over[np.maximum(on, 0)]).sum())
    return (100.0 * hit / steps if steps else 0.0), int(over.any(axis=1).sum())
