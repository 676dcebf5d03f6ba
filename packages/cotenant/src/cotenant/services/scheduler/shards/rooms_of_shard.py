"""What one shard knows of quotas' room that shards lend one another: what it wants, what it can lend, what it counts.

A shard asks for room of another's quota where pods of its own workloads wait for that shard for a moment and it has
nodes for them. It lends what its account of the tree has room for, beside those that go first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice

from cotenant.engine.cluster import Cluster
from cotenant.engine.plugins.quotas.accounts import ForeignUse
from cotenant.engine.plugins.quotas.shared_trees import request_of
from cotenant.engine.sharding.member import ShardMember
from cotenant.engine.sharding.rooms import RoomAsk, RoomView, times
from cotenant.model.resources import NOTHING, Amounts
from cotenant.model.shards.table import QuotaRoom, RoomKey
from cotenant.policy.sharding.borrowing import MAX_PODS
from cotenant.policy.sharding.groups import in_words, node_of
from cotenant.policy.sharding.rendezvous import owner
from cotenant.services.scheduler.shards.pods_of_shard import PodHome, PodsOfShard

_PATIENCE_S = 0.3  # how long a pod waits in its quota's shard before room for it is asked
_LOOK_S = 0.2
_SPARE_S, _USELESS_S = 1.0, 3.0  # borrowed room of which nothing is used is returned: nothing waits, something does


class RoomsOfShard:
    """Those of one process, in whatever term."""

    def __init__(self, cluster: Cluster, pods: PodsOfShard, now: Callable[[], float]) -> None:
        self._cluster = cluster
        self._shared = cluster.plugins.quotas.shared
        self._pods = pods
        self._now = now
        self._asks: dict[str, RoomAsk] = {}
        self._asked_at_s = -1e9
        self._judged_s: dict[RoomKey, float] = {}
        self._used: dict[str, tuple[Amounts, float]] = {}  # of borrowed room, and since when it is so much
        self.grants = 0  # so far, to this shard
        self._granted: dict[str, Amounts] = {}

    # ---- before a step

    def view(self, member: ShardMember, homes: Iterable[PodHome]) -> RoomView:
        """For a step of this member; `homes`: of binds that are decided or under way."""
        table = member.table
        if self._now() >= self._asked_at_s + _LOOK_S:
            self._asked_at_s = self._now()
            self._asks = self._find_asks(member)
        spare, useless = self._unused(member)
        flying = {RoomKey(home.quota, owner(node_of(home.group) or home.group, table.slots)) for home in homes}
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

    def _find_asks(self, member: ShardMember) -> dict[str, RoomAsk]:
        """Pods for which room is wanted: those that wait elsewhere, and those that wait here for more of it."""
        found: dict[str, list[tuple[int, Amounts, int]]] = {}
        until_s, others = self._pods.now() - _PATIENCE_S, self._pods.others
        for quota, waiting in self._pods.may_borrow.items():
            for uid, since_s in islice(waiting.items(), 2 * MAX_PODS):
                if since_s <= until_s:
                    pod = others[uid].pod
                    found.setdefault(quota, []).append((1, request_of(pod.requests), pod.priority))
        if any(granted is not None for granted in member.rooms.own.values()):
            for entry, pods in self._cluster.closed.waiting_alike():
                quota = self._cluster.plugins.quotas.quota_of(entry.seen.uid)[0]
                if self._shared.is_borrowed(quota):
                    pod = entry.seen.pod
                    found.setdefault(quota, []).append((pods, request_of(pod.requests), pod.priority))
        asks: dict[str, RoomAsk] = {}
        for quota, waiting_pods in found.items():
            priority = max(priority for _, _, priority in waiting_pods)
            each, count = NOTHING, 0
            for pods, request, of in waiting_pods:
                if of == priority:
                    each, count = each.maximum(request), count + pods
            count = self._cluster.closed.places(each, min(count, MAX_PODS))
            left = self._shared.left(quota)
            covered = min((left.get(name) // amount for name, amount in each if amount), default=0)
            asks[quota] = RoomAsk(max(0, count - covered), each, priority)
        return asks

    def _unused(self, member: ShardMember) -> tuple[frozenset[str], frozenset[str]]:
        """Borrowed room of which nothing was used for a while: because nothing waits, and although something does."""
        now_s, spare, useless = self._now(), set[str](), set[str]()
        used = self._shared.used()
        self._used = {
            quota: self._used[quota] if self._used.get(quota, (None, 0.0))[0] == amounts else (amounts, now_s)
            for quota, amounts in used.items()
        }
        for quota, (_, since_s) in self._used.items():
            if now_s < since_s + _SPARE_S or member.rooms.own.get(quota) is None:
                continue
            if quota not in self._asks and not self._shared.takes(quota):
                spare.add(quota)
            elif quota in self._asks and now_s >= since_s + _USELESS_S:
                useless.add(quota)
        return frozenset(spare), frozenset(useless)

    def _lend(self, key: RoomKey, room: QuotaRoom) -> int:
        """For how many pods of an ask there is room; it counts from now on."""
        now_s = self._now()
        if room.is_lent and now_s < self._judged_s.get(key, -1e9) + _LOOK_S:
            return 0
        if len(self._judged_s) > 4 * MAX_PODS:
            self._judged_s.clear()
        self._judged_s[key] = now_s
        pods = self._shared.lendable(key.quota, room, self._cluster.closed.waiting_alike())
        if pods:
            self._shared.lend_more(key.quota, times(room.each, pods))
        return pods

    # ---- after a step

    def count(self, member: ShardMember | None) -> None:
        """Let the engine count what others have, and admit by what this shard has."""
        lent: dict[str, ForeignUse] = {}
        if member is not None:
            for key, charge in member.rooms.lent.charges.items():
                before = lent.get(key.quota, ForeignUse(NOTHING, NOTHING))
                lent[key.quota] = ForeignUse(before.used + charge.used, before.asked + charge.asked)
        borrowed = member.rooms.own if member is not None else {}
        for quota, granted in borrowed.items():
            if granted is not None and self._granted.get(quota) != granted:
                self._granted[quota] = granted
                self.grants += 1
        for quota in self._granted.keys() - borrowed.keys():
            del self._granted[quota]
        self._cluster.plugins.quotas.share(lent, borrowed)

    # ---- for people

    def of_pod(self, member: ShardMember, home: PodHome) -> str:
        """Which shard decides for a pod by room of its quota, and whose that is; empty where its quota's shard does."""
        slots = member.table.slots
        borrower, lender = owner(node_of(home.group) or home.group, slots), self.owner_of(member, home.quota)
        room = member.table.rooms.get(RoomKey(home.quota, borrower))
        if room is None or borrower == lender:
            return ""
        if not room.is_lent:
            tree = self._shared.tree_of(home.quota)
            words = f"shard {lender} decides for it, by {in_words(f'quota:{tree}')}"
            return f"{words}; shard {borrower}, which has its workload, asks for room of quota {home.quota}"
        left = times(room.each, room.asked)
        more = f"; it waits for room for {room.asked} pods more ({left})" if room.asked else ""
        return f"shard {borrower} decides for it, by room of quota {home.quota} that shard {lender} lends{more}"
