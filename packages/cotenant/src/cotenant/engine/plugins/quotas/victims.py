"""Who in a quota may be evicted, and which of those that were chosen may go at once.

A Strict gang is evicted whole or in its spare members. Each gang's budget may let it go, and yet not two of them, or
one and another pod: then some of the evictions would be refused, and a part of a gang would be left. The gangs come
first, one after another as long as the budgets let all go that were taken before; the rest is chosen again later.
Limits: budgets are as they were last seen, so `going` has to name whose evictions they do not count yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.plugin import PluginHost
from cotenant.engine.plugins.quotas.accounts import Account
from cotenant.model.groups.quota import QuotaPod
from cotenant.model.resources import NOTHING, Amounts


@dataclass(frozen=True, slots=True)
class VictimUnit:
    """Victims that go together; `is_gang`: a part of them would be left in vain."""

    accounts: Sequence[Account]
    is_gang: bool = False


def borne_at_once(units: Sequence[VictimUnit], going: Sequence[Account], host: PluginHost) -> list[VictimUnit]:
    """Those that may go now, beside `going`; all of them where there is no gang, since the API server refuses single
    pods by itself.
    """
    if not any(unit.is_gang for unit in units):
        return list(units)
    found: list[VictimUnit] = []
    gone = [account.entry for account in going]
    for unit in sorted(units, key=lambda unit: not unit.is_gang):
        if not unit.is_gang and not found:
            break  # none of the gangs may go yet: the others need not go before them
        more = [account.entry for account in unit.accounts]
        if host.bears(more, gone):
            gone += more
            found.append(unit)
    return found


def candidates(
    members: Mapping[str, Account], newcomers: Sequence[Account], priority: int, host: PluginHost
) -> tuple[list[QuotaPod], dict[str, tuple[str, ...]]]:
    """The possible victims, with a gang evicted whole as one entry; and for each such entry's UID the UIDs of all
    gang members.
    """
    only_its_like = any(newcomer.entry.seen.pod.is_best_effort for newcomer in newcomers)
    lower = {
        uid: account
        for uid, account in members.items()
        if account.node
        and account.preemptible
        and account.entry.seen.pod.priority < priority
        and (account.entry.seen.pod.is_best_effort or not only_its_like)
    }
    own = host.job_of(newcomers[0].entry)
    pods: list[QuotaPod] = []
    whole: dict[str, tuple[str, ...]] = {}
    visited: set[str] = set()
    for uid, account in lower.items():
        if uid in visited:
            continue
        job = host.job_of(account.entry)
        if job is None:
            pods.append(as_quota_pod(account, host.breaks_budget(account.entry)))
            continue
        uids = tuple(entry.seen.uid for entry in job.members)
        visited.update(uids)
        if own is not None and own.keys == job.keys:
            continue
        pods += [
            as_quota_pod(lower[name], host.breaks_budget(lower[name].entry))
            for name in uids[: job.spare]
            if name in lower
        ]
        if job.spare < len(uids) and may_go_whole(job, lower, host):
            whole[uids[-1]] = uids
            pods.append(as_one([lower[name] for name in uids[job.spare :]]))
    return pods, whole


def may_go_whole(job: PlacedJob, among: Mapping[str, Account], host: PluginHost) -> bool:
    """Whether every member is in `among`, and the disruption budgets allow evicting all of them."""
    return all(entry.seen.uid in among for entry in job.members) and host.bears(job.members, ())


def as_one(accounts: Sequence[Account]) -> QuotaPod:
    """Pods of a gang, lowest priority first, as one entry with the UID of the last."""
    pods = [as_quota_pod(account) for account in accounts]
    return QuotaPod(
        pods[-1].uid,
        asked_by(accounts),
        max(pod.priority for pod in pods),
        min(pod.started_us for pod in pods),
        all(pod.preemptible for pod in pods),
        is_gang=True,
    )


def as_quota_pod(account: Account, breaks_budget: bool = False) -> QuotaPod:
    """A pod as input to the quota arithmetic. A pod that has not started uses its creation time."""
    seen = account.entry.seen
    started = seen.started_s if seen.started_s == seen.started_s else seen.created_s
    started_us = int(started * 1e6) if started == started else 0
    return QuotaPod(account.uid, account.asked, seen.pod.priority, started_us, account.preemptible, breaks_budget)


def asked_by(accounts: Iterable[Account]) -> Amounts:
    """What they request together."""
    return sum((account.asked for account in accounts), NOTHING)
