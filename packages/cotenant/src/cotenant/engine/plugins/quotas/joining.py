"""More pods of a quota join a promise: pods that are not alike need not wait for one another's victims to end.

Ten Deployments of different sizes would take ten grace periods if each preempted only once the victims of the one
before have gone. Whoever joins has victims of its own; what leaves already counts as free, and the pods that it is
promised to as placed. Nobody joins where one of those that are about to go would then not be needed.
Limits: no gangs, on either side; `MAX_JOINS` attempts for a promise, since each looks at all pods of the quota.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cotenant.engine.framework.instructions import Evict
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts
from cotenant.engine.plugins.quotas.promise import PROMISED_S, Promise, evictions
from cotenant.engine.plugins.quotas.victims import asked_by, candidates
from cotenant.model.groups.quota import QuotaPod
from cotenant.model.resources import Amounts
from cotenant.policy.quota.headroom import HeadroomRules, shortages
from cotenant.policy.quota.preemption import preempt
from cotenant.policy.quota.tree import QuotaTree

MAX_JOINS = 64


class JoinOutcome(NamedTuple):
    """The promise afterwards, and the further evictions, none where nobody joined."""

    promise: Promise
    evicts: tuple[Evict, ...] = ()


def may_be_joined(standing: Promise, alike: Sequence[Account]) -> bool:
    """Whether it is worth trying for these pods."""
    return (
        bool(standing.victims)
        and not standing.together
        and not standing.gangs
        and standing.joins < MAX_JOINS
        and standing.uids.isdisjoint(account.uid for account in alike)
        and all(account.entry.seen.preempts for account in alike)
    )


def join(
    standing: Promise,
    books: TreeAccounts,
    alike: Sequence[Account],
    now_s: float,
    host: PluginHost,
    rules: HeadroomRules,
) -> JoinOutcome:
    """Let as many of these pods as possible, which are alike, join a promise that they may join."""
    standing = replace(standing, joins=standing.joins + 1)
    quota, members = standing.quota, books.members[standing.quota]
    placed = [account for account in members.values() if account.node]
    leaving = [account for account in placed if account.uid in standing.victims]
    going = [account for account in leaving if not account.entry.seen.terminating]
    if any(host.is_going(account.entry) and account.uid not in standing.victims for account in placed):
        return JoinOutcome(standing)  # what it frees is nobody's yet
    tree = _tree_afterwards(books.tree, standing, members, leaving)
    staying = {
        account.uid: account
        for account in placed
        if account.uid not in standing.victims and host.job_of(account.entry) is None
    }
    priority = alike[0].entry.seen.pod.priority
    lowest = min(standing.least, priority)
    free = [pod for pod in candidates(staying, alike, lowest, host)[0] if not pod.breaks_budget]
    least, most, victims = 0, len(alike), list[Account]()
    while least < most:
        middle = (least + most + 1) // 2
        newcomer = QuotaPod(alike[0].uid, asked_by(alike[:middle]), lowest, preemptible=alike[0].preemptible)
        found = preempt(tree, quota, newcomer, free, rules)
        if found.still_short:
            most = middle - 1
        else:
            least, victims = middle, [members[pod.uid] for pod in found.victims]
    if not victims or not host.bears([account.entry for account in (*going, *victims)], ()):
        return JoinOutcome(standing)
    for account in victims:
        tree.release(quota, account.asked, account.preemptible)
    if any(_may_stay(account, tree, asked_by(alike[:least]), alike[0].preemptible, rules) for account in going):
        return JoinOutcome(standing)
    uids = standing.uids | {account.uid for account in alike[:least]}
    promise = replace(
        standing,
        uids=uids,
        name=f"{standing.name.partition(' and ')[0]} and {len(uids) - 1} more",
        priority=max(standing.priority, priority),
        least=lowest,
        until_s=now_s + PROMISED_S,
        victims={account.uid: account for account in (*leaving, *victims)},
    )
    others = f" and {least - 1} more" if least > 1 else ""
    return JoinOutcome(promise, tuple(evictions(f"{alike[0].entry.seen.pod.key}{others}", quota, priority, victims)))


def _tree_afterwards(
    tree: QuotaTree, standing: Promise, members: Mapping[str, Account], leaving: Sequence[Account]
) -> QuotaTree:
    """The tree once the victims have gone and the promised pods are placed."""
    tree = tree.copy()
    for account in leaving:
        tree.release(standing.quota, account.asked, account.preemptible)
    for account in (members[uid] for uid in standing.uids if uid in members):
        if not account.node and not account.admitted:  # else it counts
            tree.use(standing.quota, account.asked, account.preemptible)
    return tree


def _may_stay(account: Account, tree: QuotaTree, asked: Amounts, preemptible: bool, rules: HeadroomRules) -> bool:
    """Whether everything fits without this pod's eviction, too."""
    tree.use(account.quota, account.asked, account.preemptible)
    short = shortages(tree, account.quota, asked, preemptible, rules)
    tree.release(account.quota, account.asked, account.preemptible)
    return not short
