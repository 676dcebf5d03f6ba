"""What a scheduler of the simulated cluster does with room of quotas that is lent: the account of its trees, and of
what it has borrowed. Sizes are `cpu`; the real `QuotaRooms` decides when what is lent, used and returned.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.property.shards.world import Server, SimPod

from cotenant.engine.sharding.member import ShardMember
from cotenant.engine.sharding.rooms import RoomAsk, RoomView
from cotenant.engine.sharding.territory import Territory
from cotenant.model.resources import Amounts
from cotenant.model.shards.table import QuotaRoom, RoomKey
from cotenant.policy.sharding.borrowing import pods_to_grant
from cotenant.policy.sharding.rendezvous import owner


def decides(held: Territory, pod: SimPod) -> bool:
    """Whether a shard with this territory decides for a pod."""
    if held.owns_group(pod.group):
        return not (pod.home and held.lends(pod.quota, pod.home))
    return bool(pod.home) and pod.quota in held.rooms and held.owns_group(pod.home)


class ReplicaRooms:
    """Of one process; `pods` and `in_flight` are what it knows."""

    def __init__(self, server: Server, pods: Mapping[str, SimPod], in_flight: Mapping[str, tuple[str, int]]) -> None:
        self._server = server
        self._pods = pods
        self._in_flight = in_flight
        self._own: dict[str, int] = {}  # granted
        self._used: dict[str, int] = {}
        self._taken: dict[str, str] = {}  # pod -> quota: by borrowed room, not answered
        self._lent: dict[str, int] = {}
        self._member: ShardMember | None = None

    def group(self, name: str) -> str:
        """The group of a bind under way."""
        return self._pods[name].home if name in self._taken else self._pods[name].group

    def charged(self) -> dict[str, int]:
        """What counts as used of each quota."""
        found: dict[str, int] = {}
        for pod in self._pods.values():
            if pod.quota and not pod.has_ended and (pod.node or pod.name in self._in_flight):
                self._add(found, pod.quota, pod.size)
        for quota, lent in self._lent.items():
            self._add(found, quota, lent)
        return found

    def _add(self, sums: dict[str, int], quota: str, amount: int) -> None:
        for name in self._server.path(quota):
            sums[name] = sums.get(name, 0) + amount

    def _left(self, quota: str) -> int:
        taken = sum(self._pods[name].size for name, of in self._taken.items() if of == quota)
        return self._own.get(quota, 0) - self._used.get(quota, 0) - taken

    def admits(self, held: Territory, pod: SimPod, charged: Mapping[str, int]) -> bool:
        """Whether a pod fits into its quotas, or into what is borrowed, which alone counts then."""
        if not pod.quota:
            return True
        if not held.owns_group(pod.group):
            return pod.size <= self._left(pod.quota)
        path, quotas = self._server.path(pod.quota), self._server.quotas
        return all(charged.get(quota, 0) + pod.size <= quotas[quota] for quota in path)

    def take(self, held: Territory, pod: SimPod) -> None:
        """A bind is decided."""
        if pod.quota and not held.owns_group(pod.group):
            self._taken[pod.name] = pod.quota

    def answered(self, name: str, is_bound: bool) -> None:
        """A bind was answered."""
        quota = self._taken.pop(name, None)
        if quota is not None and is_bound:
            self._used[quota] = self._used.get(quota, 0) + self._pods[name].size

    # ---- steps

    def view(self, member: ShardMember) -> RoomView:
        """For a step."""
        self._member, held, slots = member, member.territory, member.table.slots
        waiting: dict[str, list[int]] = {}
        for pod in self._pods.values():
            is_pending = pod.home and not pod.node and pod.name not in self._in_flight
            if is_pending and held.owns_group(pod.home) and not held.owns_group(pod.group):
                waiting.setdefault(pod.quota, []).append(pod.size)
        asks = {}
        for quota, sizes in waiting.items():
            missing = max(0, len(sizes) - max(0, self._left(quota)) // max(sizes))
            asks[quota] = RoomAsk(missing, Amounts.of({"cpu": max(sizes)}), 0)
        flying = {
            RoomKey(self._pods[name].quota, owner(self._pods[name].home, slots))
            for name in self._in_flight
            if self._pods[name].home
        }
        used = {quota: Amounts.of({"cpu": used}) for quota, used in self._used.items()}
        spare = frozenset(self._own.keys() - waiting.keys() - set(self._taken.values()))
        return RoomView(asks, used, spare, frozenset(), frozenset(flying), self._owner, self._lend)

    def _owner(self, quota: str) -> int:
        assert self._member is not None
        return owner(f"quota:{self._server.path(quota)[-1]}", self._member.table.slots)

    def _lend(self, key: RoomKey, room: QuotaRoom) -> int:
        charged, quotas, each = self.charged(), self._server.quotas, room.each.get("cpu")
        fitting = min((quotas[q] - charged.get(q, 0)) // each for q in self._server.path(key.quota))
        beside = sum(not p.node and p.quota == key.quota and p.name not in self._in_flight for p in self._pods.values())
        pods = pods_to_grant(room.asked, max(0, fitting), 0, max(0, beside - room.asked))
        self._lent[key.quota] = self._lent.get(key.quota, 0) + pods * each
        return pods

    def settled(self, member: ShardMember) -> None:
        """After a step."""
        self._own = {quota: granted.get("cpu") if granted else 0 for quota, granted in member.rooms.own.items()}
        for quota in self._used.keys() - self._own.keys():
            del self._used[quota]
        self._lent = {}
        for key, charge in member.rooms.lent.charges.items():
            self._lent[key.quota] = self._lent.get(key.quota, 0) + charge.used.get("cpu")
