"""Preemption within a quota: a pod or a whole gang refused by its quota may evict pods of lower priority from the same
quota.

A pod must not wait because lower-priority pods use up its quota, and between eviction and placement another
lower-priority pod of that quota must not take the freed amount. Victims are chosen by quota arithmetic alone
(policy/quota/preemption.py) and evicted like any pod, within their disruption budgets. Any suitable node may then be
chosen, so no node is nominated (quota is not tied to a node). The freed amount is kept by a promise instead: while it
stands, pods of that quota with lower priority are refused. Pods that are alike preempt together, as many of them as
evictions can admit. A quota has at most one promise; it ends when its pods are admitted or leave, or after PROMISED_S.
Other pods of the quota join it with victims of their own (joining.py).
Whoever can do without a pod whose disruption budget is spent does, if whole gangs go instead. Else nobody is evicted:
the promise keeps what comes free and says what it awaits, whoever is as important and can be helped takes its place,
and it is tried again when the budget has room. While a pod of the quota is terminating, or told to go for another that
needs its node, no further pod is evicted. Pods of the default and the system quota are never victims. A Strict gang is
chosen only if other pods do not suffice, and is then evicted whole. Only its spare members are evicted if a member has
too high a priority, is not preemptible or belongs to another quota, or if the disruption budgets do not allow evicting
the whole gang (refused evictions would leave a part of it). Where they allow several gangs one after another only, or a
gang and other pods, some go now and the rest with the next attempt. Members scheduled together preempt together: in all
of their quotas or in none.
Limits: free room on nodes is not checked; of several pods that one budget lets go one after another, the rest is
evicted when it has room again; gang members that are scheduled one by one do not preempt here.

Source: Koordinator's elasticquota/preempt.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.engine.framework.instructions import Evict
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts
from cotenant.engine.plugins.quotas.joining import join, may_be_joined
from cotenant.engine.plugins.quotas.promise import PROMISED_S, Promise, evictions
from cotenant.engine.plugins.quotas.victims import VictimUnit, asked_by, borne_at_once, candidates
from cotenant.model.groups.quota import QuotaPod
from cotenant.policy.quota.headroom import HeadroomRules, LimitKind, shortages
from cotenant.policy.quota.preemption import preempt
from cotenant.policy.quota.tree import QuotaTree


class QuotaPreempting:
    """Preemption attempts and their promises, at most one promise per quota."""

    def __init__(self, rules: HeadroomRules) -> None:
        self._rules = rules
        self._of: dict[str, Promise] = {}  # by quota
        self._later: dict[str, str] = {}  # uid -> quota: retries once a pod of the quota is unassigned
        self._behind: dict[str, str] = {}  # uid -> quota: retries once the quota's promise has ended
        self._ready: set[str] = set()  # uids that may retry now, regardless of free quota

    def promise_of(self, quota: str) -> Promise | None:
        """The current promise of the quota, if any."""
        return self._of.get(quota)

    def obstacle(self, account: Account) -> str:
        """Why the pod must wait for a promise in its quota; empty if it need not."""
        promise = self._of.get(account.quota)
        if promise is None or account.uid in promise.uids or account.entry.seen.pod.priority >= promise.priority:
            return ""
        return f"Quota {account.quota} keeps what comes free for {promise.name}, which is more important."

    def attempt_most(
        self, books: TreeAccounts, alike: Sequence[Account], now_s: float, host: PluginHost
    ) -> tuple[Evict, ...]:
        """As `attempt`, for as many of these pods as possible: equal ones, the first before the others."""
        standing = self._of.get(alike[0].quota)
        if standing is not None and may_be_joined(standing, alike):
            joined = join(standing, books, alike, now_s, host, self._rules)
            self._of[alike[0].quota] = joined.promise
            if joined.evicts:
                self._ready.difference_update(joined.promise.uids)
                return joined.evicts
        if self._must_wait(books, alike, host):
            return ()
        least, most = 0, len(alike)
        while least < most:
            middle = (least + most + 1) // 2
            if self._plan(books, books.tree, alike[:middle], "", now_s, host) is not None:
                least = middle
            else:
                most = middle - 1
        if not least:
            return ()
        others = f" and {least - 1} more" if least > 1 else ""
        return self.attempt(((books, alike[:least]),), f"{alike[0].entry.seen.pod.key}{others}", now_s, host, False)

    def could_help(self, books: TreeAccounts, account: Account, host: PluginHost) -> bool:
        """Whether evictions in its quota could admit this pod alone."""
        seen, promise = account.entry.seen, self._of.get(account.quota)
        if not seen.preempts or (promise is not None and not _yields(promise, (account,))):
            return False
        members = books.members[account.quota].values()
        if not any(member.node and member.preemptible and _may_evict(account, member) for member in members):
            return False
        plan = self._plan(books, books.tree, (account,), "", 0.0, host)
        return plan is not None and (promise is None or not _protected(plan, host))

    def awaits(self, account: Account) -> str:
        """What the evictions for this pod wait for; empty where they wait for nothing."""
        promise = self._of.get(account.quota)
        if promise is None or account.uid not in promise.uids or not promise.awaited:
            return ""
        first, more = promise.awaited[0], len(promise.awaited) - 1
        others = f" and {more} more" if more else ""
        return f"{first}{others} of the same quota would leave for it: that waits for their disruption budgets."

    def attempt(
        self,
        lots: Sequence[tuple[TreeAccounts, Sequence[Account]]],
        name: str,
        now_s: float,
        host: PluginHost,
        together: bool = True,
    ) -> tuple[Evict, ...]:
        """Return the evictions that admit all of these pods, and record the promises; empty if preemption cannot help
        in every quota, or not now.

        `lots`: per quota, the accounts of its tree and of the pods. A quota with enough room already gets no promise.
        """
        trees = {books.tree_id: books.tree.copy() if len(lots) > 1 else books.tree for books, _ in lots}
        promises: list[Promise] = []
        for books, accounts in lots:
            if self._must_wait(books, accounts, host):
                return ()
            tree, quota, asked = trees[books.tree_id], accounts[0].quota, asked_by(accounts)
            kept = asked_by(account for account in accounts if not account.preemptible)
            if kept and any(s.limit is LimitKind.MINIMUM for s in shortages(tree, quota, kept, False, self._rules)):
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
        awaited = tuple(sorted({key for promise in promises for key in _protected(promise, host)}))
        if awaited and any(self._is_of_others(promise) for promise in promises):
            for promise in promises:
                self._behind.update(dict.fromkeys(promise.uids, promise.quota))
            return ()
        found: list[Evict] = []
        going = [  # in other quotas, and not seen to go yet: the budgets are as before
            victim
            for promise in self._of.values()
            for victim in promise.victims.values()
            if victim.node and not victim.entry.seen.terminating
        ]
        for promise in promises:
            before = self._of.get(promise.quota)
            if before is not None:
                self._behind.update(dict.fromkeys(before.uids - promise.uids, promise.quota))
            if awaited:
                self._of[promise.quota] = replace(promise, together=together, victims={}, awaited=awaited)
                continue
            promise = self._of[promise.quota] = replace(_now(promise, going, host), together=together)
            going += promise.victims.values()
            found += evictions(name, promise.quota, promise.priority, promise.victims.values())
        return tuple(found)

    def _must_wait(self, books: TreeAccounts, accounts: Sequence[Account], host: PluginHost) -> bool:
        """Whether these pods may not preempt in their quota, or not now."""
        quota, uids = accounts[0].quota, [account.uid for account in accounts]
        self._ready.difference_update(uids)
        if not all(account.entry.seen.preempts for account in accounts):
            return True
        promise = self._of.get(quota)
        if promise is not None and not _yields(promise, accounts):
            self._behind.update(dict.fromkeys(uids, quota))
            return True
        if any(member.node and host.is_going(member.entry) for member in books.members[quota].values()):
            self._later.update(dict.fromkeys(uids, quota))
            return True
        return False

    def _is_of_others(self, promise: Promise) -> bool:
        """Whether what its quota frees is kept for other pods already."""
        before = self._of.get(promise.quota)
        return before is not None and before.uids.isdisjoint(promise.uids)

    def _plan(
        self,
        books: TreeAccounts,
        tree: QuotaTree,
        accounts: Sequence[Account],
        name: str,
        now_s: float,
        host: PluginHost,
    ) -> Promise | None:
        quota = accounts[0].quota
        priority = min(account.entry.seen.pod.priority for account in accounts)
        pods, whole = candidates(books.members[quota], accounts, priority, host)
        preemptible = all(account.preemptible for account in accounts)
        newcomer = QuotaPod(accounts[0].uid, asked_by(accounts), priority, preemptible=preemptible)
        free = [pod for pod in pods if not pod.breaks_budget]
        found = preempt(tree, quota, newcomer, free, self._rules)
        if not found.victims:  # only with pods whose budgets are spent: then nobody goes before they may
            found = preempt(tree, quota, newcomer, pods, self._rules)
        if not found.victims:
            return None
        chosen = found.victims
        uids = dict.fromkeys(uid for pod in chosen for uid in whole.get(pod.uid, ()))
        if uids:  # the spare members are evicted too, so fewer of the others may suffice
            without = tree.copy()
            for uid in uids:
                without.release(quota, books.members[quota][uid].asked, books.members[quota][uid].preemptible)
            others = [pod for pod in chosen if pod.uid not in uids]
            chosen = preempt(without, quota, newcomer, others, self._rules).victims
        uids |= dict.fromkeys(pod.uid for pod in chosen)
        gangs = tuple(whole[pod.uid] for pod in found.victims if pod.uid in whole)
        victims = {uid: books.members[quota][uid] for uid in uids}
        return Promise(
            frozenset(entry.uid for entry in accounts),
            name,
            quota,
            priority,
            now_s + PROMISED_S,
            victims,
            gangs,
            least=priority,
        )

    def may_try(self, account: Account) -> bool:
        """Whether the pod may retry preemption after having waited."""
        return account.uid in self._ready

    def left(self, quota: str) -> None:
        """Record that a pod of the quota was unassigned."""
        self._free(self._later, quota)

    def let_through(self, accounts: Sequence[Account]) -> bool:
        """End the promises whose pods were all admitted in one round. Returns whether a waiting pod may retry now."""
        uids = {account.uid for account in accounts}
        ended = [
            self.end(account)
            for account in accounts
            if (promise := self._of.get(account.quota)) is None or promise.uids <= uids
        ]
        return any(ended)

    def end(self, account: Account) -> bool:
        """End the promise of a pod that was assigned or left, and of its gang. Returns whether a waiting pod may
        retry now.
        """
        self._later.pop(account.uid, None)
        self._behind.pop(account.uid, None)
        self._ready.discard(account.uid)
        promise = self._of.get(account.quota)
        if promise is None or account.uid not in promise.uids:
            return False
        left = promise.uids - {account.uid}
        if left and not promise.together:
            self._of[account.quota] = replace(promise, uids=left)
            return False
        del self._of[account.quota]
        self._free(self._behind, account.quota)
        return True  # and what it kept quota from may fit now

    def _free(self, waiting: dict[str, str], quota: str) -> bool:
        found = [uid for uid, of in waiting.items() if of == quota]
        for uid in found:
            del waiting[uid]
        self._ready.update(found)
        return bool(found)

    def expire(self, now_s: float) -> bool:
        """End expired promises. Returns whether there were any."""
        over = [quota for quota, promise in self._of.items() if promise.until_s <= now_s]
        for quota in over:
            self._ready |= self._of.pop(quota).uids
            self._free(self._behind, quota)
        return bool(over)

    def next_s(self) -> float:
        """When the next promise expires, in seconds; inf = never."""
        return min((promise.until_s for promise in self._of.values()), default=float("inf"))

    @property
    def is_evicting(self) -> bool:
        """Whether a promise stands."""
        return bool(self._of)

    def is_leaving(self, uid: str) -> bool:
        """Whether the pod is the victim of a promise that still stands."""
        return any(uid in promise.victims for promise in self._of.values())

    def clear(self) -> None:
        """Forget all pods and promises."""
        self._of.clear()
        self._later.clear()
        self._behind.clear()
        self._ready.clear()


def _may_evict(newcomer: Account, other: Account) -> bool:
    """By priority, and as on nodes: best-effort work evicts best-effort work only."""
    new, old = newcomer.entry.seen.pod, other.entry.seen.pod
    return old.priority < new.priority and (old.is_best_effort or not new.is_best_effort)


def _yields(promise: Promise, accounts: Sequence[Account]) -> bool:
    """Whether these pods may preempt although the promise stands: it evicts nobody, and they are its own or as
    important.
    """
    if not promise.awaited:
        return False
    return any(account.uid in promise.uids for account in accounts) or all(
        account.entry.seen.pod.priority >= promise.priority for account in accounts
    )


def _protected(promise: Promise, host: PluginHost) -> tuple[str, ...]:
    """The victims whose disruption budgets allow no disruption now, by namespace/name."""
    return tuple(
        sorted(victim.entry.seen.pod.key for victim in promise.victims.values() if host.breaks_budget(victim.entry))
    )


def _now(promise: Promise, going: Sequence[Account], host: PluginHost) -> Promise:
    """The promise with the victims that may go at once; the others wait for the next attempt."""
    singles = set(promise.victims).difference(*promise.gangs)
    units = [VictimUnit([promise.victims[uid] for uid in gang], True) for gang in promise.gangs]
    units += [VictimUnit([victim]) for uid, victim in promise.victims.items() if uid in singles]
    found = {account.uid for unit in borne_at_once(units, going, host) for account in unit.accounts}
    return replace(promise, victims={uid: victim for uid, victim in promise.victims.items() if uid in found})
