"""Reclaim: which jobs of borrowing quotas are evicted so that a quota gets its guarantee.

Revoking pods one by one leaves partial jobs that hold resources without progress, evicts from whichever quota is over
its runtime at that moment, and may evict without any benefit. A claim is a request within the claimant's scaled
minimum, and the missing amount is computed at every ancestor and the root. Whole jobs are evicted, only from quotas
above their runtime: from the quota with the largest relative excess, its least important job, the latest started among
equals. Jobs that turn out to be unnecessary are kept, the most important first. Either everything missing is freed, or
no job is evicted and the result says what is missing.
Limits: greedy, so no single job can be spared, but another set may be smaller; a job may hold more than its quota's
excess, and the quota then falls below its runtime; free capacity on nodes is checked by placement; the claimant must
have requested what it claims, since runtimes follow requests. Upstream has no such reclaim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cotenant.model.groups.quota import ROOT_QUOTA, Levels
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.resources import Amounts, format_amount, unit_of
from cotenant.policy.quota.tree import QuotaTree

RULE = "quota-reclaim"


@dataclass(frozen=True, slots=True)
class ReclaimJob:
    """Pods that are only useful together: their total use and importance."""

    key: str
    quota: str
    held: Amounts
    priority: int = 0
    started_us: int = 0
    preemptible: bool = True
    is_gang: bool = False  # at equal priority a gang is more important than a pod

    @property
    def importance(self) -> tuple[int, bool, int, str]:
        """Sort key, the most important job first."""
        return (-self.priority, not self.is_gang, self.started_us, self.key)


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The jobs to evict, most important first, and the reason. None with `granted` = the request already fits."""

    granted: bool
    jobs: tuple[ReclaimJob, ...]
    reason: Reason


class _Accounts:
    """Use and runtime while jobs are tentatively removed and restored."""

    def __init__(self, tree: QuotaTree, claimant: str, request: Amounts) -> None:
        self._tree = tree
        self.runtime = {quota.name: dict(tree.runtime(quota.name)) for quota in tree.quotas()}
        self.used = {quota.name: dict(tree.used(quota.name)) for quota in tree.quotas()}
        self.used[ROOT_QUOTA] = dict(tree.used())
        self.runtime[ROOT_QUOTA] = dict(tree.total())
        self.paths = {quota.name: (*tree.path(quota.name), ROOT_QUOTA) for quota in tree.quotas()}
        limited = tree.quota(claimant).maximum  # resources that it does not mention have no guarantee
        self.claim = tuple((resource, amount) for resource, amount in request if amount > 0 and resource in limited)
        self.claimant = claimant

    def missing(self) -> list[tuple[str, str, int]]:
        """(quota, resource, amount) of everything that must be freed, the claimant's own level first."""
        found = []
        for quota in self.paths[self.claimant]:
            for resource, amount in self.claim:
                if resource in self.runtime[quota]:
                    short = self.used[quota].get(resource, 0) + amount - self.runtime[quota][resource]
                    if short > 0:
                        found.append((quota, resource, short))
        return found

    def move(self, job: ReclaimJob, sign: int) -> None:
        for quota in self.paths[job.quota]:
            used = self.used[quota]
            for resource, amount in job.held:
                used[resource] = used.get(resource, 0) + sign * amount

    def excess(self, quota: str, resource: str) -> Fraction:
        """Use above the runtime as a share of the runtime; 0 where it is not above, or not limited."""
        most = self.runtime[quota].get(resource)
        over = 0 if most is None else self.used[quota].get(resource, 0) - most
        return Fraction(over, max(1, most or 0)) if over > 0 else Fraction(0)


def reclaim(tree: QuotaTree, claimant: str, request: Amounts, jobs: Sequence[ReclaimJob]) -> Reclaim:
    """Jobs to evict so that `claimant` may use `request` more, which it must have requested. `jobs` are those with
    use in this tree.
    """
    beyond = _beyond_guarantee(tree, claimant, request)
    if beyond:
        return Reclaim(False, (), _reason("requests more than its guarantee", claimant, beyond))
    accounts = _Accounts(tree, claimant, request)
    first = accounts.missing()
    borrowers: dict[str, list[ReclaimJob]] = {}  # per quota, the least important job first
    for candidate in sorted(jobs, key=lambda job: job.importance, reverse=True):
        if candidate.preemptible and candidate.quota != claimant:
            borrowers.setdefault(candidate.quota, []).append(candidate)
    taken: list[ReclaimJob] = []
    while missing := accounts.missing():
        job = _next(accounts, borrowers, missing)
        if job is None:
            short = tuple((resource, amount) for _, resource, amount in missing)
            return Reclaim(False, (), _reason("cannot reclaim its guarantee: no borrower can free it", claimant, short))
        borrowers[job.quota].remove(job)
        taken.append(job)
        accounts.move(job, -1)
    gone = []
    for job in sorted(taken, key=lambda job: job.importance):
        accounts.move(job, 1)
        if accounts.missing():
            accounts.move(job, -1)
            gone.append(job)
    back = tuple((resource, amount) for _, resource, amount in first)
    return Reclaim(True, tuple(gone), _reason("reclaims its guarantee" if gone else "has headroom", claimant, back))


def _next(
    accounts: _Accounts, borrowers: Mapping[str, Sequence[ReclaimJob]], missing: Sequence[tuple[str, str, int]]
) -> ReclaimJob | None:
    """The next job to evict, for the deepest level that is short and where a job can help."""
    for level, resource, _ in missing:
        best: tuple[Fraction, int, bool, int, str] | None = None
        chosen: ReclaimJob | None = None
        for quota, jobs in borrowers.items():
            excess = accounts.excess(quota, resource)
            job = next((job for job in jobs if job.held.get(resource) > 0), None)
            if job is None or not excess or level not in accounts.paths[quota]:
                continue
            rank = (excess, *job.importance)  # of equal excess, the least important job
            if best is None or rank > best:
                best, chosen = rank, job
        if chosen is not None:
            return chosen
    return None


def _beyond_guarantee(tree: QuotaTree, claimant: str, request: Amounts) -> Levels:
    found = []
    for resource, amount in request:
        if amount > 0 and resource in tree.quota(claimant).maximum:
            inputs = tree.runtime_terms(claimant, resource)
            over = inputs.used + amount - max(inputs.scaled_minimum, inputs.guaranteed)
            if over > 0:
                found.append((resource, over))
    return tuple(found)


def _reason(what: str, claimant: str, amounts: Levels) -> Reason:
    most = dict(sorted(amounts, key=lambda pair: pair[1]))
    text = ", ".join(f"{format_amount(resource, amount)} of {resource}" for resource, amount in most.items())
    terms = tuple(DecisionTerm(resource, amount, unit_of(resource).value) for resource, amount in most.items())
    return Reason(RULE, f"{claimant} {what}{': ' + text if text else ''}", terms)
