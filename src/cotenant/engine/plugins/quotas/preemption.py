"""A pod or a whole gang that its quota refuses may have less important pods of the same quota evicted.

Problem: whose quota is used up by its own batch work must not wait for it, and between the evictions and the placement somebody less important of the
same quota must not take what comes free. Choice: victims are chosen by the quota's arithmetic alone (policy/quota/preemption.py) and evicted as any pod is,
within their disruption budgets; the pod goes to whatever node then suits it, so no node is promised (a nomination says which node, and quota is of
no node). What comes free is kept instead: while the promise stands, pods of that quota with less priority are refused. A promise ends when its
pod is let through, is gone, or after a while; one a quota. While any pod of the quota is on its way out nobody more is evicted. Pods of the default and the
system quota are spared. A Strict gang is spared while others will do; then it goes whole, or only what it can spare where it cannot: a member is too important, may not be preempted,
is of another quota, or the gang's budgets do not bear that all of it goes (evictions that they refuse would leave a part of it). Members that are judged together
preempt together: in every quota that one of them is of, or in none.
Limits: whether a node has room is not asked; a victim that its budget keeps is chosen last, and stays; members of a gang that are judged one by one preempt
nobody here.

Source: Koordinator's elasticquota/preempt.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.engine.framework.instructions import Evict, Victim
from cotenant.engine.framework.jobs import Job
from cotenant.engine.framework.plugin import Host
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts
from cotenant.model.groups.quota import QuotaPod
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.headroom import HeadroomRules, Limit, shortages
from cotenant.policy.quota.preemption import preempt
from cotenant.policy.quota.tree import QuotaTree

REASON = "QuotaPreempted"
PROMISED_S = 60.0  # then the pod may try again


@dataclass(frozen=True, slots=True)
class Promise:
    """What comes free in the quota is for this pod, or for the members of this gang."""

    uids: frozenset[str]
    name: str  # for people
    quota: str
    priority: int
    until_s: float
    victims: Mapping[str, Account]  # by UID


class QuotaPreempting:
    """Promises, at most one a quota."""

    def __init__(self, rules: HeadroomRules) -> None:
        self._rules = rules
        self._of: dict[str, Promise] = {}  # by quota
        self._later: dict[str, str] = {}  # uid -> quota: tries once a pod of the quota has left
        self._behind: dict[str, str] = {}  # uid -> quota: tries once the quota's promise has ended
        self._ready: set[str] = set()  # uids that may try now, whatever is free

    def promise_of(self, quota: str) -> Promise | None:
        """Whom the quota is kept for."""
        return self._of.get(quota)

    def obstacle(self, account: Account) -> str:
        """Why the pod must wait for another of its quota, empty if it need not."""
        promise = self._of.get(account.quota)
        if promise is None or account.uid in promise.uids or account.entry.seen.pod.priority >= promise.priority:
            return ""
        return f"Quota {account.quota} keeps what comes free for {promise.name}, which is more important."

    def attempt(
        self, lots: Sequence[tuple[TreeAccounts, Sequence[Account]]], name: str, now_s: float, host: Host
    ) -> tuple[Evict, ...]:
        """The evictions that let all of these in, and the promises with them; none where they would not help everywhere, or not now.

        `lots`: the accounts of one quota each, with its books; quotas that have room already need no promise.
        """
        trees = {books.tree_id: books.tree.copy() if len(lots) > 1 else books.tree for books, _ in lots}
        promises: list[Promise] = []
        for books, accounts in lots:
            if self._must_wait(books, accounts):
                return ()
            tree, quota, asked = trees[books.tree_id], accounts[0].quota, _sum(accounts)
            kept = _sum(account for account in accounts if not account.preemptible)
            if kept and any(s.limit is Limit.MINIMUM for s in shortages(tree, quota, kept, False, self._rules)):
                return ()
            if shortages(tree, quota, asked, True, self._rules):
                promise = self._plan(books, tree, accounts, name, now_s, host)
                if promise is None:
                    return ()
                promises.append(promise)
            if len(lots) > 1:
                for account in promises[-1].victims.values() if promises and promises[-1].quota == quota else ():
                    tree.release(quota, account.asked, account.preemptible)
                tree.use(quota, asked)
        found: list[Evict] = []
        for promise in promises:
            self._of[promise.quota] = promise
            what = f"{name} of the same quota {promise.quota} is more important ({promise.priority}) and does not fit beside it"
            found += [
                Evict(Victim(each.uid, each.entry.seen.pod.key), REASON, what) for each in promise.victims.values()
            ]
        return tuple(found)

    def _must_wait(self, books: TreeAccounts, accounts: Sequence[Account]) -> bool:
        """Whether these may not preempt in their quota, or not now."""
        quota, uids = accounts[0].quota, [account.uid for account in accounts]
        self._ready.difference_update(uids)
        if not all(account.entry.seen.preempts for account in accounts):
            return True
        if quota in self._of:
            self._behind.update(dict.fromkeys(uids, quota))
            return True
        if any(each.node and each.entry.seen.terminating for each in books.members[quota].values()):
            self._later.update(dict.fromkeys(uids, quota))
            return True
        return False

    def _plan(
        self, books: TreeAccounts, tree: QuotaTree, accounts: Sequence[Account], name: str, now_s: float, host: Host
    ) -> Promise | None:
        quota = accounts[0].quota
        priority = min(account.entry.seen.pod.priority for account in accounts)
        pods, whole = _candidates(books.members[quota], accounts, priority, host)
        preemptible = all(account.preemptible for account in accounts)
        newcomer = QuotaPod(accounts[0].uid, _sum(accounts), priority, preemptible=preemptible)
        found = preempt(tree, quota, newcomer, pods, self._rules)
        if not found.victims:
            return None
        chosen = found.victims
        uids = dict.fromkeys(uid for pod in chosen for uid in whole.get(pod.uid, ()))
        if uids:  # the members that it could have spared go too: fewer of the others may be enough
            without = tree.copy()
            for uid in uids:
                without.release(quota, books.members[quota][uid].asked, books.members[quota][uid].preemptible)
            others = [pod for pod in chosen if pod.uid not in uids]
            chosen = preempt(without, quota, newcomer, others, self._rules).victims
        uids |= dict.fromkeys(pod.uid for pod in chosen)
        victims = {uid: books.members[quota][uid] for uid in uids}
        return Promise(frozenset(each.uid for each in accounts), name, quota, priority, now_s + PROMISED_S, victims)

    def may_try(self, account: Account) -> bool:
        """Whether what held the pod back from preempting is over."""
        return account.uid in self._ready

    def left(self, quota: str) -> None:
        """A pod of the quota has left its node."""
        self._free(self._later, quota)

    def let_through(self, accounts: Sequence[Account]) -> bool:
        """These were, in one judgement: a promise to all of them is kept. Whether somebody may try now who waited for that."""
        uids = {account.uid for account in accounts}
        ended = [
            self.end(account)
            for account in accounts
            if (promise := self._of.get(account.quota)) is None or promise.uids <= uids
        ]
        return any(ended)

    def end(self, account: Account) -> bool:
        """The pod has its node, or is gone: nothing is kept for it, nor for the rest of its gang. Whether somebody may try now who waited for that."""
        self._later.pop(account.uid, None)
        self._behind.pop(account.uid, None)
        self._ready.discard(account.uid)
        promise = self._of.get(account.quota)
        if promise is None or account.uid not in promise.uids:
            return False
        del self._of[account.quota]
        return self._free(self._behind, account.quota)

    def _free(self, waiting: dict[str, str], quota: str) -> bool:
        found = [uid for uid, of in waiting.items() if of == quota]
        for uid in found:
            del waiting[uid]
        self._ready.update(found)
        return bool(found)

    def expire(self, now_s: float) -> bool:
        """Promises that are over end; whether there were any."""
        over = [quota for quota, promise in self._of.items() if promise.until_s <= now_s]
        for quota in over:
            self._ready |= self._of.pop(quota).uids
            self._free(self._behind, quota)
        return bool(over)

    def next_s(self) -> float:
        """When the next one ends; inf for never."""
        return min((promise.until_s for promise in self._of.values()), default=float("inf"))

    def is_leaving(self, uid: str) -> bool:
        """Whether the pod was evicted for one that has not been let through yet."""
        return any(uid in promise.victims for promise in self._of.values())

    def clear(self) -> None:
        """No pod is known."""
        self._of.clear()
        self._later.clear()
        self._behind.clear()
        self._ready.clear()


def _candidates(
    members: Mapping[str, Account], newcomers: Sequence[Account], priority: int, host: Host
) -> tuple[list[QuotaPod], dict[str, tuple[str, ...]]]:
    """Who may go for these, gangs that would go whole as one; and by the UIDs of those ones the UIDs of all their members."""
    lower = {
        uid: account
        for uid, account in members.items()
        if account.node and account.preemptible and account.entry.seen.pod.priority < priority
    }
    own = host.job_of(newcomers[0].entry)
    pods: list[QuotaPod] = []
    whole: dict[str, tuple[str, ...]] = {}
    looked_at: set[str] = set()
    for uid, account in lower.items():
        if uid in looked_at:
            continue
        job = host.job_of(account.entry)
        if job is None:
            pods.append(as_quota_pod(account, host.breaks_budget(account.entry)))
            continue
        uids = tuple(entry.seen.uid for entry in job.members)
        looked_at.update(uids)
        if own is not None and own.keys == job.keys:
            continue
        pods += [
            as_quota_pod(lower[each], host.breaks_budget(lower[each].entry))
            for each in uids[: job.spare]
            if each in lower
        ]
        if job.spare < len(uids) and may_go_whole(job, lower, host):
            whole[uids[-1]] = uids
            pods.append(as_one([lower[each] for each in uids[job.spare :]]))
    return pods, whole


def may_go_whole(job: Job, among: Mapping[str, Account], host: Host) -> bool:
    """Whether every member is among those that may go, and budgets bear that all of them do."""
    return all(entry.seen.uid in among for entry in job.members) and host.bears(job.members)


def as_one(accounts: Sequence[Account]) -> QuotaPod:
    """Pods of a gang, the least important first: named by the last."""
    pods = [as_quota_pod(account) for account in accounts]
    return QuotaPod(
        pods[-1].uid,
        _sum(accounts),
        max(pod.priority for pod in pods),
        min(pod.started_us for pod in pods),
        all(pod.preemptible for pod in pods),
        is_gang=True,
    )


def _sum(accounts: Iterable[Account]) -> Amounts:
    return sum((account.asked for account in accounts), NOTHING)


def as_quota_pod(account: Account, breaks_budget: bool = False) -> QuotaPod:
    """A pod as the arithmetic of quotas sees it. One that has not started is as young as can be."""
    seen = account.entry.seen
    started = seen.started_s if seen.started_s == seen.started_s else seen.created_s
    started_us = int(started * 1e6) if started == started else 0
    return QuotaPod(account.uid, account.asked, seen.pod.priority, started_us, account.preemptible, breaks_budget)
