"""Revocation of overuse: evicts jobs of quotas above their runtime when other quotas of the tree wait for their share.

Quota A borrows what B does not need; when B's pods arrive, A's runtime falls while its pods still run. Evicting at once
would cause churn, evicting part of a gang leaves a job that holds resources without progress, and evicting without a
waiting pod is waste. Overuse must last for a delay. Then, while another quota of the tree has waiting jobs, whole jobs
are first evicted for quotas that wait for what they are owed (policy/quota/reclaim.py). After that, if a quota waits
for its share of lent resources, quotas still over are reduced to their runtime, again by whole jobs
(policy/quota/revocation.py). A job is a gang; any other pod, and each spare member of a Strict gang, is a job of its
own. Lowest priority goes first, and among equals a pod before a gang. A Strict gang is evicted whole in all quotas of
the tree at once. It is not evicted if a member is not preemptible or outside the tree, or if the disruption budgets do
not allow evicting all of it (refused evictions would leave a part of it). In a tree with a configured total, not the
sum of nodes, use beyond that total is revoked too. Pods that are terminating, or told to go by a preemption, count as
gone. All evictions are simulated on a copy of the tree, so that later claims see earlier evictions.
Limits: free room on nodes is not checked; a victim protected by its disruption budget is chosen again after another
delay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.engine.framework.instructions import Evict, Victim
from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts, gang_of
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.quotas.victims import VictimUnit, as_quota_pod, borne_at_once, may_go_whole
from cotenant.engine.plugins.quotas.waiting import fits, jobs_waiting, who_waits
from cotenant.model.groups.quota import QuotaPod
from cotenant.model.resources import NOTHING, Amounts, format_amount
from cotenant.policy.quota.forest import DEFAULT_TREE
from cotenant.policy.quota.reclaim import ReclaimJob, reclaim
from cotenant.policy.quota.revocation import NO_OVERUSE, Overuse, over, revoke, watch
from cotenant.policy.quota.tree import QuotaTree

REASON = "QuotaOverused"
LOOK_EVERY_S = 1.0
LEAVING_S = 30.0  # an evicted pod counts as leaving for at least this time


@dataclass(slots=True)
class _Eviction:
    """A job to evict, and the reason."""

    job: ReclaimJob
    why: str
    claimant: str = ""  # the quota for which it is, if for one


@dataclass(frozen=True, slots=True)
class _Members:
    """A job, its pods, and the keys of the jobs that must be evicted with it."""

    job: ReclaimJob
    accounts: Sequence[Account]
    evicted_with: tuple[str, ...] = ()


class Revoking:
    """Tracks overuse of all trees and chooses the evictions."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._overuse: dict[str, Overuse] = {}  # by quota
        self._leaving: dict[str, float] = {}  # uid -> time until which it counts as leaving, in seconds
        self.due_s = 0.0

    def over_since_s(self, quota: str) -> float | None:
        """Since when a quota is observed above its runtime, in seconds; None if it is not."""
        since_us = self._overuse.get(quota, NO_OVERUSE).since_us
        return None if since_us is None else since_us / 1e6

    @property
    def is_watching(self) -> bool:
        """Whether a quota is over its runtime, so that revocation may become due by time alone."""
        return bool(self._overuse)

    @property
    def is_evicting(self) -> bool:
        """Whether pods were recently chosen for eviction."""
        return bool(self._leaving)

    def is_leaving(self, uid: str) -> bool:
        """Whether the pod was recently chosen for eviction."""
        return uid in self._leaving

    def left(self, uid: str) -> None:
        """Record that a pod was unassigned: it has gone, or gave its node back before it was bound."""
        self._leaving.pop(uid, None)

    def clear(self) -> None:
        """Forget all pods."""
        self._leaving.clear()

    def turn(self, now_s: float, trees: Iterable[TreeAccounts], host: PluginHost) -> list[Evict]:
        """Check every tree and return the evictions that are due."""
        self.due_s = now_s + LOOK_EVERY_S
        self._leaving = {uid: until_s for uid, until_s in self._leaving.items() if until_s > now_s}
        evictions: list[Evict] = []
        seen: set[str] = set()
        for books in trees:
            due = []
            for quota in books.over():
                seen.add(quota)
                before = self._overuse.get(quota, NO_OVERUSE)
                after, is_due = watch(before, True, int(now_s * 1e6), int(self._settings.revoke_after_s * 1e6))
                if is_due:
                    due.append(quota)
                else:
                    self._overuse[quota] = after
            given = self._revoke(books, due, now_s, host) if due else []
            if given:  # otherwise keep the start time, so that a later claimant does not wait for the delay again
                for quota in due:
                    self._overuse[quota] = Overuse(int(now_s * 1e6))
            evictions += given
        self._overuse = {quota: state for quota, state in self._overuse.items() if quota in seen}
        return evictions

    def outlook(
        self, books: TreeAccounts, quota: str, now_s: float, host: PluginHost
    ) -> tuple[tuple[Account, ...], float]:
        """The pods of other quotas that will be evicted for what waits in this one if nothing changes, and when the
        first of them.
        """
        due = [name for name in books.over() if name != quota]
        found = [
            account
            for eviction, accounts in self._planned(books, due, host)
            for account in accounts
            if eviction.claimant == quota and account.quota != quota
        ]
        since_us = [self._overuse.get(account.quota, NO_OVERUSE).since_us for account in found]
        since_s = [now_s if since is None else since / 1e6 for since in since_us]
        return tuple(found), max(now_s, min(since_s, default=now_s) + self._settings.revoke_after_s)

    def _revoke(self, books: TreeAccounts, due: Sequence[str], now_s: float, host: PluginHost) -> list[Evict]:
        evictions, planned = [], self._planned(books, due, host)
        units: dict[str, list[Account]] = {}
        of: dict[str, _Eviction] = {}
        gangs: set[str] = set()
        for eviction, accounts in planned:
            gang = host.job_of(accounts[0].entry)
            key = gang.name if gang is not None else eviction.job.key
            units.setdefault(key, []).extend(accounts)
            of |= {account.uid: eviction for account in accounts}
            gangs |= {key} if eviction.job.is_gang else set()
        chosen = [VictimUnit(accounts, key in gangs) for key, accounts in units.items()]
        going = [
            account
            for members in books.members.values()
            for account in members.values()
            if account.uid in self._leaving and account.node and not account.entry.seen.terminating
        ]
        for unit in borne_at_once(chosen, going, host):
            for account in unit.accounts:
                eviction = of[account.uid]
                self._leaving[account.uid] = now_s + max(LEAVING_S, self._settings.revoke_after_s)
                message = f"{self._overuse_text(books, eviction.job.quota)}; {eviction.why}"
                evictions.append(Evict(Victim(account.uid, account.entry.seen.pod.key, account.node), REASON, message))
        return evictions

    def _planned(
        self, books: TreeAccounts, due: Sequence[str], host: PluginHost
    ) -> list[tuple[_Eviction, Sequence[Account]]]:
        """Whom quotas that are over for long enough have to give up; nothing is changed."""
        waits = who_waits(books)
        if books.tree_id == DEFAULT_TREE and not any(name not in due for name in waits):
            return []
        tree = books.tree.copy()
        running: dict[str, Account] = {}
        for name in books.members:
            for account in books.members[name].values():
                if not account.node:
                    continue
                if host.is_going(account.entry) or account.uid in self._leaving:
                    tree.release(name, account.asked, account.preemptible)
                else:
                    running[account.uid] = account
        waiting = jobs_waiting(tree, waits, self._settings.rules, host)
        members = _jobs(running, host)
        jobs = {key: member.job for key, member in members.items()}
        going: dict[str, _Eviction] = {}

        def take(keys: Iterable[str], why: str, claimant: str, alone: bool = False) -> bool:
            """Evict the jobs of `keys` that have dependent jobs, with those; if `alone`, the jobs that have none.
            Returns whether any was evicted.
            """
            found = False
            for key in keys:
                if key not in jobs or bool(members[key].evicted_with) == alone:
                    continue
                found = True
                for name in (key, *members[key].evicted_with):
                    if name in jobs:
                        job = jobs.pop(name)
                        going[name] = _Eviction(job, why, claimant)
                        tree.release(job.quota, job.held, job.preemptible)
            return found

        for name, asked in waiting.items():
            claim = _claim(tree, name, asked)
            if not claim:
                continue
            why = f"{name} is owed {claim} more and waits for it"
            result = reclaim(tree, name, claim, [job for job in jobs.values() if job.quota in due])
            if not result.granted:
                continue
            chosen = [job.key for job in result.jobs]
            if take(chosen, why, name):  # their dependent jobs may make some of the others unnecessary
                fewer = reclaim(tree, name, claim, [jobs[key] for key in chosen if key in jobs])
                chosen = [job.key for job in fewer.jobs] if fewer.granted else chosen
            take(chosen, why, name, alone=True)
            tree.use(name, claim)
        for name in due:
            claimant, why = self._reduction_reason(books.tree_id, tree, name, waiting)
            chosen = _excess_jobs(tree, name, jobs.values()) if why else []
            if take(chosen, why, claimant):
                chosen = _excess_jobs(tree, name, jobs.values(), chosen)
            take(chosen, why, claimant, alone=True)
        return [(eviction, members[eviction.job.key].accounts) for eviction in going.values()]

    def _reduction_reason(
        self, tree_id: str, tree: QuotaTree, name: str, waiting: Mapping[str, Sequence[Amounts]]
    ) -> tuple[str, str]:
        """For which quota and why one still over must be reduced to its runtime: another waits for its share, or the
        tree exceeds its configured total. Empty if it need not.
        """
        runtime = tree.runtime(name)
        beyond = over(tree.used(name), runtime)
        claimant = next(
            (
                other
                for other, jobs in waiting.items()
                if other != name and any(_entitled(tree, other, asked, beyond) for asked in jobs)
            ),
            "",
        )
        total = tree.total()
        is_agreed = tree_id != DEFAULT_TREE and any(total.get(r) < n for r, n in tree.used() if r in beyond)
        if claimant:
            return claimant, f"{claimant} waits for its share"
        return "", f"tree {tree_id} uses more than it has to divide" if is_agreed else ""

    def _overuse_text(self, books: TreeAccounts, quota: str) -> str:
        used, runtime = dict(books.tree.used(quota)), dict(books.tree.runtime(quota))
        figures = ", ".join(
            f"{format_amount(resource, used[resource])} {resource} where it may use "
            f"{format_amount(resource, runtime[resource])}"
            for resource in over(tuple(used.items()), tuple(runtime.items()))
        )
        return f"quota {quota} has used {figures} for more than {self._settings.revoke_after_s:g} s"


def _claim(tree: QuotaTree, name: str, jobs: Iterable[Amounts]) -> Amounts:
    """The requests of waiting jobs that fit in what the quota is owed: whole jobs, in order."""
    left: dict[str, int] = {}
    for resource, _ in tree.quota(name).maximum:
        standing = tree.runtime_terms(name, resource)
        left[resource] = max(standing.scaled_minimum, standing.guaranteed) - standing.used
    claim: dict[str, int] = {}
    for job in jobs:
        asked = {resource: amount for resource, amount in job if amount and resource in left}
        if asked and all(amount <= left[resource] for resource, amount in asked.items()):
            for resource, amount in asked.items():
                left[resource] -= amount
                claim[resource] = claim.get(resource, 0) + amount
    return Amounts.of(claim) if claim else NOTHING


def _entitled(tree: QuotaTree, name: str, asked: Amounts, beyond: Sequence[str]) -> bool:
    """Whether the job fits its quota, but the tree lacks a resource that another quota overuses (`beyond`)."""
    total = tree.total()
    short = any(not fits(tree.used(), ((resource, total.get(resource)),), asked) for resource in beyond)
    return short and fits(tree.used(name), tree.runtime(name), asked)


def _excess_jobs(
    tree: QuotaTree, name: str, jobs: Iterable[ReclaimJob], among: Collection[str] | None = None
) -> list[str]:
    """The jobs to evict to reduce a quota to its runtime; `among` restricts the choice."""
    pods = [
        QuotaPod(
            job.key,
            job.held,
            job.priority,
            job.started_us,
            job.preemptible and (among is None or job.key in among),
            is_gang=job.is_gang,
        )
        for job in jobs
        if job.quota == name
    ]
    return [pod.uid for pod in revoke(pods, tree.runtime(name))]


def _jobs(running: Mapping[str, Account], host: PluginHost) -> dict[str, _Members]:
    """The jobs of the tree by key. `running`: assigned pods of the tree by UID, without those that are leaving."""
    made: dict[str, _Members] = {}
    visited: set[str] = set()
    loose: dict[str, list[Account]] = {}
    for uid, account in running.items():
        if uid in visited:
            continue
        gang = host.job_of(account.entry)
        if gang is None:
            loose.setdefault(gang_of(account) or uid, []).append(account)
            continue
        visited.update(entry.seen.uid for entry in gang.members)
        made |= _strict(gang, running, host)
    return made | {key: _Members(_job(key, accounts), accounts) for key, accounts in loose.items()}


def _strict(gang: PlacedJob, running: Mapping[str, Account], host: PluginHost) -> dict[str, _Members]:
    """The parts of a Strict gang, one per quota, and its spare members, one job each."""
    uids = [entry.seen.uid for entry in gang.members]
    spared = {uid: [running[uid]] for uid in uids[: gang.spare] if uid in running}
    parts: dict[str, list[Account]] = {}
    for uid in uids[gang.spare :]:
        if uid in running:
            parts.setdefault(f"{gang.name} in {running[uid].quota}", []).append(running[uid])
    goes = may_go_whole(gang, {uid: running[uid] for uid in uids if uid in running and running[uid].preemptible}, host)
    made = {key: _Members(_job(key, accounts), accounts) for key, accounts in spared.items()}
    for key, accounts in parts.items():
        job = replace(_job(key, accounts), is_gang=True, preemptible=goes)
        made[key] = _Members(job, accounts, (*spared, *(other for other in parts if other != key)))
    return made


def _job(key: str, accounts: Sequence[Account]) -> ReclaimJob:
    pods = [as_quota_pod(account) for account in accounts]
    held = NOTHING
    for pod in pods:
        held = held + pod.request
    return ReclaimJob(
        key,
        accounts[0].quota,
        held,
        max(pod.priority for pod in pods),
        min(pod.started_us for pod in pods),
        all(pod.preemptible for pod in pods),
    )
