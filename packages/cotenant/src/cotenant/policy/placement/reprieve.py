"""The victims on one node where no sum describes what an eviction frees: GPUs, exclusive CPUs, NUMA nodes.

Whether a pod gets two free GPUs, whole cores or one NUMA node depends on which residents leave together; sums of what
they hold do not tell (policy/placement/preemption.py uses such sums to order the nodes). The node rules answer whether
the pod fits without a given set of residents (`Vacate`), and the search is by that answer and by the columns together.
First kube-scheduler's procedure: remove every candidate, then reprieve them, those whose eviction violates a disruption
budget first, each class by importance, while the pod still fits. That is not optimal: reprieving one pod of two GPUs
may cost two pods of one GPU, and a pod is classed as violating although its budget is not exhausted by the victims in
the end. So the result is improved by branch and bound over the candidates: fewest violated budgets, least important
victim, lowest sum of priorities, fewest victims (kube-scheduler's criteria for nodes), then the smallest amount of
devices and CPUs taken from victims, then the latest start. The amount is our addition: of two equal pods, the one with
half a GPU is evicted, not the one with six. Every candidate set that can be better is visited up to `_MAX_TRIALS` per
node, after which the best set found so far is taken; it is always one from which no victim can be returned. Pods whose
constraints are all sums keep kube-scheduler's procedure unchanged, in which a large important pod may be kept at the
price of several small ones.
Limits: assumes that removing more residents never makes the pod infeasible; that fails where whole cores are required
on one NUMA node, of which only the first that could serve is tried (policy/placement/cpus/node_fit.py), and then the
set may be larger than necessary. Jobs (`JobTotals`) are lost by the first procedure only; the improvement considers
sets that lose no job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from cotenant.model.arrays import Int

_MAX_TRIALS = 1500  # visited sets per node
PRIORITY_OFFSET = (
    2**47
)  # makes every victim add to the sum, as in kube-scheduler; above every importance (`preemption.importance`)


class Vacate(Protocol):
    """Whether an incoming pod fits on one row without some residents, by what node rules allocate."""

    @property
    def reason(self) -> str:
        """Why the row is of no use if the pod does not fit even without all candidates."""
        ...

    @property
    def sizes(self) -> Mapping[int, int]:
        """By pod number: the residents that hold something here, and how much. Only they can change the answer."""
        ...

    def fits(self, removed: frozenset[int]) -> bool:
        """Whether the pod fits without these residents (pod numbers)."""
        ...


class RowJobs(NamedTuple):
    """The jobs of the candidates on a row, as in `preemption.Jobs`. `of[m]`: job of each candidate, -1 = none."""

    of: Sequence[int]
    spare: Mapping[int, int]
    losses: Mapping[int, tuple[int, int, int, int, float]]  # violations, highest, total, size, earliest start


class RowCandidates(NamedTuple):
    """The candidates on one row, most important first."""

    pods: Sequence[int]  # [m] numbers
    importance: Sequence[int]
    started_s: Sequence[float]  # inf = not started
    budgets: Sequence[tuple[int, ...]]  # budgets that cover each
    bears: Sequence[int]  # by budget: disruptions that it still allows
    jobs: RowJobs
    weight: Int  # [C, m] what each adds to a column
    room: Int  # [C] what may stay of all candidates together


class Cost(NamedTuple):
    """The cost of clearing a row, compared in this order; lower is better."""

    torn: int  # 1 = a job is lost
    violations: int
    highest: int
    total: int
    victims: int
    size: int
    negative_earliest_s: float


class VictimFates(NamedTuple):
    """Indexes of the victims, by their fate: of lost jobs, violating a budget, others; most important first within
    each.
    """

    torn: tuple[int, ...]
    breaking: tuple[int, ...]
    others: tuple[int, ...]
    cost: Cost


def clear_row(row: RowCandidates, vacate: Vacate, improve: bool = True) -> VictimFates | None:
    """The victims on a row; None if the pod does not fit even without all candidates."""
    return _Search(row, vacate).run(improve)


class _Search:
    """The search on one row. Sets of candidates are masks of their indexes."""

    def __init__(self, row: RowCandidates, vacate: Vacate) -> None:
        self._row = row
        self._vacate = vacate
        self._sizes = [vacate.sizes.get(pod, 0) for pod in row.pods]
        held = sum(1 << i for i, pod in enumerate(row.pods) if pod in vacate.sizes)
        self._held = held
        tight = row.weight.sum(axis=1) > row.room if len(row.room) else np.zeros(0, dtype=np.bool_)
        self._columns = [(row.weight[c].tolist(), int(row.room[c])) for c in np.flatnonzero(tight).tolist()]
        self._matter = held
        for weights, _ in self._columns:
            self._matter |= sum(1 << i for i, weight in enumerate(weights) if weight)
        self._answers: dict[int, bool] = {}
        self._every = (1 << len(row.pods)) - 1
        self._trials = 0

    def run(self, improve: bool) -> VictimFates | None:
        if not self._fits(self._every):
            return None
        removed = self._reprieved()
        best = self._cost(removed)
        if improve and not best.torn:
            removed = self._improved(removed, best)
        return self._cleared(removed)

    # ---- kube-scheduler's procedure

    def _reprieved(self) -> int:
        jobs, removed = self._row.jobs, self._every
        breaking = self._breaking(self._every)
        tearing = 0
        taken: dict[int, int] = {}
        for i in reversed(range(len(self._row.pods))):  # a job spares its least important members
            job = jobs.of[i]
            if job >= 0:
                taken[job] = taken.get(job, 0) + 1
                if taken[job] > jobs.spare[job]:
                    tearing |= 1 << i
        for kind in (tearing, breaking & ~tearing, self._every & ~(tearing | breaking)):
            removed = self._returned(removed, kind)
        lost = self._with_lost(removed)
        for job in sorted(self._lost(lost), key=lambda job: jobs.losses[job][1:], reverse=True):
            kept = lost & ~self._members([job])  # what other jobs free here may suffice
            if self._fits(kept):
                lost = kept
        if lost != removed:
            gone = lost & self._members(self._lost(lost))
            for kind in (breaking, ~breaking):
                lost = self._returned(lost, kind & ~gone & self._every)
        return lost

    def _returned(self, removed: int, kind: int) -> int:
        for i in range(len(self._row.pods)):
            bit = 1 << i
            if removed & kind & bit and self._fits(removed & ~bit):
                removed &= ~bit
        return removed

    def _lost(self, removed: int) -> list[int]:
        """Jobs that lose more members than they can spare."""
        taken: dict[int, int] = {}
        for i in _indexes(removed):
            job = self._row.jobs.of[i]
            if job >= 0:
                taken[job] = taken.get(job, 0) + 1
        return [job for job, count in taken.items() if count > self._row.jobs.spare[job]]

    def _members(self, jobs: Sequence[int]) -> int:
        return sum(1 << i for i, job in enumerate(self._row.jobs.of) if job in jobs) if jobs else 0

    def _with_lost(self, removed: int) -> int:
        return removed | self._members(self._lost(removed))

    # ---- improvement

    def _improved(self, removed: int, best: Cost) -> int:
        """The best set found, beginning with this one."""
        needed = sum(1 << i for i in _indexes(removed) if not self._fits(self._every & ~(1 << i)))
        free = [i for i in range(len(self._row.pods)) if self._matter >> i & 1 and not needed >> i & 1]
        after = [0] * (len(free) + 1)  # what remains to be decided, from each position on
        least = [2**62] * (len(free) + 1)
        for place in reversed(range(len(free))):
            after[place] = after[place + 1] | 1 << free[place]
            least[place] = min(least[place + 1], self._row.importance[free[place]])
        found = removed

        def visit(place: int, gone: int) -> None:
            nonlocal found, best
            self._trials += 1
            if self._trials > _MAX_TRIALS or self._lost(gone):
                return
            cost = self._cost(gone)
            if self._fits(gone):
                if cost < best:
                    found, best = gone, cost
                return
            if place == len(free):
                return
            more = cost._replace(
                highest=max(cost.highest, least[place]),
                total=cost.total + least[place] + PRIORITY_OFFSET,
                victims=cost.victims + 1,
                negative_earliest_s=-np.inf,
            )
            if more >= best:
                return
            if self._fits(gone | after[place + 1]):
                visit(place + 1, gone)
            visit(place + 1, gone | 1 << free[place])

        # single victims first: they bound the search early, and do not rely on the assumption
        for gone in (*(1 << i for i in _indexes(self._matter)), *(needed | 1 << i for i in free)):
            if not self._lost(gone) and self._fits(gone) and self._cost(gone) < best:
                found, best = gone, self._cost(gone)
        visit(0, needed)
        return self._returned(found, self._every)  # no more than needed, also where the search was cut short

    # ---- evaluation

    def _fits(self, removed: int) -> bool:
        key = removed & self._matter
        known = self._answers.get(key)
        if known is None:
            known = self._answers[key] = self._evaluated(key)
        return known

    def _evaluated(self, removed: int) -> bool:
        for weights, room in self._columns:
            if sum(weight for i, weight in enumerate(weights) if not removed >> i & 1) > room:
                return False
        return self._vacate.fits(frozenset(self._row.pods[i] for i in _indexes(removed & self._held)))

    def _breaking(self, removed: int) -> int:
        """Which of these violate a budget if all of them are evicted, the most important counted first."""
        used, found = [0] * len(self._row.bears), 0
        for i in _indexes(removed):
            for budget in self._row.budgets[i]:
                used[budget] += 1
                if used[budget] > self._row.bears[budget]:
                    found |= 1 << i
        return found

    def _cost(self, removed: int) -> Cost:
        row = self._row
        lost = self._lost(removed)
        single = removed & ~self._members(lost)
        violations = self._breaking(single).bit_count()
        total = victims = size = 0
        most: list[tuple[int, float]] = []
        for i in _indexes(removed):
            size += self._sizes[i]
        for i in _indexes(single):
            victims += 1
            total += row.importance[i] + PRIORITY_OFFSET
            most.append((row.importance[i], row.started_s[i]))
        for job in lost:
            broken, highest, sum_, members, earliest_s = row.jobs.losses[job]
            violations += broken
            victims += members
            total += sum_ + members * PRIORITY_OFFSET
            most.append((highest, earliest_s))
        highest = max((entry[0] for entry in most), default=-(2**62))
        earliest_s = min((start for number, start in most if number == highest), default=np.inf)
        return Cost(int(bool(lost)), violations, highest, total, victims, size, -earliest_s)

    def _cleared(self, removed: int) -> VictimFates:
        torn = removed & self._members(self._lost(removed))
        breaking = self._breaking(removed & ~torn)
        others = removed & ~torn & ~breaking
        return VictimFates(_indexes(torn), _indexes(breaking), _indexes(others), self._cost(removed))


def _indexes(mask: int) -> tuple[int, ...]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)
