"""What one shard knows of quotas' room that shards lend one another: what it wants, what it can lend, what it counts.

A shard asks for room of another's quota where pods of its own workloads wait for that shard for a moment and it has
nodes for them. It lends what its account of the tree has room for, beside those that go first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import NamedTuple

from cotenant.engine.cluster import Cluster
from cotenant.engine.plugins.quotas.accounts import ForeignUse, add_amounts
from cotenant.engine.plugins.quotas.lending import request_of
from cotenant.engine.sharding.member import ShardMember
from cotenant.engine.sharding.rooms import RoomAsk, RoomView, less, times
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import NOTHING, Amounts
from cotenant.model.shards.table import QuotaRoom, RoomFor, RoomKey
from cotenant.policy.sharding.borrowing import MAX_PODS
from cotenant.policy.sharding.groups import in_words, node_of
from cotenant.policy.sharding.rendezvous import owner
from cotenant.services.scheduler.shards.pods_of_shard import PodHome, PodsOfShard

_PATIENCE_S = 0.3  # how long a pod waits in its quota's shard before room for it is asked
_LOOK_S = 0.2
_SPARE_S, _USELESS_S = 1.0, 3.0  # borrowed room of which nothing is used is returned: nothing waits, something does


class _Lot(NamedTuple):
    """Alike pods that wait."""

    pods: int
    each: Amounts
    pod: Pod


class RoomsOfShard:
    """Those of one process, in whatever term."""

    def __init__(self, cluster: Cluster, pods: PodsOfShard, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._shared = cluster.plugins.quotas.shared
        self._pods = pods
        self._now = now
        self._asks: dict[RoomFor, RoomAsk] = {}
        self._asked_at_s = -1e9
        self._judged_s: dict[RoomKey, float] = {}
        self._used: dict[RoomFor, tuple[Amounts, float]] = {}  # of borrowed room, and since when it is so much
        self.grants = 0  # so far, to this shard
        self._granted: dict[RoomFor, Amounts] = {}

    # ---- before a step

    def view(self, member: ShardMember, homes: Iterable[PodHome]) -> RoomView:
        """For a step of this member; `homes`: of binds that are decided or under way."""
        table = member.table
        if self._now() >= self._asked_at_s + _LOOK_S:
            self._asked_at_s = self._now()
            self._asks = self._find_asks(member)
        spare, useless = self._unused(member)
        flying = {RoomKey(home.of, owner(node_of(home.group) or home.group, table.slots)) for home in homes}
        return RoomView(
            self._asks,
            self._shared.used(),
            spare,
            useless,
            frozenset(flying),
            partial(self.owner_of, member),
            self._lend,
        )

    def owner_of(self, member: ShardMember, quota: str) -> int:
        """The slot that decides for a quota's tree; -1 where it is in none."""
        tree = self._shared.tree_of(quota)
        return -1 if tree is None else owner(f"quota:{tree}", member.table.slots)

    def _find_asks(self, member: ShardMember) -> dict[RoomFor, RoomAsk]:
        """Pods for which room is wanted: those that wait elsewhere, and those that wait here for more of it."""
        found: dict[RoomFor, list[_Lot]] = {}
        until_s, others = self._pods.now() - _PATIENCE_S, self._pods.others
        for of, waiting in self._pods.may_borrow.items():
            if of.gang and any(since_s > until_s for since_s in waiting.values()):
                continue  # more of it may be on its way
            for uid, since_s in islice(waiting.items(), None if of.gang else 2 * MAX_PODS):
                if since_s <= until_s:
                    found.setdefault(of, []).append(_Lot(1, request_of(others[uid].pod.requests), others[uid].pod))
        if any(granted is not None for granted in member.rooms.own.values()):
            for group in self._cluster.closed.waiting_alike():
                here = self._shared.room_of(group.first.seen.uid)
                if here is not None and self._shared.is_borrowed(here):
                    pods = group.together or (group.first,)
                    count = 1 if group.together else group.pods
                    more = (_Lot(count, request_of(one.seen.pod.requests), one.seen.pod) for one in pods)
                    found.setdefault(here, []).extend(more)
        gangs = Counter(of.gang for of in found if of.gang)
        asks: dict[RoomFor, RoomAsk] = {}
        for of, lots in found.items():
            ask = self._ask_for_gang(of, lots) if of.gang else self._ask_for_pods(of, lots)
            if ask is not None and gangs[of.gang] < 2:
                asks[of] = ask
        return asks

    def _ask_for_pods(self, of: RoomFor, lots: list[_Lot]) -> RoomAsk:
        priority = max(lot.pod.priority for lot in lots)
        each, count = NOTHING, 0
        for lot in lots:
            if lot.pod.priority == priority:
                each, count = each.maximum(lot.each), count + lot.pods
        count = self._cluster.closed.places(each, min(count, MAX_PODS))
        left = self._shared.left(of)
        covered = min((left.get(name) // amount for name, amount in each if amount), default=0)
        return RoomAsk(max(0, count - covered), each, priority)

    def _ask_for_gang(self, of: RoomFor, lots: list[_Lot]) -> RoomAsk | None:
        """For all of it at once; None where the own nodes have no room for all."""
        sums: dict[str, int] = {}
        largest, count = NOTHING, 0
        for lot in lots:
            add_amounts(sums, times(lot.each, lot.pods))
            largest, count = largest.maximum(lot.each), count + lot.pods
        whole, priority = Amounts.of(sums), min(lot.pod.priority for lot in lots)
        if self._shared.is_borrowed(of):
            missing = less(whole, self._shared.left(of))
            lacks = any(amount for _, amount in missing)
            return RoomAsk(1, missing, priority) if lacks else RoomAsk(0, whole, priority)
        return RoomAsk(1, whole, priority) if self._cluster.closed.places(largest, count) == count else None

    def _unused(self, member: ShardMember) -> tuple[frozenset[RoomFor], frozenset[RoomFor]]:
        """Borrowed room of which nothing was used for a while: because nothing waits, and although something does."""
        now_s, spare, useless = self._now(), set[RoomFor](), set[RoomFor]()
        used = self._shared.used()
        self._used = {
            of: self._used[of] if self._used.get(of, (None, 0.0))[0] == amounts else (amounts, now_s)
            for of, amounts in used.items()
        }
        for of, (_, since_s) in self._used.items():
            if now_s < since_s + _SPARE_S or member.rooms.own.get(of) is None:
                continue
            if of not in self._asks and not self._shared.takes(of):
                spare.add(of)
            elif of in self._asks and now_s >= since_s + _USELESS_S:
                useless.add(of)
        return frozenset(spare), frozenset(useless)

    def _lend(self, key: RoomKey, room: QuotaRoom) -> int:
        """For how many pods of an ask there is room; it counts from now on."""
        now_s = self._now()
        if room.is_lent and now_s < self._judged_s.get(key, -1e9) + _LOOK_S:
            return 0
        if len(self._judged_s) > 4 * MAX_PODS:
            self._judged_s.clear()
        self._judged_s[key] = now_s
        pods = self._shared.lendable(key.of, room, self._cluster.closed.waiting_alike())
        if pods:
            self._shared.lend_more(key.of, times(room.each, pods))
        return pods

    # ---- after a step

    def count(self, member: ShardMember | None) -> None:
        """Let the engine count what others have, and admit by what this shard has."""
        lent: dict[str, ForeignUse] = {}
        if member is not None:
            for key, charge in member.rooms.lent.charges.items():
                before = lent.get(key.of.quota, ForeignUse(NOTHING, NOTHING))
                held = before.held if key.of.preemptible else before.held + charge.used
                lent[key.of.quota] = ForeignUse(before.used + charge.used, before.asked + charge.asked, held)
        borrowed = member.rooms.own if member is not None else {}
        for of, granted in borrowed.items():
            if granted is not None and self._granted.get(of) != granted:
                self._granted[of] = granted
                self.grants += 1
        for of in self._granted.keys() - borrowed.keys():
            del self._granted[of]
        self._cluster.plugins.quotas.share(lent, borrowed)

    # ---- for people

    def of_pod(self, member: ShardMember, home: PodHome) -> str:
        """Which shard decides for a pod by room of its quota, and whose that is; empty where its quota's shard does."""
        slots, of = member.table.slots, home.of
        borrower, lender = owner(node_of(home.group) or home.group, slots), self.owner_of(member, of.quota)
        room = member.table.rooms.get(RoomKey(of, borrower))
        if room is None or borrower == lender:
            return ""
        what = f"room of quota {of.quota}" + (f" for gang {of.gang}" if of.gang else "")
        if not room.is_lent:
            words = f"shard {lender} decides for it, by {in_words(f'quota:{self._shared.tree_of(of.quota)}')}"
            return f"{words}; shard {borrower}, which has its {'gang' if of.gang else 'workload'}, asks for {what}"
        count, left = ("what waits of it" if of.gang else f"{room.asked} pods more"), times(room.each, room.asked)
        more = f"; it waits for room for {count} ({left})" if room.asked else ""
        return f"shard {borrower} decides for it, by {what} that shard {lender} lends{more}"
