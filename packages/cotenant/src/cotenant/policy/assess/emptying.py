"""A consolidation tried on the past: which nodes one would have emptied by the first half of a history, and whether the
growth of the second half still fitted.

A rule says of the first half how much of each node is taken and how much each pod takes: by requests, by what use is
predicted to stay below, or by both. The node of which least is taken is emptied if all its pods fit elsewhere, then the
next; a node that took pods in is not emptied. Each pod goes where least room is left with it, which frees most nodes
and leaves least for what comes. What is judged is the second half (`emptied_judging`). `PLAN` does as the report's plan
does: nodes of which at most half is requested, by requests and by predicted use at the stated risk, and no more nodes
than leave room for the most that was requested at any time of the first half, with a margin. The margin is the
least of five that kept 1 % on the half of Azure's trace that nothing is reported of.
Limits: budgets, spread and affinity are not looked at here; use that is no pod's stays with its node, and a pod whose
use was not known in the first half moves as one that came later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.policy.assess.emptied_judging import EmptyingOutcome, MovedPods, judged
from cotenant.policy.assess.predictor import Past, Predictor
from cotenant.policy.assess.recorded_pods import RecordedPods, RecordedUse, most_requested
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, NSigma
from cotenant.policy.assess.size_blend import SizeBlend
from cotenant.policy.assess.sizes import sizes

MAX_EMPTIED = 100
_MAX_TRIED = 400  # nodes, those of which least is taken: of their pods alone a size is worked out
UNDERUSED_SHARE = 0.5  # of requests, as in the report's plan
KEPT_SHARE = 1.25  # of the most that was requested at any time, for what comes back


class EmptyingRule(NamedTuple):
    """What pods must fit by. `at_most`: nodes of which more is requested are left alone; `keeps`: so many times the
    most that was requested must fit on the nodes that are left.
    """

    name: str
    by_requests: bool
    by_use: Predictor | None
    at_most: float = np.inf
    keeps: float = 0.0


PLAN = EmptyingRule("the plan (ours)", True, SizeBlend(), UNDERUSED_SHARE, KEPT_SHARE)
RIVALS: tuple[EmptyingRule, ...] = (
    EmptyingRule("requests", True, None),
    *(EmptyingRule(rule.name, False, rule) for rule in (LastDayPeak(), NSigma(), BorgPeak())),
)


class _Measure(NamedTuple):
    """One resource by one opinion: room left on nodes, and what each pod takes."""

    room: Float
    takes: Float
    capacity: Float


def try_emptying(
    recorded: RecordedPods, rules: Sequence[EmptyingRule] = (PLAN, *RIVALS), risk: float = 0.01
) -> tuple[EmptyingOutcome, ...]:
    """Each rule on the first half, judged by the second; nothing for fewer than two steps or nodes."""
    half = recorded.steps // 2
    if half < 1 or recorded.nodes < 2:
        return ()
    return tuple(_tried(recorded, rule, half, risk) for rule in rules)


def _tried(recorded: RecordedPods, rule: EmptyingRule, half: int, risk: float) -> EmptyingOutcome:
    there = (recorded.on >= 0) & recorded.runs[:, :half].any(axis=1) & recorded.runs[:, half - 1 :].any(axis=1)
    requested = [np.where(there, np.nan_to_num(of.requested), 0.0) for of in recorded.resources]
    asked = [_by_node(recorded, amounts) for amounts in requested]
    shares = np.array([amounts / _some(of.capacity) for amounts, of in zip(asked, recorded.resources, strict=True)])
    low: Mask = np.asarray((shares <= rule.at_most).all(axis=0))
    measures = []
    if rule.by_requests:
        measures += [
            _Measure(of.capacity - held, takes, of.capacity)
            for of, held, takes in zip(recorded.resources, asked, requested, strict=True)
        ]
    if rule.by_use is not None:
        taken = [
            _node_sizes(of, held, recorded.step_s, half, rule.by_use, risk)
            for of, held in zip(recorded.resources, asked, strict=True)
        ]
        order = np.array([amount / _some(of.capacity) for amount, of in zip(taken, recorded.resources, strict=True)])
        some = _first(recorded, there, low, (shares if rule.by_requests else order).sum(axis=0))
        rows = np.flatnonzero(np.isin(recorded.on, some) & there)
        for of, amount in zip(recorded.resources, taken, strict=True):
            takes = _pod_sizes(of, rows, recorded.step_s, half, rule.by_use, risk)
            measures.append(_Measure(of.capacity - amount, takes, of.capacity))
    else:
        some = _first(recorded, there, low, shares.sum(axis=0))
    placed = recorded.on >= 0
    most = most_requested(np.array([of.requested[placed] for of in recorded.resources]), recorded.runs[placed, :half])
    spare = np.array([of.capacity.sum() for of in recorded.resources]) - rule.keeps * most
    on, emptied = _chosen(recorded, measures, some, there, spare)
    return judged(recorded, MovedPods(rule.name, on, tuple(emptied), there), half)


def _by_node(recorded: RecordedPods, amounts: Float) -> Float:
    total = np.zeros(recorded.nodes)
    placed = recorded.on >= 0
    np.add.at(total, recorded.on[placed], amounts[placed])
    return total


def _some(capacity: Float) -> Float:
    return np.where(capacity > 0, capacity, np.nan)


def _node_sizes(of: RecordedUse, asked: Float, step_s: float, half: int, rule: Predictor, risk: float) -> Float:
    """What use of nodes stays below; infinitely much where that is not known, so that nothing goes there."""
    past = Past(of.nodes[:, :half], step_s, asked, of.capacity)
    return np.nan_to_num(sizes(past, risk, of.nodes.shape[1] - half, rule), nan=np.inf, posinf=np.inf)


def _pod_sizes(of: RecordedUse, rows: Int, step_s: float, half: int, rule: Predictor, risk: float) -> Float:
    """The same of these pods; what a pod requests where its use is not known."""
    found = np.nan_to_num(of.requested)
    past = Past(of.pods[rows, :half], step_s, of.requested[rows], np.full(len(rows), np.nan))
    size = sizes(past, risk, of.nodes.shape[1] - half, rule)
    found[rows] = np.where(np.isnan(size), found[rows], size)
    return found


def _first(recorded: RecordedPods, there: Mask, low: Mask, taken: Float) -> Int:
    """Nodes in the order in which they are tried: those with pods, all of which may move."""
    has, stays = np.zeros(recorded.nodes, np.bool_), np.zeros(recorded.nodes, np.bool_)
    has[recorded.on[there]] = True
    stays[recorded.on[there & ~recorded.movable]] = True
    order = np.argsort(taken, kind="stable")
    return order[(has & ~stays & low & np.isfinite(taken))[order]][:_MAX_TRIED]


def _chosen(
    recorded: RecordedPods, measures: Sequence[_Measure], order: Int, there: Mask, spare: Float
) -> tuple[Int, list[int]]:
    """Where every pod is afterwards, and the nodes that were emptied; `spare`: what may go, by resource."""
    size = np.array([of.capacity for of in recorded.resources])
    on = recorded.on.copy()
    room = np.array([one.room for one in measures])
    scale = np.array([_some(one.capacity) for one in measures])
    takes = np.array([one.takes for one in measures])
    emptied: list[int] = []
    received: set[int] = set()
    for node in order.tolist():
        if len(emptied) == MAX_EMPTIED:
            break
        if node in received or (size[:, node] > spare).any():
            continue
        own = np.flatnonzero((recorded.on == node) & there)
        trial = room.copy()
        trial[:, [node, *emptied]] = -np.inf
        goes = {}
        for pod in own[np.argsort(-takes[0, own], kind="stable")].tolist():
            left = ((trial - takes[:, pod, None]) / scale).min(axis=0)
            best = int(np.argmin(np.where(left >= 0, left, np.inf)))
            if not left[best] >= 0:
                break
            trial[:, best] -= takes[:, pod]
            goes[pod] = best
        if len(goes) < len(own):
            continue
        emptied.append(node)
        spare = spare - size[:, node]
        for pod, best in goes.items():
            on[pod] = best
            room[:, best] -= takes[:, pod]
            received.add(best)
    return on, emptied
