"""What the shard of a quota's tree can lend another: what its account would admit after those that go first there.

The order is that of one scheduler's queue: by priority; of equal priority gangs first, which need their room at one
time, the older before; then pods that nobody may preempt, which also need room of the guarantee; the rest share. Who
goes first keeps room only as far as the tree would admit it, and not while it waits for anything but quota: with one
scheduler, too, others pass a pod that finds no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from cotenant.engine.framework.queueing import AlikePods
from cotenant.engine.plugins.quotas.accounts import Account, RoomAhead, TreeAccounts, add_amounts
from cotenant.model.resources import NOTHING, PODS_NAME, Amounts
from cotenant.model.shards.table import QuotaRoom, RoomFor
from cotenant.policy.sharding.borrowing import pods_to_grant


class RoomWanted(NamedTuple):
    """Pods that wait in the shard of a quota's tree. `rests`: for something other than quota."""

    of: RoomFor
    pods: AlikePods
    rests: bool

    @property
    def priority(self) -> int:
        """The lowest of those that are placed together, as in the queue."""
        return min(entry.seen.pod.priority for entry in self.pods.together or (self.pods.first,))


class _Gang(NamedTuple):
    """All that waits of a gang."""

    priority: int
    created_s: float
    sum: Amounts
    rests: bool


def request_of(requests: Amounts) -> Amounts:
    """A pod's requests as room of a quota: it counts as a pod too."""
    return Amounts.of({**dict(requests), PODS_NAME: 1})


def is_whole(ask: QuotaRoom, pending: Sequence[Account], lacks: int) -> bool:
    """Whether what is asked for is all that waits of a gang here, so that all of it can be given up, and enough of it
    that it can run.
    """
    sums: dict[str, int] = {}
    for account in pending:
        add_amounts(sums, request_of(account.requests))
    return len(pending) >= lacks and Amounts.of(sums) == ask.each


def lendable(
    of: RoomFor, ask: QuotaRoom, waiting: Sequence[RoomWanted], tree: TreeAccounts, since_s: float = -inf
) -> int:
    """For how many pods of an ask room can be lent; a gang is one. `waiting`: in the tree's own shard. `since_s`: when
    the gang was created.
    """
    gangs = _gangs(waiting)
    gangs.pop(of, None)
    if of.gang and any(room.gang == of.gang for room in gangs):
        return 0  # its members need room of several kinds
    age = (since_s, of.gang)
    ahead: list[tuple[int, RoomAhead]] = []
    for room, gang in gangs.items():
        is_older = not of.gang or (gang.created_s, room.gang) < age
        if not gang.rests and (gang.priority, is_older) > (ask.priority, False):
            ahead.append((gang.priority, RoomAhead(room.quota, room.preemptible, gang.sum, 1)))
    beside = 0
    for one in waiting:
        if one.of.gang or one.rests:
            continue
        priority, goes_first = one.priority, not one.of.preemptible and of.preemptible and not of.gang
        if priority > ask.priority or (priority == ask.priority and goes_first):
            each = request_of(one.pods.first.seen.pod.requests)
            ahead.append((priority, RoomAhead(one.of.quota, one.of.preemptible, each, one.pods.pods)))
        elif one.of == of and priority == ask.priority:
            beside += one.pods.pods
    if not ask.is_lent:
        beside = max(0, beside - ask.asked)  # they wait here until it is lent
    ahead.sort(key=lambda item: -item[0])
    wanted = RoomAhead(of.quota, of.preemptible, ask.each, ask.asked + beside)
    return pods_to_grant(ask.asked, tree.fitting(wanted, [one for _, one in ahead]), beside)


def _gangs(waiting: Sequence[RoomWanted]) -> dict[RoomFor, _Gang]:
    found: dict[RoomFor, _Gang] = {}
    for one in waiting:
        if not one.of.gang:
            continue
        before = found.get(one.of, _Gang(one.priority, inf, NOTHING, rests=False))
        found[one.of] = _Gang(
            min(before.priority, one.priority),
            min(before.created_s, one.pods.first.seen.created_s),
            before.sum + _sum_of(one.pods),
            before.rests or one.rests,
        )
    return found


def _sum_of(pods: AlikePods) -> Amounts:
    sums: dict[str, int] = {}
    for entry in pods.together or (pods.first,):
        add_amounts(sums, request_of(entry.seen.pod.requests))
    return Amounts.of((name, amount * (1 if pods.together else pods.pods)) for name, amount in sums.items())
