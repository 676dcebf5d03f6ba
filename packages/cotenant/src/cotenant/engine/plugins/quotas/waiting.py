"""Jobs that wait for resources of a tree: those that their quotas would admit if other quotas released overuse.

Evicting for a pod that still could not run is waste, and would repeat forever; a pod too large for its quota must not
block smaller ones behind it. A job is the waiting members of a gang, in all their quotas, or a single pod. In each
quota, members count in order of priority while they fit its runtime, and its minimum if they are not preemptible. A
gang with fewer counted members than must be placed together is skipped: quota is not its only obstacle.
Limits: free room on nodes is not checked; each job is compared with the runtime of its quota separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter

from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.engine.plugins.quotas.accounts import Account, TreeAccounts, gang_name
from cotenant.model.groups.quota import Levels
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.headroom import HeadroomRules, LimitKind, shortages
from cotenant.policy.quota.tree import QuotaTree

_Rank = tuple[int, float, str]


def who_waits(books: TreeAccounts) -> dict[str, list[Account]]:
    """Unassigned pods in state QUEUED or HELD by quota, highest priority first."""
    found: dict[str, list[Account]] = {}
    for name, members in books.members.items():
        here = [
            member
            for member in members.values()
            if not member.node and member.entry.state in (SchedulingState.QUEUED, SchedulingState.HELD)
        ]
        if here:
            found[name] = sorted(here, key=_rank)
    return found


def jobs_waiting(
    tree: QuotaTree, accounts: Mapping[str, Sequence[Account]], rules: HeadroomRules, host: PluginHost
) -> dict[str, list[Amounts]]:
    """Requests, per quota, of the jobs that their quotas would admit, highest priority first."""
    jobs: dict[str, dict[str, list[Account]]] = {}  # job -> quota -> its members
    for quota, here in accounts.items():
        for account in here:
            gang = gang_name(account) if host.lacks(account.entry) > 1 else ""
            jobs.setdefault(gang or account.uid, {}).setdefault(quota, []).append(account)
    ranked: dict[str, list[tuple[_Rank, Amounts]]] = {}
    for parts in jobs.values():
        first = next(iter(parts.values()))[0]
        fitting = {quota: _that_fit(tree, quota, part, rules) for quota, part in parts.items()}
        if sum(map(len, fitting.values())) < host.lacks(first.entry):
            continue
        for quota, part in fitting.items():
            if part:
                asked = sum((account.asked for account in part), NOTHING)
                ranked.setdefault(quota, []).append((_rank(part[0]), asked))
    return {quota: [asked for _, asked in sorted(found, key=itemgetter(0))] for quota, found in ranked.items()}


def fits(used: Levels, most: Levels, asked: Amounts) -> bool:
    """Whether `used` plus `asked` stays within `most`, for the requested resources."""
    use = dict(used)
    return all(use.get(resource, 0) + asked.get(resource) <= amount for resource, amount in most if asked.get(resource))


def _that_fit(tree: QuotaTree, quota: str, part: Sequence[Account], rules: HeadroomRules) -> list[Account]:
    used, most = tree.used(quota), tree.runtime(quota)
    asked, kept, found = NOTHING, NOTHING, list[Account]()
    for account in part:
        if not fits(used, most, asked + account.asked):
            continue
        if not account.preemptible:
            short = shortages(tree, quota, kept + account.asked, False, rules)
            if any(shortage.limit is LimitKind.MINIMUM for shortage in short):
                continue
            kept = kept + account.asked
        asked = asked + account.asked
        found.append(account)
    return found


def _rank(account: Account) -> _Rank:
    """Sort key: highest priority first, then oldest."""
    return -account.entry.seen.pod.priority, account.entry.seen.created_s, account.uid
