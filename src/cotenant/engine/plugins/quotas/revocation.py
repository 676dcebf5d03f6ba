"""Quotas that use more than their runtime give back to those who wait for what is theirs: when, which jobs, and in whose favour.

Problem: A borrowed what B did not need; B comes, A's runtime falls, and A's pods still run. Evicting them at once would churn, evicting a few of a gang
leaves a job that holds resources and gets nowhere, and evicting where nobody gains is waste. Choice: overuse must last for a delay; then, while somebody
in the same tree waits, first those who wait for what they are owed get it from whole jobs (policy/quota/reclaim.py), and then, for those who wait
for their share of what is lent, quotas that are still over come down to their runtime, whole jobs again (policy/quota/revocation.py). A job is a gang;
any other pod is of use by itself, as are the least important members that a Strict gang can spare. The least important goes first, of equals a pod before a gang. A Strict gang goes whole
in every quota of the tree at once, and not at all where one of its members may not be preempted or is of no quota of the tree, or where its budgets do not bear
that all of it goes: evictions that they refuse would leave a part of it. In a tree whose total is written
down, and not what nodes have, use beyond that total is given back too. Pods on their way out count as gone. All of it is tried on a copy of the tree, so that several claims see each other's
evictions. Limits: whether a node has room for who waits is not asked; a victim that its budget keeps is named again after another delay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.engine.framework.instructions import Evict, Victim
from cotenant.engine.framework.jobs import Job as GangJob
from cotenant.engine.framework.plugin import Host
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts, gang_of
from cotenant.engine.plugins.quotas.preemption import as_quota_pod, may_go_whole
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.plugins.quotas.waiting import fits, jobs_waiting, who_waits
from cotenant.model.groups.quota import QuotaPod
from cotenant.model.resources import NOTHING, Amounts, format_amount
from cotenant.policy.quota.forest import DEFAULT_TREE
from cotenant.policy.quota.reclaim import Job, reclaim
from cotenant.policy.quota.revocation import NO_OVERUSE, Overuse, over, revoke, watch
from cotenant.policy.quota.tree import QuotaTree

REASON = "QuotaOverused"
LOOK_EVERY_S = 1.0
LEAVING_S = 30.0  # a pod that was named counts as going for so long at least


@dataclass(slots=True)
class _Going:
    """A job that is to go, and why."""

    job: Job
    why: str


@dataclass(frozen=True, slots=True)
class _Members:
    """A job, whose it is, and the jobs of other quotas and the pods that fall with it."""

    job: Job
    accounts: Sequence[Account]
    falls_with: tuple[str, ...] = ()


class Revoking:
    """Watches for overuse, one tree after another."""

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._overuse: dict[str, Overuse] = {}  # by quota
        self._leaving: dict[str, float] = {}  # uid -> until when it counts as going
        self.due_s = 0.0

    def over_since_s(self, quota: str) -> float | None:
        """Since when a quota has been seen to use more than its runtime."""
        since_us = self._overuse.get(quota, NO_OVERUSE).since_us
        return None if since_us is None else since_us / 1e6

    @property
    def is_watching(self) -> bool:
        """Whether some quota is over, so that time alone may make something due."""
        return bool(self._overuse)

    def is_leaving(self, uid: str) -> bool:
        """Whether the pod was named lately."""
        return uid in self._leaving

    def clear(self) -> None:
        """No pod is known."""
        self._leaving.clear()

    def turn(self, now_s: float, trees: Iterable[TreeAccounts], host: Host) -> list[Evict]:
        """Look at every tree; the evictions that are due."""
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
            given = self._take_back(books, due, now_s, host) if due else []
            if given:  # else the time goes on, and who comes to wait later need not wait for it again
                for quota in due:
                    self._overuse[quota] = Overuse(int(now_s * 1e6))
            evictions += given
        self._overuse = {quota: state for quota, state in self._overuse.items() if quota in seen}
        return evictions

    def _take_back(self, books: TreeAccounts, due: Sequence[str], now_s: float, host: Host) -> list[Evict]:
        waits = who_waits(books)
        if books.tree_id == DEFAULT_TREE and not any(name not in due for name in waits):
            return []
        tree = books.tree.copy()
        there: dict[str, Account] = {}
        for name in books.members:
            for account in books.members[name].values():
                if not account.node:
                    continue
                if account.entry.seen.terminating or account.uid in self._leaving:
                    tree.release(name, account.asked, account.preemptible)
                else:
                    there[account.uid] = account
        waiting = jobs_waiting(tree, waits, self._settings.rules, host)
        members = _jobs(there, host)
        jobs = {key: each.job for key, each in members.items()}
        going: dict[str, _Going] = {}

        def take(keys: Iterable[str], why: str, alone: bool = False) -> bool:
            """Of these jobs those go with which others fall, and the others; or those that are of use `alone`. Whether any did."""
            found = False
            for key in keys:
                if key not in jobs or bool(members[key].falls_with) == alone:
                    continue
                found = True
                for each in (key, *members[key].falls_with):
                    if each in jobs:
                        job = jobs.pop(each)
                        going[each] = _Going(job, why)
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
            if take(chosen, why):  # what falls with them may be enough without some of the others
                fewer = reclaim(tree, name, claim, [jobs[key] for key in chosen if key in jobs])
                chosen = [job.key for job in fewer.jobs] if fewer.granted else chosen
            take(chosen, why, alone=True)
            tree.use(name, claim)
        for name in due:
            why = self._shares(books.tree_id, tree, name, waiting)
            chosen = _too_much(tree, name, jobs.values()) if why else []
            if take(chosen, why):
                chosen = _too_much(tree, name, jobs.values(), chosen)
            take(chosen, why, alone=True)
        evictions = []
        for each in going.values():
            for account in members[each.job.key].accounts:
                self._leaving[account.uid] = now_s + max(LEAVING_S, self._settings.revoke_after_s)
                message = f"{self._said(books, each.job.quota)}; {each.why}"
                evictions.append(Evict(Victim(account.uid, account.entry.seen.pod.key), REASON, message))
        return evictions

    def _shares(self, tree_id: str, tree: QuotaTree, name: str, waiting: Mapping[str, Sequence[Amounts]]) -> str:
        """Why a quota that is still over comes down to its runtime: another waits for its share of that, or it is beyond what was agreed. Empty = it need not."""
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
            return f"{claimant} waits for its share"
        return f"tree {tree_id} uses more than it has to divide" if is_agreed else ""

    def _said(self, books: TreeAccounts, quota: str) -> str:
        used, runtime = dict(books.tree.used(quota)), dict(books.tree.runtime(quota))
        figures = ", ".join(
            f"{format_amount(resource, used[resource])} {resource} where it may use {format_amount(resource, runtime[resource])}"
            for resource in over(tuple(used.items()), tuple(runtime.items()))
        )
        return f"quota {quota} has used {figures} for more than {self._settings.revoke_after_s:g} s"


def _claim(tree: QuotaTree, name: str, jobs: Iterable[Amounts]) -> Amounts:
    """What of the waiting jobs' requests is within what the quota is owed: whole jobs, in order."""
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
    """Whether the quota lets the job run, and the tree has no room for it in a resource of which another uses too much."""
    total = tree.total()
    short = any(not fits(tree.used(), ((resource, total.get(resource)),), asked) for resource in beyond)
    return short and fits(tree.used(name), tree.runtime(name), asked)


def _too_much(tree: QuotaTree, name: str, jobs: Iterable[Job], among: Collection[str] | None = None) -> list[str]:
    """The jobs that go so that a quota comes down to its runtime; `among`: no others."""
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


def _jobs(there: Mapping[str, Account], host: Host) -> dict[str, _Members]:
    """What goes as one, by key; `there` are the pods of the tree, by UID, that are not on their way out."""
    made: dict[str, _Members] = {}
    looked_at: set[str] = set()
    loose: dict[str, list[Account]] = {}
    for uid, account in there.items():
        if uid in looked_at:
            continue
        gang = host.job_of(account.entry)
        if gang is None:
            loose.setdefault(gang_of(account) or uid, []).append(account)
            continue
        looked_at.update(entry.seen.uid for entry in gang.members)
        made |= _strict(gang, there, host)
    return made | {key: _Members(_job(key, accounts), accounts) for key, accounts in loose.items()}


def _strict(gang: GangJob, there: Mapping[str, Account], host: Host) -> dict[str, _Members]:
    """The parts of a Strict gang, one a quota, and the members that it can spare, each by itself."""
    uids = [entry.seen.uid for entry in gang.members]
    spared = {uid: [there[uid]] for uid in uids[: gang.spare] if uid in there}
    parts: dict[str, list[Account]] = {}
    for uid in uids[gang.spare :]:
        if uid in there:
            parts.setdefault(f"{gang.name} in {there[uid].quota}", []).append(there[uid])
    goes = may_go_whole(gang, {uid: there[uid] for uid in uids if uid in there and there[uid].preemptible}, host)
    made = {key: _Members(_job(key, accounts), accounts) for key, accounts in spared.items()}
    for key, accounts in parts.items():
        job = replace(_job(key, accounts), is_gang=True, preemptible=goes)
        made[key] = _Members(job, accounts, (*spared, *(other for other in parts if other != key)))
    return made


def _job(key: str, accounts: Sequence[Account]) -> Job:
    pods = [as_quota_pod(account) for account in accounts]
    held = NOTHING
    for pod in pods:
        held = held + pod.request
    return Job(
        key,
        accounts[0].quota,
        held,
        max(pod.priority for pod in pods),
        min(pod.started_us for pod in pods),
        all(pod.preemptible for pod in pods),
    )
