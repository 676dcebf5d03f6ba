"""Filters and scores of one pod shape over the rows of nodes, compiled, each beside its plain form.

A scheduling cycle may judge thousands of pods against thousands of nodes. Filters and scores are chosen by integer
codes in two compiled dispatches, `rejection` and `score_rows`; every caller (the verdict cache of the scheduling cycle,
the extender, the lab's replays) goes through them, so a score is compiled in one place. An unknown score code raises.
The plain forms in NumPy are the specification; property tests compare both.
Limits: row-local judgements only; what depends on other rows (spread over zones, affinity between pods) narrows the
rows before the call.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, Mask, NodeArrays, Param, ShapeArrays, Sum
from cotenant.model.compiled import inlined, njit
from cotenant.policy.placement.codes import Fit, Score
from cotenant.policy.placement.knobs import column
from cotenant.policy.placement.scores.founding import founding, founding_at
from cotenant.policy.placement.scores.interference import (
    interference_at,
    interference_parts,
    paragon_like,
    paragon_like_at,
)
from cotenant.policy.placement.scores.kube import kube_1_36, kube_1_36_at, kube_default, kube_default_at
from cotenant.policy.placement.scores.packing import (
    balance,
    balance_at,
    best_fit,
    best_fit_at,
    dot_product,
    dot_product_at,
    fewest_pods,
    fewest_pods_at,
    least_allocated,
    least_allocated_at,
)


class Reject(IntEnum):
    """The filter that rejected a node, in the order of evaluation."""

    NOT_READY = 1
    TAINT = 2
    SELECTOR = 3
    CPU = 4
    MEMORY = 5
    RESOURCE = 6
    GROUP = 7
    LOAD = 8


class Filter(NamedTuple):
    """A filter as users see it: the plugin's name, Kubernetes' where it has one, and the text that rejected nodes
    are counted under.
    """

    plugin: str
    reason: str


FILTERS = {
    Reject.NOT_READY: Filter("NodeReady", "node(s) were not ready or unschedulable"),
    Reject.TAINT: Filter("TaintToleration", "node(s) had untolerated taint(s)"),
    Reject.SELECTOR: Filter("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
    Reject.CPU: Filter("NodeResourcesFit", "Insufficient cpu"),
    Reject.MEMORY: Filter("NodeResourcesFit", "Insufficient memory"),
    Reject.RESOURCE: Filter("NodeResourcesFit", "Insufficient other resource"),
    Reject.GROUP: Filter("GroupLimit", "node(s) already held as many pods of the group as allowed"),
    Reject.LOAD: Filter("LoadThreshold", "node(s) predicted to be above the load threshold"),
}
REASONS = {verdict: FILTERS[verdict].reason for verdict in Reject}

_USE, _USE_MEMORY, _IS_SERVICE = int(Param.USE_CPU), int(Param.USE_MEMORY), int(Param.IS_SERVICE)
_LOAD_LIMIT = int(Param.LOAD_LIMIT)
_S_USE, _S_USE_MEMORY = int(Sum.USE_CPU), int(Sum.USE_MEMORY)
_K_USE, _K_MEMORY, _K_CAP = column("use_limit"), column("memory_limit"), column("request_cap")
_BEST_FIT, _LEAST_ALLOCATED = int(Score.BEST_FIT), int(Score.LEAST_ALLOCATED)
_BALANCE, _FEWEST_PODS, _DOT_PRODUCT = int(Score.BALANCE), int(Score.FEWEST_PODS), int(Score.DOT_PRODUCT)
_KUBE_DEFAULT, _KUBE_1_36 = int(Score.KUBE_DEFAULT), int(Score.KUBE_1_36)
_FOUNDING = int(Score.FOUNDING)
_FOUNDING_LEDGER, _PARAGON_LIKE = int(Score.FOUNDING_LEDGER), int(Score.PARAGON_LIKE)
_INTERFERENCE, _NO_SCORE = int(Score.INTERFERENCE), int(Score.NONE)
_PREDICTED = int(Fit.PREDICTED_USE)
_NOT_READY, _TAINT, _SELECTOR = int(Reject.NOT_READY), int(Reject.TAINT), int(Reject.SELECTOR)
_CPU, _MEMORY, _RESOURCE = int(Reject.CPU), int(Reject.MEMORY), int(Reject.RESOURCE)
_GROUP, _LOAD = int(Reject.GROUP), int(Reject.LOAD)


@inlined
def rejection(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, fit: int, knobs: Float) -> int:
    """The first filter that rejects node n for shape k (a `Reject`), 0 if none does.

    A resource that the shape does not request is not checked, so a node over its CPU still accepts a pod without CPU
    requests (Kubernetes' NodeResourcesFit). Evaluated from the last to the first, so that there is one exit and the
    first filter's result remains (see `inlined`).
    """
    ready = nodes.ready[n]
    cpu_capacity, memory_capacity = nodes.capacity[n, CPU], nodes.capacity[n, MEMORY]
    cpu = nodes.requested[n, CPU] + shapes.request[k, CPU]
    memory = nodes.requested[n, MEMORY] + shapes.request[k, MEMORY]
    use = nodes.sums[n, _S_USE] + shapes.params[k, _USE] * 1000.0
    asks_cpu, asks_memory = shapes.request[k, CPU] > 0, shapes.request[k, MEMORY] > 0
    use_memory = nodes.sums[n, _S_USE_MEMORY] + shapes.params[k, _USE_MEMORY]
    by_use = fit == _PREDICTED and shapes.params[k, _IS_SERVICE] == 0.0
    repelled = nodes.taints[n] & ~shapes.tolerated[k]
    group = shapes.group[k]
    residents = nodes.group_count[n, group] if group >= 0 else -1

    verdict = 0
    if use / cpu_capacity > shapes.params[k, _LOAD_LIMIT]:
        verdict = _LOAD
    if residents >= shapes.group_limit[k] and group >= 0:
        verdict = _GROUP
    for word in range(nodes.labels.shape[1]):
        if shapes.selector[k, word] & ~nodes.labels[n, word]:
            verdict = _SELECTOR
    if repelled:
        verdict = _TAINT
    for r in range(MEMORY + 1, nodes.capacity.shape[1]):
        request = shapes.request[k, r]
        if request > 0 and nodes.requested[n, r] + request > nodes.capacity[n, r]:
            verdict = _RESOURCE
    if (use_memory > knobs[_K_MEMORY] * memory_capacity) if by_use else (asks_memory and memory > memory_capacity):
        verdict = _MEMORY
    if asks_cpu and ((cpu > knobs[_K_CAP] * cpu_capacity) if by_use else (cpu > cpu_capacity)):
        verdict = _CPU
    if fit == _PREDICTED and use > knobs[_K_USE] * cpu_capacity:
        verdict = _LOAD
    if not ready:
        verdict = _NOT_READY
    return verdict


@njit
def reject_rows(nodes: NodeArrays, shapes: ShapeArrays, k: int, fit: int, knobs: Float, out: Int) -> None:
    """The result of `rejection` on every node for shape k, into `out[N]` (a `Reject`, 0 = feasible)."""
    for n in range(nodes.capacity.shape[0]):
        out[n] = rejection(nodes, n, shapes, k, fit, knobs)


@njit
def score_rows(
    score: int, nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, now_s: float, knobs: Float, out: Float
) -> None:
    """The score of shape k on each of `rows` into `out[row]`; the highest wins. Raises `ValueError` for an unknown
    score code.

    The only compiled dispatch over scores. The branches stand outside the loops: inside, they would keep reference
    counts alive (see `inlined`).
    """
    if score == _INTERFERENCE:
        for n in rows:
            out[n] = interference_at(nodes, n, shapes, k, knobs)
    elif score == _PARAGON_LIKE:
        for n in rows:
            out[n] = paragon_like_at(nodes, n, shapes, k, knobs)
    elif score == _FOUNDING:
        for n in rows:
            out[n] = founding_at(nodes, n, shapes, k, now_s, False, knobs)
    elif score == _FOUNDING_LEDGER:
        for n in rows:
            out[n] = founding_at(nodes, n, shapes, k, now_s, True, knobs)
    elif score == _KUBE_DEFAULT:
        for n in rows:
            out[n] = kube_default_at(nodes, n, shapes, k)
    elif score == _KUBE_1_36:
        for n in rows:
            out[n] = kube_1_36_at(nodes, n, shapes, k)
    elif score == _DOT_PRODUCT:
        for n in rows:
            out[n] = dot_product_at(nodes, n, shapes, k)
    elif score == _FEWEST_PODS:
        for n in rows:
            out[n] = fewest_pods_at(nodes, n, shapes, k)
    elif score == _BALANCE:
        for n in rows:
            out[n] = balance_at(nodes, n, shapes, k)
    elif score == _LEAST_ALLOCATED:
        for n in rows:
            out[n] = least_allocated_at(nodes, n, shapes, k)
    elif score == _BEST_FIT:
        for n in rows:
            out[n] = best_fit_at(nodes, n, shapes, k)
    elif score == _NO_SCORE:
        for n in rows:
            out[n] = 0.0
    else:
        raise ValueError("unknown score code: score_rows has no branch for it")


@njit
def winner(
    verdicts: Int, scores: Float, allowed: Mask, random_ties: bool, sample: int, cursor: Int, rng: np.random.Generator
) -> int:
    """The best feasible row (`verdicts` 0, and `allowed` where it is not empty), -1 if there is none; other
    parameters as in `choose`.
    """
    size = verdicts.shape[0]
    narrowed = allowed.shape[0] > 0
    start = cursor[0] if sample > 0 else 0
    best, best_score, ties, passed, examined = -1, -np.inf, 0, 0, 0
    for i in range(size):
        n = start + i
        if n >= size:
            n -= size
        examined += 1
        if verdicts[n] != 0 or (narrowed and not allowed[n]):
            continue
        passed += 1
        if scores[n] > best_score:
            best, best_score, ties = n, scores[n], 1
        elif random_ties and scores[n] == best_score:
            ties += 1
            if rng.random() * ties < 1.0:
                best = n
        if sample > 0 and passed >= sample:
            break
    if sample > 0:
        cursor[0] = (start + examined) % size
    return best


@njit
def choose(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    k: int,
    allowed: Mask,
    fit: int,
    score: int,
    random_ties: bool,
    sample: int,
    cursor: Int,
    now_s: float,
    knobs: Float,
    rng: np.random.Generator,
    verdicts: Int,
    scores: Float,
) -> int:
    """The best node for shape k, -1 if none is feasible.

    `sample` > 0 stops after that many feasible nodes, starting where the last call stopped (`cursor[0]`), as
    kube-scheduler does. `allowed` is empty (every node) or one bool per node. Ties: the lowest row, or uniformly at
    random. `verdicts[N]` and `scores[N]` are scratch.
    """
    size = nodes.capacity.shape[0]
    reject_rows(nodes, shapes, k, fit, knobs, verdicts)
    if allowed.shape[0] > 0:
        for n in range(size):
            if not allowed[n]:
                verdicts[n] = _NOT_READY
    passes = False
    for n in range(size):
        passes |= verdicts[n] == 0
    if passes:
        score_rows(score, nodes, shapes, k, np.arange(size), now_s, knobs, scores)
    return winner(verdicts, scores, allowed, random_ties, sample, cursor, rng)


@inlined
def commit(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> None:
    """Add a pod of shape k to node n."""
    for r in range(nodes.requested.shape[1]):
        nodes.requested[n, r] += shapes.request[k, r]
    for s in range(nodes.sums.shape[1]):
        nodes.sums[n, s] += shapes.sums[k, s]
    if shapes.group[k] >= 0:
        nodes.group_count[n, shapes.group[k]] += 1


def sample_size(nodes: int, pct: int = 0) -> int:
    """Number of feasible nodes that kube-scheduler scores: all below 100, else `pct` % of N, at least 100; by default
    (50 - N/125) %, at least 5 %.
    """
    if nodes < 100:
        return nodes
    return max(100, nodes * (pct or max(5, 50 - nodes // 125)) // 100)


def plain_rejections(nodes: NodeArrays, shapes: ShapeArrays, k: int, fit: int, knobs: Float) -> Int:
    """Plain form of `rejection` over all nodes: `int64[N]`, 0 where the node passes."""
    request, params = shapes.request[k], shapes.params[k]
    service = params[_IS_SERVICE] > 0
    verdict = np.zeros(nodes.capacity.shape[0], dtype=np.int64)

    def turn_down(where: Mask, reason: Reject) -> None:
        verdict[(verdict == 0) & where] = reason

    after = nodes.requested + request
    use = nodes.sums[:, _S_USE] + params[_USE] * 1000.0
    turn_down(~nodes.ready, Reject.NOT_READY)
    if fit == Fit.PREDICTED_USE:
        turn_down(use > knobs[_K_USE] * nodes.capacity[:, CPU], Reject.LOAD)
    if fit == Fit.PREDICTED_USE and not service:
        turn_down((request[CPU] > 0) & (after[:, CPU] > knobs[_K_CAP] * nodes.capacity[:, CPU]), Reject.CPU)
        memory = nodes.sums[:, _S_USE_MEMORY] + params[_USE_MEMORY]
        turn_down(memory > knobs[_K_MEMORY] * nodes.capacity[:, MEMORY], Reject.MEMORY)
    else:
        turn_down((request[CPU] > 0) & (after[:, CPU] > nodes.capacity[:, CPU]), Reject.CPU)
        turn_down((request[MEMORY] > 0) & (after[:, MEMORY] > nodes.capacity[:, MEMORY]), Reject.MEMORY)
    others = slice(MEMORY + 1, None)
    short = (request[others] > 0) & (after[:, others] > nodes.capacity[:, others])
    turn_down(short.any(axis=1), Reject.RESOURCE)
    turn_down((nodes.taints & ~shapes.tolerated[k]) != 0, Reject.TAINT)
    turn_down(((shapes.selector[k] & ~nodes.labels) != 0).any(axis=1), Reject.SELECTOR)
    group = int(shapes.group[k])
    if group >= 0:
        turn_down(nodes.group_count[:, group] >= shapes.group_limit[k], Reject.GROUP)
    turn_down(use / nodes.capacity[:, CPU] > params[_LOAD_LIMIT], Reject.LOAD)
    return verdict


def plain_scores(
    score: int, nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int, now_s: float, knobs: Float
) -> Float:
    """Plain form of `score_rows`: `float64[len(rows)]`. Raises `ValueError` or `KeyError` for an unknown score code."""
    if score == Score.INTERFERENCE:
        return interference_parts(nodes, shapes, k, rows, knobs).sum(axis=1)
    if score == Score.PARAGON_LIKE:
        return paragon_like(nodes, shapes, k, rows, knobs)
    if score in (Score.FOUNDING, Score.FOUNDING_LEDGER):
        return founding(nodes, shapes, k, rows, now_s, score == Score.FOUNDING_LEDGER, knobs)
    by_requests = {
        Score.NONE: _no_score,
        Score.KUBE_DEFAULT: kube_default,
        Score.KUBE_1_36: kube_1_36,
        Score.DOT_PRODUCT: dot_product,
        Score.FEWEST_PODS: fewest_pods,
        Score.BALANCE: balance,
        Score.LEAST_ALLOCATED: least_allocated,
        Score.BEST_FIT: best_fit,
    }
    return by_requests[Score(score)](nodes, shapes, k, rows)


def _no_score(nodes: NodeArrays, shapes: ShapeArrays, k: int, rows: Int) -> Float:
    return np.zeros(len(rows))
