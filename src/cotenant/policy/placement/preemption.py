"""Whom to evict so that a pod of higher priority fits: the victims on each node, and the node that loses least.

Problem: thousands of nodes times dozens of residents, each of which may stay or go. Choice: whatever can stand in the pod's way on a node is a
*column*: residents add up to something (`held`) that may be at most `limit` beside the newcomer: milli-CPU, bytes, conflicting ports,
pods that an anti-affinity term is about, pods over a spread's skew. All columns are judged for all rows at once: take away every resident of
lower priority, see where the pod then fits, and give residents back as long as it still does: those whose eviction would break a
disruption budget first, then the rest, each by priority and then by age. One compiled pass over the rows.
Source: kube-scheduler's DefaultPreemption plugin and its choice of a node. Limits: every node is looked at, not a sample; of equal nodes the lowest
row is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import njit
from cotenant.model.reasons import Rejection, no_node_line

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
UNLIMITED = np.int64(1) << np.int64(60)
PLUGIN = "DefaultPreemption"

_PRIORITY_OFFSET = 2**31  # makes every victim's priority count towards the sum, as kube-scheduler does
_LOWEST = -(2**62)
_STAYS, _BREAKS, _GOES = 0, 1, 2  # a candidate's fate: _BREAKS = it goes, and that breaks a budget


class Column(NamedTuple):
    """Something that residents add up to on each row, and the most of it that leaves room for the newcomer."""

    reason: str
    held: Int  # [N] what residents add up to now
    limit: Int  # [N] `UNLIMITED` where it does not matter
    weight: Int  # [V] what each candidate adds


class Candidates(NamedTuple):
    """Residents of lower priority than the newcomer. V of them, in G groups that budgets do not tell apart; B disruption budgets."""

    pod: Int  # [V]
    row: Int  # [V]
    priority: Int  # [V]
    started_s: Float  # [V] NaN = not started, which counts as now
    group: Int  # [V]
    covered: Mask  # [G, B] which budgets cover a group
    bears: Int  # [B] how many disruptions each budget still bears


class _Costs(NamedTuple):
    """What clearing each row costs, in the order in which rows are compared. [N] each."""

    violations: Int
    highest: Int
    total: Int
    victims: Int
    earliest_s: Float


@dataclass(frozen=True, slots=True)
class Preemption:
    """The answer: evict `victims` and expect room on `row`; -1 = no node can be helped, and `rejections` say why."""

    row: int
    victims: tuple[int, ...] = ()  # most important first, those that break a budget before the others
    violations: int = 0  # victims whose eviction breaks a budget
    possible: int = 0  # nodes on which it would have worked
    rejections: tuple[Rejection, ...] = ()

    def headline(self, nodes: int) -> str:
        """One line, as kube-scheduler appends it to the reason of an unschedulable pod."""
        if self.row >= 0:
            return f"preemption: {len(self.victims)} victim(s), 1 of {self.possible} possible nodes chosen"
        return f"preemption: {no_node_line(nodes, self.rejections)}"


def ineligible(preempts: bool, priority: int, ending_priorities: Int, nominated_is_hopeless: bool) -> str:
    """Why a pod may not preempt now; empty if it may.

    `preempts` is whether its preemptionPolicy is not Never; `ending_priorities` are those of the terminating pods on its nominated node:
    while a less important one is still leaving, the pod waits for it, unless no removal can help it there.
    """
    if not preempts:
        return "not eligible due to preemptionPolicy=Never"
    if not nominated_is_hopeless and bool((ending_priorities < priority).any()):
        return "not eligible due to a terminating pod on the nominated node"
    return ""


def find_victims(here: Mask, helpable: Mask, columns: tuple[Column, ...], candidates: Candidates) -> Preemption:
    """The row to clear and whom to evict there.

    `here[N]` are rows with a node; `helpable[N]` those where removing pods can help at all (their labels, taints and volumes suit the pod).
    """
    size = len(here)
    populated = np.zeros(size, dtype=np.bool_)
    populated[candidates.row] = True
    trying = here & helpable & populated
    rejections = [
        (NOT_HELPFUL, int((here & ~helpable).sum())),
        (NO_VICTIMS, int((here & helpable & ~populated).sum())),
    ]
    shape = (len(columns), len(candidates.pod))
    weight = np.array([column.weight for column in columns], dtype=np.int64).reshape(shape)
    left = np.array([column.held for column in columns], dtype=np.int64).reshape(len(columns), size)
    limit = np.array([column.limit for column in columns], dtype=np.int64).reshape(len(columns), size)
    _remove_all(candidates.row, weight, left)
    for column, without, most in zip(columns, left, limit, strict=True):
        short = trying & (without > most)
        rejections.append((column.reason, int(short.sum())))
        trying = trying & ~short
    if not trying.any():
        return Preemption(-1, rejections=_merged(rejections))
    started_s = np.nan_to_num(candidates.started_s, nan=np.inf)
    start, order = _by_row(candidates.row, size)
    zeros = [np.zeros(size, dtype=np.int64) for _ in range(4)]
    costs = _Costs(zeros[0], zeros[1], zeros[2], zeros[3], np.full(size, np.inf))
    fate = np.zeros(len(order), dtype=np.int64)
    _clear(
        trying,
        start,
        order,
        candidates.priority,
        started_s,
        candidates.group,
        np.append(0, np.cumsum(candidates.covered.sum(axis=1))),
        np.nonzero(candidates.covered)[1],
        candidates.bears,
        weight,
        left,
        limit,
        fate,
        costs,
    )
    best = np.flatnonzero(trying)
    possible = len(best)
    for cost in (costs.violations, costs.highest, costs.total, costs.victims, -costs.earliest_s):
        worth = cost[best]
        best = best[worth == worth.min()]
    row = int(best[0])
    here_in_order = order[start[row] : start[row + 1]]
    victims = [pod for kind in (_BREAKS, _GOES) for pod in here_in_order[fate[here_in_order] == kind].tolist()]
    return Preemption(
        row,
        tuple(int(candidates.pod[position]) for position in victims),
        int(costs.violations[row]),
        possible,
        _merged(rejections),
    )


def _merged(found: list[tuple[str, int]]) -> tuple[Rejection, ...]:
    count: dict[str, int] = {}
    for reason, nodes in found:
        if nodes:
            count[reason] = count.get(reason, 0) + nodes
    return tuple(Rejection(PLUGIN, reason, nodes) for reason, nodes in count.items())


@njit
def _remove_all(row: Int, weight: Int, left: Int) -> None:
    """Take every candidate off its row in every column."""
    for c in range(weight.shape[0]):
        for v in range(len(row)):
            left[c, row[v]] -= weight[c, v]


@njit
def _by_row(row: Int, size: int) -> tuple[Int, Int]:
    """Candidates row by row: those of row n are `order[start[n]:start[n + 1]]`."""
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
def _clear(
    trying: Mask,
    start: Int,
    order: Int,
    priority: Int,
    started_s: Float,
    group: Int,
    budgets_from: Int,
    budgets: Int,
    bears: Int,
    weight: Int,
    left: Int,
    limit: Int,
    fate: Int,
    costs: _Costs,
) -> None:
    """Decide every candidate's `fate` on the rows that are tried, and what it costs. Sorts `order` within rows by importance.

    The budgets that cover group g are `budgets[budgets_from[g]:budgets_from[g + 1]]`.
    """
    columns = weight.shape[0]
    used = np.zeros(len(bears), np.int64)
    for n in range(len(trying)):
        if not trying[n]:
            continue
        first, last = start[n], start[n + 1]
        for i in range(first + 1, last):  # a handful of residents: insertion keeps equal ones in order
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
            fate[v] = _GOES
            for at in range(budgets_from[group[v]], budgets_from[group[v] + 1]):
                used[budgets[at]] += 1
                if used[budgets[at]] > bears[budgets[at]]:
                    fate[v] = _BREAKS
        costs.highest[n] = _LOWEST
        for turn in (_BREAKS, _GOES):
            for i in range(first, last):
                v = order[i]
                if fate[v] != turn:
                    continue
                stays = True
                for c in range(columns):
                    stays &= left[c, n] + weight[c, v] <= limit[c, n]
                if stays:
                    fate[v] = _STAYS
                    for c in range(columns):
                        left[c, n] += weight[c, v]
                    continue
                costs.violations[n] += turn == _BREAKS
                costs.victims[n] += 1
                costs.total[n] += priority[v] + _PRIORITY_OFFSET
                if priority[v] > costs.highest[n]:
                    costs.highest[n], costs.earliest_s[n] = priority[v], started_s[v]
                elif priority[v] == costs.highest[n]:
                    costs.earliest_s[n] = min(costs.earliest_s[n], started_s[v])
