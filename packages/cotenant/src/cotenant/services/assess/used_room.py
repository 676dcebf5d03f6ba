"""Whether pods would still fit on the nodes that a plan moves them to, by what they and the nodes will use.

The plan is made by requests, as the scheduler places; requests may be less than what is used. Use of the next day is
predicted at the stated risk as lendable amounts are (`policy/assess/size_blend.py`). Nor does a plan by what runs now
know what comes back: the nodes that are left must hold the most that was requested in the history, with a margin. The
same is tried on the past (`policy/assess/emptying.py`).
Limits: of a node whose use is not known nothing is held against it; a pod whose use is not known takes its requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.assess.history import AssessedHistory, ClusterHistory
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.assess.emptying import KEPT_SHARE
from cotenant.policy.assess.predictor import DAY_S, Past
from cotenant.policy.assess.recorded_pods import most_requested
from cotenant.policy.assess.sizes import sizes
from cotenant.services.assess.columns import MIB
from cotenant.services.assess.copying import ClusterCopy

MIN_DAYS = 2  # of use
COMES_BACK = f"the nodes that are left would not hold {KEPT_SHARE:g} times the most that was requested in the history"


class EmptyingMove(NamedTuple):
    """A pod that leaves a node for a target."""

    pod: str
    node: str
    target: str


def is_judged(history: ClusterHistory | None) -> bool:
    """Whether the history is long enough to say what will be used."""
    return history is not None and history.nodes.steps * history.nodes.step_s >= MIN_DAYS * DAY_S


def overfull(
    copy: ClusterCopy, history: ClusterHistory, risk: float, moves: Sequence[EmptyingMove]
) -> dict[str, tuple[str, str]]:
    """The nodes that are not to be emptied, each with why, and a pod as an example; nodes are looked at in the order of
    the moves, and of one that is not to be emptied no pod counts elsewhere.
    """
    if not moves:
        return {}
    spare = _spare(copy, history)
    targets = sorted({move.target for move in moves} & copy.managed.keys())
    pods = sorted({move.pod for move in moves})
    capacity = np.array(
        [(copy.managed[name].capacity.cpu_m, copy.managed[name].capacity.memory_bytes / MIB) for name in targets]
    ).reshape(-1, 2)
    taken = _predicted(history.nodes, targets, capacity, risk)
    room = np.where(np.isnan(taken), np.inf, capacity - taken)
    requested = np.array([_requests(copy, pod) for pod in pods])
    size = _predicted(history.pods.use, pods, requested, risk)
    size = np.where(np.isnan(size), requested, size)
    at_node, at_pod = ({name: at for at, name in enumerate(names)} for names in (targets, pods))
    by_node: dict[str, list[EmptyingMove]] = {}
    for move in moves:
        by_node.setdefault(move.node, []).append(move)
    refused: dict[str, tuple[str, str]] = {}
    why = f"what its pods will use does not fit where they would go, at {100 * risk:g} % risk"
    for node, own in by_node.items():
        trial, size_of = room.copy(), _size(copy, node)
        if (size_of > spare).any():
            refused[node] = (COMES_BACK, own[0].pod)
            continue
        for move in own:
            target = at_node.get(move.target, -1)
            if target < 0:
                continue
            trial[target] -= size[at_pod[move.pod]]
            if (trial[target] < 0).any():
                refused[node] = (why, move.pod)
                break
        else:
            room, spare = trial, spare - size_of
    return refused


def _spare(copy: ClusterCopy, history: ClusterHistory) -> Float:
    """CPU and memory of nodes that may go; infinitely much where pods' use over two days is not known."""
    pods = history.pods
    if pods.use.steps * pods.use.step_s < MIN_DAYS * DAY_S:
        return np.full(2, np.inf)
    nodes = [node.name for node in copy.engine.nodes()]
    placed = np.flatnonzero(np.isin(pods.node, nodes))
    requested = np.array([pods.cpu_request_m[placed], pods.memory_request_mib[placed]], np.float64)
    most = most_requested(requested, ~np.isnan(pods.use.cpu_m[placed]))
    whole = np.array([_size(copy, name) for name in nodes]).sum(axis=0)
    return np.asarray(whole - KEPT_SHARE * most)


def _size(copy: ClusterCopy, name: str) -> Float:
    node = copy.engine.node(name)
    if node is None:
        return np.zeros(2)
    return np.array([node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME) / MIB])


def _requests(copy: ClusterCopy, key: str) -> tuple[float, float]:
    info = copy.engine.find(key)
    if info is None:
        return 0.0, 0.0
    asked = info.seen.pod.requests
    return float(asked.get(CPU_NAME)), asked.get(MEMORY_NAME) / MIB


def _predicted(use: AssessedHistory, names: Sequence[str], requested: Float, risk: float) -> Float:
    """CPU and memory of each name on the next day, NaN where that is not known."""
    found = np.full((len(names), 2), np.nan)
    rows = use.rows(names)
    known = np.flatnonzero(rows >= 0)
    if not len(known) or not use.steps:
        return found
    horizon = max(1, round(DAY_S / use.step_s))
    for at, values in enumerate((use.cpu_m, use.memory_mib)):
        past = Past(values[rows[known]], use.step_s, requested[known, at], np.full(len(known), np.nan))
        found[known, at] = sizes(past, risk, horizon)
    return found
