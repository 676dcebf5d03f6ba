"""Victims by sums: the compiled procedure over all rows.

Thousands of nodes times dozens of residents. kube-scheduler's procedure in one compiled pass: remove every candidate,
then reprieve them while the columns allow it, members that a job cannot spare first, then those whose eviction violates
a disruption budget, then the others, each by importance.
Limits: the procedure is greedy, so a row may be cleared of more pods than necessary, as in kube-scheduler;
policy/placement/reprieve.py improves it where node rules decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import njit
from cotenant.policy.placement.reprieve import PRIORITY_OFFSET

_LOWEST = -(2**62)
# Fate of a candidate. TEARS, BREAKS: evicted, and its job cannot spare it, or a budget is violated.
STAYS, TEARS, BREAKS, GOES = range(4)


class Losses(NamedTuple):
    """`JobTotals` without the members, for compiled code."""

    spare: Int
    violations: Int
    highest: Int
    total: Int
    size: Int
    earliest_s: Float


class Costs(NamedTuple):
    """Cost of clearing each row, in the order in which rows are compared. [N] each."""

    torn: Int  # 1 = a job is lost
    violations: Int
    highest: Int
    total: Int
    victims: Int
    earliest_s: Float


@njit
def remove_all(row: Int, weight: Int, left: Int) -> None:
    """Remove every candidate from its row in every column."""
    for c in range(weight.shape[0]):
        for v in range(len(row)):
            left[c, row[v]] -= weight[c, v]


@njit
def by_row(row: Int, size: int) -> tuple[Int, Int]:
    """Candidates sorted by row: those of row n are `order[start[n]:start[n + 1]]`."""
    start = np.zeros(size + 1, np.int64)
    for v in range(len(row)):
        start[row[v] + 1] += 1
    for n in range(size):
        start[n + 1] += start[n]
    filled = start[:-1].copy()
    order = np.empty(len(row), np.int64)
    for v in range(len(row)):
        order[filled[row[v]]] = v
        filled[row[v]] += 1
    return start, order


@njit
def _reprieve(
    kind: int, n: int, residents: Int, fate: Int, job: Int, taken: Int, weight: Int, left: Int, limit: Int
) -> None:
    """Reprieve a row's candidates of this fate, in order, while the incoming pod still fits."""
    for v in residents:
        if fate[v] != kind:
            continue
        stays = True
        for c in range(weight.shape[0]):
            stays &= left[c, n] + weight[c, v] <= limit[c, n]
        if stays:
            fate[v] = STAYS
            for c in range(weight.shape[0]):
                left[c, n] += weight[c, v]
            if job[v] >= 0:
                taken[job[v]] -= 1


@njit
def _lose_jobs(n: int, residents: Int, fate: Int, job: Int, taken: Int, spare: Int, weight: Int, left: Int) -> bool:
    """Evict reprieved members after all where their job is lost, which frees what they held. Returns whether there
    were any.
    """
    found = False
    for v in residents:
        if job[v] < 0 or taken[job[v]] <= spare[job[v]]:
            continue
        if fate[v] == STAYS:
            found = True
            taken[job[v]] += 1
            for c in range(weight.shape[0]):
                left[c, n] -= weight[c, v]
        fate[v] = TEARS
    return found


@njit
def clear(
    trying: Mask,
    start: Int,
    order: Int,
    priority: Int,
    started_s: Float,
    group: Int,
    budgets_from: Int,
    budgets: Int,
    bears: Int,
    job: Int,
    losses: Losses,
    weight: Int,
    left: Int,
    limit: Int,
    fate: Int,
    costs: Costs,
) -> None:
    """Decide every candidate's `fate` on the rows in `trying`, and the cost. Sorts `order` within rows by importance.

    The budgets that cover group g are `budgets[budgets_from[g]:budgets_from[g + 1]]`.
    """
    used = np.zeros(len(bears), np.int64)
    taken = np.zeros(len(losses.spare), np.int64)
    breaks = np.zeros(len(fate), np.bool_)
    for n in range(len(trying)):
        if not trying[n]:
            continue
        first, last = start[n], start[n + 1]
        for i in range(first + 1, last):  # few residents: insertion sort, stable for equal ones
            v, j = order[i], i - 1
            while j >= first and (
                priority[order[j]] < priority[v]
                or (priority[order[j]] == priority[v] and started_s[order[j]] > started_s[v])
            ):
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = v
        used[:] = 0
        for i in range(first, last):
            v = order[i]
            for at in range(budgets_from[group[v]], budgets_from[group[v] + 1]):
                used[budgets[at]] += 1
                breaks[v] |= used[budgets[at]] > bears[budgets[at]]
            fate[v] = BREAKS if breaks[v] else GOES
        for i in range(last - 1, first - 1, -1):  # a job spares its least important members
            v = order[i]
            if job[v] >= 0:
                taken[job[v]] += 1
                if taken[job[v]] > losses.spare[job[v]]:
                    fate[v] = TEARS
        for kind in (TEARS, BREAKS, GOES):
            _reprieve(kind, n, order[first:last], fate, job, taken, weight, left, limit)
        if _lose_jobs(n, order[first:last], fate, job, taken, losses.spare, weight, left):
            for kind in (BREAKS, GOES):
                _reprieve(kind, n, order[first:last], fate, job, taken, weight, left, limit)
        costs.highest[n] = _LOWEST
        for i in range(first, last):
            v = order[i]
            if fate[v] == STAYS:
                continue
            u = job[v]
            if u < 0 or (taken[u] >= 0 and taken[u] <= losses.spare[u]):
                costs.violations[n] += breaks[v]
                costs.victims[n] += 1
                costs.total[n] += priority[v] + PRIORITY_OFFSET
                highest, earliest_s = priority[v], started_s[v]
            elif taken[u] > 0:
                taken[u] = -1  # counted as a whole
                costs.torn[n] = 1
                costs.violations[n] += losses.violations[u]
                costs.victims[n] += losses.size[u]
                costs.total[n] += losses.total[u] + losses.size[u] * PRIORITY_OFFSET
                highest, earliest_s = losses.highest[u], losses.earliest_s[u]
            else:
                continue
            if highest > costs.highest[n]:
                costs.highest[n], costs.earliest_s[n] = highest, earliest_s
            elif highest == costs.highest[n]:
                costs.earliest_s[n] = min(costs.earliest_s[n], earliest_s)
        for i in range(first, last):
            if job[order[i]] >= 0:
                taken[job[order[i]]] = 0
