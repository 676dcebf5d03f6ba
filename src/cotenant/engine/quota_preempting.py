"""A pod that its quota refuses may have less important pods of the same quota evicted.

Problem: whose quota is used up by its own batch work must not wait for it, and between the evictions and the placement somebody less important of the
same quota must not take what comes free. Choice: victims are chosen by the quota's arithmetic alone (policy/quota/preemption.py) and evicted as any pod is,
within their disruption budgets; the pod goes to whatever node then suits it, so no node is promised (a nomination says which node, and quota is of
no node). What comes free is kept instead: while the promise stands, pods of that quota with less priority are refused. A promise ends when its
pod is let through, is gone, or after a while; one a quota. While any pod of the quota is on its way out nobody more is evicted. Pods of the default and the
system quota are spared. Limits: whether a node has room is not asked; a victim that its budget keeps is chosen last, and stays; members of gangs
preempt nobody here, since room for one of them is of no use.

Source: Koordinator's elasticquota/preempt.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cotenant.engine.instructions import Evict, Victim
from cotenant.engine.podstate import Entry
from cotenant.engine.quota_books import Account, TreeBooks
from cotenant.model.quota import QuotaPod
from cotenant.policy.quota.headroom import HeadroomRules
from cotenant.policy.quota.preemption import preempt

REASON = "QuotaPreempted"
PROMISED_S = 60.0  # then the pod may try again


@dataclass(frozen=True, slots=True)
class Promise:
    """What comes free in the quota is for this pod."""

    uid: str
    key: str
    quota: str
    priority: int
    until_s: float
    victims: frozenset[str] = frozenset()  # uids


class QuotaPreempting:
    """Promises, at most one a quota."""

    def __init__(self, rules: HeadroomRules) -> None:
        self._rules = rules
        self._of: dict[str, Promise] = {}  # by quota
        self._later: dict[str, str] = {}  # uid -> quota: tries once a pod of the quota has left
        self._ready: set[str] = set()  # uids that may try now, whatever is free

    def promise_of(self, quota: str) -> Promise | None:
        """Whom the quota is kept for."""
        return self._of.get(quota)

    def obstacle(self, account: Account) -> str:
        """Why the pod must wait for another of its quota, empty if it need not."""
        promise = self._of.get(account.quota)
        if promise is None or promise.uid == account.uid or account.entry.seen.pod.priority >= promise.priority:
            return ""
        return f"Quota {account.quota} keeps what comes free for {promise.key}, which is more important."

    def attempt(
        self, account: Account, books: TreeBooks, now_s: float, breaks: Callable[[Entry], bool]
    ) -> tuple[Evict, ...]:
        """The evictions that let the pod in, and the promise with them; none where they would not help, or not now."""
        seen = account.entry.seen
        if not seen.preempts or account.quota in self._of:
            return ()
        seated = [each for each in books.members[account.quota].values() if each.node]
        self._ready.discard(account.uid)
        if any(each.entry.seen.terminating for each in seated):
            self._later[account.uid] = account.quota
            return ()
        lower = [each for each in seated if each.entry.seen.pod.priority < seen.pod.priority]
        if not lower:
            return ()
        pods = [as_quota_pod(each, breaks(each.entry)) for each in lower]
        found = preempt(books.tree, account.quota, as_quota_pod(account), pods, self._rules)
        if not found.victims:
            return ()
        self._of[account.quota] = Promise(
            account.uid, seen.pod.key, account.quota, seen.pod.priority, now_s + PROMISED_S
        )
        message = f"{seen.pod.key} of the same quota {account.quota} is more important ({seen.pod.priority}) and does not fit beside it"
        return tuple(
            Evict(Victim(pod.uid, books.members[account.quota][pod.uid].entry.seen.pod.key), REASON, message)
            for pod in found.victims
        )

    def may_try(self, account: Account) -> bool:
        """Whether what held the pod back from preempting is over."""
        return account.uid in self._ready

    def left(self, quota: str) -> None:
        """A pod of the quota has left its node."""
        for uid in [uid for uid, of in self._later.items() if of == quota]:
            del self._later[uid]
            self._ready.add(uid)

    def end(self, account: Account) -> bool:
        """The pod was let through, or is gone; whether something was kept for it."""
        self._later.pop(account.uid, None)
        self._ready.discard(account.uid)
        promise = self._of.get(account.quota)
        if promise is None or promise.uid != account.uid:
            return False
        del self._of[account.quota]
        return True

    def expire(self, now_s: float) -> bool:
        """Promises that are over end; whether there were any."""
        over = [quota for quota, promise in self._of.items() if promise.until_s <= now_s]
        for quota in over:
            self._ready.add(self._of.pop(quota).uid)
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
        self._ready.clear()


def as_quota_pod(account: Account, breaks_budget: bool = False) -> QuotaPod:
    """A pod as the arithmetic of quotas sees it. One that has not started is as young as can be."""
    seen = account.entry.seen
    started = seen.started_s if seen.started_s == seen.started_s else seen.created_s
    started_us = int(started * 1e6) if started == started else 0
    return QuotaPod(account.uid, account.asked, seen.pod.priority, started_us, account.preemptible, breaks_budget)
