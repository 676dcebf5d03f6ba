"""Preemption: the victims on each node for a pod of higher priority, and the node with the lowest cost.

Thousands of nodes times dozens of residents, each of which may stay or be evicted. Every constraint that residents can
violate on a node is a *column*: residents add up to something (`held`) that may be at most `limit` beside the incoming
pod: milli-CPU, bytes, conflicting ports, pods selected by an anti-affinity term, pods above a spread's skew. All
columns are evaluated for all rows at once: remove every resident of lower priority, check where the pod then fits, and
reprieve residents as long as it still does: first those whose eviction would violate a disruption budget, then the
others, each by priority and then by age. One compiled pass over the rows.

Where a node rule allocates what no sum describes (devices, CPUs, NUMA nodes), its columns are necessary conditions
only: they order the rows, and on the first rows that can be cleared the victims are searched by the node rules' own
answer (policy/placement/reprieve.py).

Some residents are only useful together (`JobTotals`): a job that loses more members than it can spare loses all of
them, on whatever rows they are. Members that a job cannot spare are reprieved first, a row on which no job is lost
is preferred to every row on which one is, and where one is lost all of its members count in the comparison.
Source: kube-scheduler's DefaultPreemption plugin and its choice of a node; jobs are our addition; Koordinator's
sub-priority decides between pods of equal priority. Limits: every node is evaluated by columns, not a sample, and
`_CLEARED` nodes by node rules, as kube-scheduler ends after enough candidates; among equal nodes the lowest row is
taken; budgets are counted per row, and over all members of a lost job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.decisions.reasons import Rejection, no_node_line
from cotenant.policy.placement.reprieve import Cost, RowCandidates, RowJobs, Vacate, VictimFates, clear_row
from cotenant.policy.placement.victims_by_sums import BREAKS, GOES, TEARS, Costs, Losses, by_row, clear, remove_all

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
UNLIMITED = np.int64(1) << np.int64(60)
PLUGIN = "DefaultPreemption"

_SEARCHED = 1024  # rows at most that are searched by node rules, the cheapest by columns first
_CLEARED = 128  # rows with victims by node rules, after which no further row is searched
_IMPROVED = 16  # of these, the cheapest whose victims are improved
_SUB_PRIORITIES = 2**15


class ConstraintColumn(NamedTuple):
    """One constraint: the residents' total on each row, and the maximum that leaves space for the incoming pod."""

    reason: str
    held: Int  # [N] current total over residents
    limit: Int  # [N] `UNLIMITED` where not constrained
    weight: Int  # [V] what each candidate adds


class JobTotals(NamedTuple):
    """Residents that are only useful together, U jobs. All fields but `spare` are totals over the members that a
    job loses when it is lost.
    """

    spare: Int  # [U] how many members each can lose without being lost
    violations: Int  # [U] of disruption budgets
    highest: Int  # [U] importance
    total: Int  # [U] of the members' importances
    size: Int  # [U]
    earliest_s: Float  # [U] of those of the highest priority; inf = not started
    members: tuple[tuple[int, ...], ...]  # pods, as in `Candidates.pod`


_NONE = np.empty(0, dtype=np.int64)
NO_JOBS = JobTotals(_NONE, _NONE, _NONE, _NONE, _NONE, np.empty(0), ())


class Candidates(NamedTuple):
    """Residents of lower priority than the incoming pod. V of them, in G groups that budgets treat alike; B
    disruption budgets.
    """

    pod: Int  # [V]
    row: Int  # [V]
    priority: Int  # [V] `importance`
    started_s: Float  # [V] NaN = not started, which counts as now
    group: Int  # [V]
    covered: Mask  # [G, B] which budgets cover a group
    bears: Int  # [B] disruptions that each budget still allows
    job: Int  # [V] index into `jobs`, -1 = not part of a job
    jobs: JobTotals = NO_JOBS


def importance(priority: Int, sub_priority: Int) -> Int:
    """Priority and, within it, sub-priority in one number; sub-priorities beyond 15 bits count as the nearest one."""
    base = priority * (2 * _SUB_PRIORITIES) + _SUB_PRIORITIES
    if not sub_priority.any():
        return base
    return base + np.clip(sub_priority, -_SUB_PRIORITIES, _SUB_PRIORITIES - 1)


Exact = Callable[[int], Vacate | None]  # by row; None: on that row the columns decide


@dataclass(frozen=True, slots=True)
class Preemption:
    """The result: evict `victims` to make space on `row`; -1 = no node can be helped, with `rejections` as the
    reasons.
    """

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
            return (
                f"preemption: {len(self.victims) + len(self.rest)} victim(s), 1 of {self.possible} possible nodes "
                "chosen"
            )
        return f"preemption: {no_node_line(nodes, self.rejections)}"


def ineligible(preempts: bool, priority: int, ending_priorities: Int, nominated_is_hopeless: bool) -> str:
    """Why a pod may not preempt now; empty if it may.

    `preempts`: its preemptionPolicy is not Never; `ending_priorities`: those of the terminating pods on its nominated
    node. While one of lower priority is still terminating, the pod waits for it, unless no removal can make the
    nominated node feasible.
    """
    if not preempts:
        return "not eligible due to preemptionPolicy=Never"
    if not nominated_is_hopeless and bool((ending_priorities < priority).any()):
        return "not eligible due to a terminating pod on the nominated node"
    return ""


def find_victims(
    here: Mask,
    helpable: Mask,
    columns: tuple[ConstraintColumn, ...],
    candidates: Candidates,
    exact: Exact | None = None,
) -> Preemption:
    """The row to clear and the victims on it.

    `here[N]` are rows with a node; `helpable[N]` those where removing pods can help at all (their labels, taints and
    volumes match the pod). With `exact`, columns are necessary conditions on the rows for which it has an answer.
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
    remove_all(candidates.row, weight, left)
    for column, without, most in zip(columns, left, limit, strict=True):
        short = trying & (without > most)
        rejections.append((column.reason, int(short.sum())))
        trying = trying & ~short
    if not trying.any():
        return Preemption(-1, rejections=_merged(rejections))
    room = limit - left  # without any candidate
    started_s = np.nan_to_num(candidates.started_s, nan=np.inf)
    start, order = by_row(candidates.row, size)
    zeros = [np.zeros(size, dtype=np.int64) for _ in range(5)]
    costs = Costs(zeros[0], zeros[1], zeros[2], zeros[3], zeros[4], np.full(size, np.inf))
    fate = np.zeros(len(order), dtype=np.int64)
    budgets_from = np.append(0, np.cumsum(candidates.covered.sum(axis=1)))
    # `nonzero` gives a strided view unless it is empty, and each layout would compile a kernel of its own
    budgets = np.ascontiguousarray(np.nonzero(candidates.covered)[1])
    clear(
        trying,
        start,
        order,
        candidates.priority,
        started_s,
        candidates.group,
        budgets_from,
        budgets,
        candidates.bears,
        candidates.job,
        Losses(*candidates.jobs[:-1]),
        weight,
        left,
        limit,
        fate,
        costs,
    )
    rows = np.flatnonzero(trying)
    if exact is not None:
        covering = [tuple(budgets[a:b].tolist()) for a, b in pairwise(budgets_from.tolist())]

        def on_row(row: int) -> RowCandidates:
            return _on_row(order[start[row] : start[row + 1]], candidates, started_s, covering, weight, room[:, row])

        row, cleared, possible, failed = _cheapest(rows[_ranked(costs, rows)].tolist(), costs, exact, on_row)
        rejections += failed
        if row < 0:
            return Preemption(-1, rejections=_merged(rejections))
    else:
        row, cleared, possible = int(rows[_ranked(costs, rows)[0]]), None, len(rows)
    here_in_order = order[start[row] : start[row + 1]]
    if cleared is not None:
        fates = (cleared.torn, cleared.breaking, cleared.others)
        positions = [int(here_in_order[place]) for entry in fates for place in entry]
        violations = cleared.cost.violations
    else:
        kinds = (TEARS, BREAKS, GOES)
        positions = [position for kind in kinds for position in here_in_order[fate[here_in_order] == kind].tolist()]
        violations = int(costs.violations[row])
    victims = tuple(int(candidates.pod[position]) for position in positions)
    fallen = _fallen(candidates.job[positions], candidates.jobs)
    return Preemption(
        row,
        victims,
        tuple(pod for u in fallen for pod in candidates.jobs.members[u] if pod not in victims),
        fallen,
        violations,
        possible,
        _merged(rejections),
    )


def _ranked(costs: Costs, rows: Int) -> Int:
    """The order of these rows, the cheapest first; equal ones in the order given."""
    keys = (costs.torn, costs.violations, costs.highest, costs.total, costs.victims, -costs.earliest_s)
    return np.lexsort([key[rows] for key in reversed(keys)])


def _cheapest(
    rows: list[int], costs: Costs, exact: Exact, on_row: Callable[[int], RowCandidates]
) -> tuple[int, VictimFates | None, int, list[tuple[str, int]]]:
    """Of these rows, the one with the lowest cost by the node rules' answers, -1 = none; its victims, None = those by
    columns; the number of rows that can be cleared; and why others cannot.
    """
    found: list[tuple[Cost, int, VictimFates | None, Vacate | None]] = []
    failed: list[tuple[str, int]] = []
    best: Cost | None = None
    for row in rows[:_SEARCHED]:
        if best is not None and len(found) >= _IMPROVED and best[:5] < _cost_by_columns(costs, row)[:5]:
            break  # more expensive even by the columns
        vacate = exact(row)
        if vacate is None:
            found.append((_cost_by_columns(costs, row), row, None, None))
        else:
            cleared = clear_row(on_row(row), vacate, improve=False)
            if cleared is None:
                failed.append((vacate.reason, 1))
                continue
            found.append((cleared.cost, row, cleared, vacate))
        best = found[-1][0] if best is None else min(best, found[-1][0])
        if len(found) == _CLEARED:
            break
    found.sort(key=lambda entry: entry[:2])
    for place, (_, row, _, vacate) in enumerate(found[:_IMPROVED]):
        better = clear_row(on_row(row), vacate) if vacate is not None else None
        if better is not None:
            found[place] = (better.cost, row, better, vacate)
    if not found:
        return -1, None, 0, failed
    _, row, cleared, _ = min(found, key=lambda entry: entry[:2])
    return row, cleared, len(found), failed


def _cost_by_columns(costs: Costs, row: int) -> Cost:
    return Cost(
        int(costs.torn[row]),
        int(costs.violations[row]),
        int(costs.highest[row]),
        int(costs.total[row]),
        int(costs.victims[row]),
        0,
        -float(costs.earliest_s[row]),
    )


def _on_row(
    here: Int, candidates: Candidates, started_s: Float, covering: list[tuple[int, ...]], weight: Int, room: Int
) -> RowCandidates:
    """The candidates on one row, in this order. `covering`: by group, the budgets that cover it."""
    job, jobs = candidates.job[here].tolist(), candidates.jobs
    known = {entry for entry in job if entry >= 0}
    losses = {
        u: (
            int(jobs.violations[u]),
            int(jobs.highest[u]),
            int(jobs.total[u]),
            int(jobs.size[u]),
            float(jobs.earliest_s[u]),
        )
        for u in known
    }
    return RowCandidates(
        candidates.pod[here].tolist(),
        candidates.priority[here].tolist(),
        started_s[here].tolist(),
        [covering[group] for group in candidates.group[here].tolist()],
        candidates.bears.tolist(),
        RowJobs(job, {u: int(jobs.spare[u]) for u in known}, losses),
        weight[:, here],
        room,
    )


def _fallen(job: Int, jobs: JobTotals) -> tuple[int, ...]:
    """The jobs that lose more members than they can spare; `job` of every victim."""
    taken = np.bincount(job[job >= 0], minlength=len(jobs.spare))
    return tuple(np.flatnonzero(taken > jobs.spare).tolist())


def _merged(found: list[tuple[str, int]]) -> tuple[Rejection, ...]:
    count: dict[str, int] = {}
    for reason, nodes in found:
        if nodes:
            count[reason] = count.get(reason, 0) + nodes
    return tuple(Rejection(PLUGIN, reason, nodes) for reason, nodes in count.items())
