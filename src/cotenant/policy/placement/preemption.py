"""Preemption: the victims on each node for a pod of higher priority, and the node with the lowest cost.

Problem: thousands of nodes times dozens of residents, each of which may stay or be evicted. Choice: every constraint that residents can violate on a node
is a *column*: residents add up to something (`held`) that may be at most `limit` beside the incoming pod: milli-CPU, bytes, conflicting ports,
pods selected by an anti-affinity term, pods above a spread's skew. All columns are evaluated for all rows at once: remove every resident of
lower priority, check where the pod then fits, and reprieve residents as long as it still does: first those whose eviction would violate a
disruption budget, then the others, each by priority and then by age. One compiled pass over the rows.

Some residents are only useful together (`Jobs`): a job that loses more members than it can spare loses all of them, on whatever rows they are. Members that
a job cannot spare are reprieved first, a row on which no job is lost is preferred to every row on which one is, and where one is lost all of its members
count in the comparison.
Source: kube-scheduler's DefaultPreemption plugin and its choice of a node; jobs are our addition. Limits: every node is evaluated, not a sample; among
equal nodes the lowest row is taken; budgets are counted per row, and over all members of a lost job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.compiled import njit
from cotenant.model.decisions.reasons import Rejection, no_node_line

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
UNLIMITED = np.int64(1) << np.int64(60)
PLUGIN = "DefaultPreemption"

_PRIORITY_OFFSET = 2**31  # makes every victim's priority add to the sum, as in kube-scheduler
_LOWEST = -(2**62)
# Fate of a candidate. _TEARS, _BREAKS: evicted, and its job cannot spare it, or a budget is violated.
_STAYS, _TEARS, _BREAKS, _GOES = range(4)


class Column(NamedTuple):
    """One constraint: the residents' total on each row, and the maximum that leaves space for the incoming pod."""

    reason: str
    held: Int  # [N] current total over residents
    limit: Int  # [N] `UNLIMITED` where not constrained
    weight: Int  # [V] what each candidate adds


class Jobs(NamedTuple):
    """Residents that are only useful together, U jobs. All fields but `spare` are totals over the members that a job loses when it is lost."""

    spare: Int  # [U] how many members each can lose without being lost
    violations: Int  # [U] of disruption budgets
    highest: Int  # [U] priority
    total: Int  # [U] of the members' priorities
    size: Int  # [U]
    earliest_s: Float  # [U] of those of the highest priority; inf = not started
    members: tuple[tuple[int, ...], ...]  # pods, as in `Candidates.pod`


_NONE = np.empty(0, dtype=np.int64)
NO_JOBS = Jobs(_NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0), ())


class Candidates(NamedTuple):
    """Residents of lower priority than the incoming pod. V of them, in G groups that budgets treat alike; B disruption budgets."""

    pod: Int  # [V]
    row: Int  # [V]
    priority: Int  # [V]
    started_s: Float  # [V] NaN = not started, which counts as now
    group: Int  # [V]
    covered: Mask  # [G, B] which budgets cover a group
    bears: Int  # [B] disruptions that each budget still allows
    job: Int  # [V] index into `jobs`, -1 = not part of a job
    jobs: Jobs = NO_JOBS


class _Losses(NamedTuple):
    """`Jobs` without the members, for compiled code."""

    spare: Int
    violations: Int
    highest: Int
    total: Int
    size: Int
    earliest_s: Float


class _Costs(NamedTuple):
    """Cost of clearing each row, in the order in which rows are compared. [N] each."""

    torn: Int  # 1 = a job is lost
    violations: Int
    highest: Int
    total: Int
    victims: Int
    earliest_s: Float


@dataclass(frozen=True, slots=True)
class Preemption:
    """The result: evict `victims` to make space on `row`; -1 = no node can be helped, with `rejections` as the reasons."""

    row: int
    # Most important first; those of lost jobs, then those that violate a budget, before the others.
    victims: tuple[int, ...] = ()
    rest: tuple[int, ...] = ()  # the other members of lost jobs, on this row and others
    fallen: tuple[int, ...] = ()  # the lost jobs
    violations: int = 0  # victims whose eviction violates a budget
    possible: int = 0  # number of nodes on which preemption would help
    rejections: tuple[Rejection, ...] = ()

    def headline(self, nodes: int) -> str:
        """One line, appended to the reason of an unschedulable pod as in kube-scheduler."""
        if self.row >= 0:
            return f"preemption: {len(self.victims) + len(self.rest)} victim(s), 1 of {self.possible} possible nodes chosen"
        return f"preemption: {no_node_line(nodes, self.rejections)}"


def ineligible(preempts: bool, priority: int, ending_priorities: Int, nominated_is_hopeless: bool) -> str:
    """Why a pod may not preempt now; empty if it may.

    `preempts`: its preemptionPolicy is not Never; `ending_priorities`: those of the terminating pods on its nominated node. While one of
    lower priority is still terminating, the pod waits for it, unless no removal can make the nominated node feasible.
    """
    if not preempts:
        return "not eligible due to preemptionPolicy=Never"
    if not nominated_is_hopeless and bool((ending_priorities < priority).any()):
        return "not eligible due to a terminating pod on the nominated node"
    return ""


def find_victims(here: Mask, helpable: Mask, columns: tuple[Column, ...], candidates: Candidates) -> Preemption:
    """The row to clear and the victims on it.

    `here[N]` are rows with a node; `helpable[N]` those where removing pods can help at all (their labels, taints and volumes match the pod).
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
    zeros = [np.zeros(size, dtype=np.int64) for _ in range(5)]
    costs = _Costs(zeros[0], zeros[1], zeros[2], zeros[3], zeros[4], np.full(size, np.inf))
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
        candidates.job,
        _Losses(*candidates.jobs[:-1]),
        weight,
        left,
        limit,
        fate,
        costs,
    )
    best = np.flatnonzero(trying)
    possible = len(best)
    for cost in (costs.torn, costs.violations, costs.highest, costs.total, costs.victims, -costs.earliest_s):
        worth = cost[best]
        best = best[worth == worth.min()]
    row = int(best[0])
    here_in_order = order[start[row] : start[row + 1]]
    kinds = (_TEARS, _BREAKS, _GOES)
    positions = [position for kind in kinds for position in here_in_order[fate[here_in_order] == kind].tolist()]
    victims = tuple(int(candidates.pod[position]) for position in positions)
    fallen = _fallen(candidates.job[positions], candidates.jobs)
    return Preemption(
        row,
        victims,
        tuple(pod for u in fallen for pod in candidates.jobs.members[u] if pod not in victims),
        fallen,
        int(costs.violations[row]),
        possible,
        _merged(rejections),
    )


def _fallen(job: Int, jobs: Jobs) -> tuple[int, ...]:
    """The jobs that lose more members than they can spare; `job` of every victim."""
    taken = np.bincount(job[job >= 0], minlength=len(jobs.spare))
    return tuple(np.flatnonzero(taken > jobs.spare).tolist())


def _merged(found: list[tuple[str, int]]) -> tuple[Rejection, ...]:
    count: dict[str, int] = {}
    for reason, nodes in found:
        if nodes:
            count[reason] = count.get(reason, 0) + nodes
    return tuple(Rejection(PLUGIN, reason, nodes) for reason, nodes in count.items())


@njit
def _remove_all(row: Int, weight: Int, left: Int) -> None:
    """Remove every candidate from its row in every column."""
    for c in range(weight.shape[0]):
        for v in range(len(row)):
            left[c, row[v]] -= weight[c, v]


@njit
def _by_row(row: Int, size: int) -> tuple[Int, Int]:
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
            fate[v] = _STAYS
            for c in range(weight.shape[0]):
                left[c, n] += weight[c, v]
            if job[v] >= 0:
                taken[job[v]] -= 1


@njit
def _lose_jobs(n: int, residents: Int, fate: Int, job: Int, taken: Int, spare: Int, weight: Int, left: Int) -> bool:
    """Evict reprieved members after all where their job is lost, which frees what they held. Returns whether there were any."""
    found = False
    for v in residents:
        if job[v] < 0 or taken[job[v]] <= spare[job[v]]:
            continue
        if fate[v] == _STAYS:
            found = True
            taken[job[v]] += 1
            for c in range(weight.shape[0]):
                left[c, n] -= weight[c, v]
        fate[v] = _TEARS
    return found


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
    job: Int,
    losses: _Losses,
    weight: Int,
    left: Int,
    limit: Int,
    fate: Int,
    costs: _Costs,
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
            fate[v] = _BREAKS if breaks[v] else _GOES
        for i in range(last - 1, first - 1, -1):  # a job spares its least important members
            v = order[i]
            if job[v] >= 0:
                taken[job[v]] += 1
                if taken[job[v]] > losses.spare[job[v]]:
                    fate[v] = _TEARS
        for kind in (_TEARS, _BREAKS, _GOES):
            _reprieve(kind, n, order[first:last], fate, job, taken, weight, left, limit)
        if _lose_jobs(n, order[first:last], fate, job, taken, losses.spare, weight, left):
            for kind in (_BREAKS, _GOES):
                _reprieve(kind, n, order[first:last], fate, job, taken, weight, left, limit)
        costs.highest[n] = _LOWEST
        for i in range(first, last):
            v = order[i]
            if fate[v] == _STAYS:
                continue
            u = job[v]
            if u < 0 or (taken[u] >= 0 and taken[u] <= losses.spare[u]):
                costs.violations[n] += breaks[v]
                costs.victims[n] += 1
                costs.total[n] += priority[v] + _PRIORITY_OFFSET
                highest, earliest_s = priority[v], started_s[v]
            elif taken[u] > 0:
                taken[u] = -1  # counted as a whole
                costs.torn[n] = 1
                costs.violations[n] += losses.violations[u]
                costs.victims[n] += losses.size[u]
                costs.total[n] += losses.total[u] + losses.size[u] * _PRIORITY_OFFSET
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
