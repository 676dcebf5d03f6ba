"""Which jobs of borrowing quotas go so that a quota gets back what it is owed.

Problem: revoking pods one by one leaves half jobs that hold resources and get nowhere, evicts from whoever is over at that moment, and may evict where nobody
gains. Choice: a claim is a request within the claimant's scaled minimum, and what must be freed for it is counted at every ancestor and at
the root. Whole jobs go, only from quotas that are over their runtime at that moment: from the quota that is over by the largest share of its
runtime, its least important job, the latest started of equals. Jobs that turn out not to be needed stay, the most important first. Either
all that is missing comes free, or nobody goes and the answer says what is missing. Limits: greedy, so that no single job can be spared but another
set may be smaller; a job may hold more than its quota was over, and then the quota falls below its runtime, to be asked again; free room on nodes
is placement's; the claimant must have asked for what it claims, since runtimes follow requests. Upstream has no such reclaim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cotenant.model.groups.quota import ROOT_QUOTA, Levels
from cotenant.model.machine.node_decision import Reason, Term
from cotenant.model.resources import Amounts, format_amount, unit_of
from cotenant.policy.quota.tree import QuotaTree

RULE = "quota-reclaim"


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that are of use only together: what all of them use, and how much their loss matters."""

    key: str
    quota: str
    held: Amounts
    priority: int = 0
    started_us: int = 0
    preemptible: bool = True
    is_gang: bool = False  # of equal priority a gang is more important than a pod

    @property
    def importance(self) -> tuple[int, bool, int, str]:
        """Sorts the most important job first."""
        return (-self.priority, not self.is_gang, self.started_us, self.key)


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The jobs that go, most important first, and why. None of them with `granted` = there is room already."""

    granted: bool
    jobs: tuple[Job, ...]
    reason: Reason


class _Books:
    """Use and runtime as they would be, while jobs are taken away and given back."""

    def __init__(self, tree: QuotaTree, claimant: str, request: Amounts) -> None:
        self._tree = tree
        self.runtime = {quota.name: dict(tree.runtime(quota.name)) for quota in tree.quotas()}
        self.used = {quota.name: dict(tree.used(quota.name)) for quota in tree.quotas()}
        self.used[ROOT_QUOTA] = dict(tree.used())
        self.runtime[ROOT_QUOTA] = dict(tree.total())
        self.paths = {quota.name: (*tree.path(quota.name), ROOT_QUOTA) for quota in tree.quotas()}
        owed = tree.quota(claimant).maximum  # nothing is owed of a resource that it does not mention
        self.claim = tuple((resource, amount) for resource, amount in request if amount > 0 and resource in owed)
        self.claimant = claimant

    def missing(self) -> list[tuple[str, str, int]]:
        """(quota, resource, amount) of all that would have to come free, the claimant's own level first."""
        found = []
        for quota in self.paths[self.claimant]:
            for resource, amount in self.claim:
                if resource in self.runtime[quota]:
                    short = self.used[quota].get(resource, 0) + amount - self.runtime[quota][resource]
                    if short > 0:
                        found.append((quota, resource, short))
        return found

    def move(self, job: Job, sign: int) -> None:
        for quota in self.paths[job.quota]:
            used = self.used[quota]
            for resource, amount in job.held:
                used[resource] = used.get(resource, 0) + sign * amount

    def excess(self, quota: str, resource: str) -> Fraction:
        """By what share of its runtime a quota is over; 0 where it is not, or is not limited."""
        most = self.runtime[quota].get(resource)
        over = 0 if most is None else self.used[quota].get(resource, 0) - most
        return Fraction(over, max(1, most or 0)) if over > 0 else Fraction(0)


def reclaim(tree: QuotaTree, claimant: str, request: Amounts, jobs: Sequence[Job]) -> Reclaim:
    """Jobs that must go so that `claimant`, which has asked for it, may use `request` more. `jobs` are those that use something in this tree."""
    beyond = _beyond_what_is_owed(tree, claimant, request)
    if beyond:
        return Reclaim(False, (), _told("asks for more than it is owed", claimant, beyond))
    books = _Books(tree, claimant, request)
    first = books.missing()
    borrowers: dict[str, list[Job]] = {}  # each one's least important job first
    for candidate in sorted(jobs, key=lambda job: job.importance, reverse=True):
        if candidate.preemptible and candidate.quota != claimant:
            borrowers.setdefault(candidate.quota, []).append(candidate)
    taken: list[Job] = []
    while missing := books.missing():
        job = _next(books, borrowers, missing)
        if job is None:
            short = tuple((resource, amount) for _, resource, amount in missing)
            return Reclaim(
                False, (), _told("cannot get back what it is owed, no borrower can give it", claimant, short)
            )
        borrowers[job.quota].remove(job)
        taken.append(job)
        books.move(job, -1)
    gone = []
    for job in sorted(taken, key=lambda job: job.importance):
        books.move(job, 1)
        if books.missing():
            books.move(job, -1)
            gone.append(job)
    back = tuple((resource, amount) for _, resource, amount in first)
    return Reclaim(True, tuple(gone), _told("gets back what it is owed" if gone else "has room", claimant, back))


def _next(books: _Books, borrowers: Mapping[str, Sequence[Job]], missing: Sequence[tuple[str, str, int]]) -> Job | None:
    """The next to go, for the deepest level that is short and that somebody can help."""
    for level, resource, _ in missing:
        best: tuple[Fraction, int, bool, int, str] | None = None
        chosen: Job | None = None
        for quota, jobs in borrowers.items():
            excess = books.excess(quota, resource)
            job = next((job for job in jobs if job.held.get(resource) > 0), None)
            if job is None or not excess or level not in books.paths[quota]:
                continue
            rank = (excess, *job.importance)  # of equal excess, the least important job
            if best is None or rank > best:
                best, chosen = rank, job
        if chosen is not None:
            return chosen
    return None


def _beyond_what_is_owed(tree: QuotaTree, claimant: str, request: Amounts) -> Levels:
    found = []
    for resource, amount in request:
        if amount > 0 and resource in tree.quota(claimant).maximum:
            standing = tree.standing(claimant, resource)
            over = standing.used + amount - max(standing.scaled_minimum, standing.guaranteed)
            if over > 0:
                found.append((resource, over))
    return tuple(found)


def _told(what: str, claimant: str, amounts: Levels) -> Reason:
    most = dict(sorted(amounts, key=lambda pair: pair[1]))
    said = ", ".join(f"{format_amount(resource, amount)} of {resource}" for resource, amount in most.items())
    terms = tuple(Term(resource, amount, unit_of(resource).value) for resource, amount in most.items())
    return Reason(RULE, f"{claimant} {what}{': ' + said if said else ''}", terms)
