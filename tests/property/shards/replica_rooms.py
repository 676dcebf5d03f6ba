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
from cotenant.model.shards.table import QuotaRoom, RoomFor, RoomKey
from cotenant.policy.sharding.borrowing import pods_to_grant
from cotenant.policy.sharding.rendezvous import owner


def room_of(pod: SimPod) -> RoomFor:
    """By which a pod may be decided elsewhere."""
    return RoomFor(pod.quota, not pod.held, pod.gang)


def decides(held: Territory, pod: SimPod) -> bool:
    """Whether a shard with this territory decides for a pod."""
    if held.owns_group(pod.group):
        return not (pod.home and held.lends(room_of(pod), pod.home))
    return bool(pod.home) and room_of(pod) in held.rooms and held.owns_group(pod.home)


class Charged:
    """What counts of each quota: of all pods, and of those that nobody may preempt."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.used: dict[str, int] = {}
        self.held: dict[str, int] = {}

    def add(self, of: RoomFor, amount: int) -> None:
        """More is used."""
        for name in self._server.path(of.quota):
            self.used[name] = self.used.get(name, 0) + amount
            self.held[name] = self.held.get(name, 0) + (0 if of.preemptible else amount)

    def left(self, of: RoomFor) -> int:
        """What may still be admitted."""
        path, server = self._server.path(of.quota), self._server
        left = min(server.quotas[name] - self.used.get(name, 0) for name in path)
        if not of.preemptible:
            left = min(left, *(server.minima.get(name, 0) - self.held.get(name, 0) for name in path))
        return left

    def copy(self) -> Charged:
        """As it is now."""
        made = Charged(self._server)
        made.used, made.held = dict(self.used), dict(self.held)
        return made


class ReplicaRooms:
    """Of one process; `pods` and `in_flight` are what it knows."""

    def __init__(self, server: Server, pods: Mapping[str, SimPod], in_flight: Mapping[str, tuple[str, int]]) -> None:
        self._server = server
        self._pods = pods
        self._in_flight = in_flight
        self._own: dict[RoomFor, int] = {}  # granted
        self._used: dict[RoomFor, int] = {}
        self._taken: dict[str, RoomFor] = {}  # pod -> by borrowed room, not answered
        self._lent: dict[RoomFor, int] = {}
        self._member: ShardMember | None = None

    def group(self, name: str) -> str:
        """The group of a bind under way."""
        return self._pods[name].home if name in self._taken else self._pods[name].group

    def charged(self) -> Charged:
        """What counts as used of each quota."""
        found = Charged(self._server)
        for pod in self._pods.values():
            if pod.quota and not pod.has_ended and (pod.node or pod.name in self._in_flight):
                found.add(room_of(pod), pod.size)
        for of, lent in self._lent.items():
            found.add(of, lent)
        return found

    def _left(self, of: RoomFor) -> int:
        taken = sum(self._pods[name].size for name, room in self._taken.items() if room == of)
        return self._own.get(of, 0) - self._used.get(of, 0) - taken

    def admits(self, held: Territory, pod: SimPod, charged: Charged, beside: int) -> bool:
        """Whether a pod fits into its quotas, or into what is borrowed, which alone counts then, beside what was chosen
        of its gang already.
        """
        if not pod.quota:
            return True
        if not held.owns_group(pod.group):
            return pod.size + beside <= self._left(room_of(pod))
        return pod.size <= charged.left(room_of(pod))

    def take(self, held: Territory, pod: SimPod) -> None:
        """A bind is decided."""
        if pod.quota and not held.owns_group(pod.group):
            self._taken[pod.name] = room_of(pod)

    def answered(self, name: str, is_bound: bool) -> None:
        """A bind was answered."""
        of = self._taken.pop(name, None)
        if of is not None and is_bound:
            self._used[of] = self._used.get(of, 0) + self._pods[name].size

    # ---- steps

    def _waiting(self) -> dict[RoomFor, list[SimPod]]:
        found: dict[RoomFor, list[SimPod]] = {}
        for pod in self._pods.values():
            if pod.home and not pod.node and pod.name not in self._in_flight:
                found.setdefault(room_of(pod), []).append(pod)
        return found

    def view(self, member: ShardMember) -> RoomView:
        """For a step."""
        self._member, held, slots = member, member.territory, member.table.slots
        asks = {}
        for of, pods in self._waiting().items():
            ours = [pod for pod in pods if held.owns_group(pod.home) and not held.owns_group(pod.group)]
            if not ours:
                continue
            if of.gang:
                missing = sum(pod.size for pod in ours) - max(0, self._left(of))
                asks[of] = RoomAsk(int(missing > 0), Amounts.of({"cpu": max(0, missing)}), 0)
            else:
                largest = max(pod.size for pod in ours)
                covered = max(0, self._left(of)) // largest
                asks[of] = RoomAsk(max(0, len(ours) - covered), Amounts.of({"cpu": largest}), 0)
        flying = {
            RoomKey(room_of(self._pods[name]), owner(self._pods[name].home, slots))
            for name in self._in_flight
            if self._pods[name].home
        }
        used = {of: Amounts.of({"cpu": used}) for of, used in self._used.items()}
        spare = frozenset(self._own.keys() - asks.keys() - set(self._taken.values()))
        return RoomView(asks, used, spare, frozenset(), frozenset(flying), self._owner, self._lend)

    def _owner(self, quota: str) -> int:
        assert self._member is not None
        return owner(f"quota:{self._server.path(quota)[-1]}", self._member.table.slots)

    def _lend(self, key: RoomKey, room: QuotaRoom) -> int:
        each, waiting = room.each.get("cpu"), self._waiting().get(key.of, [])
        if key.of.gang and not room.is_lent and not self._is_whole(key.of, each, waiting):
            return 0
        fitting = max(0, self.charged().left(key.of)) // each
        beside = 0 if key.of.gang else max(0, len(waiting) - room.asked)
        pods = pods_to_grant(room.asked, fitting, beside)
        self._lent[key.of] = self._lent.get(key.of, 0) + pods * each
        return pods

    def _is_whole(self, of: RoomFor, each: int, waiting: list[SimPod]) -> bool:
        """Whether all of a gang waits here, and it is what is asked for; or it has begun, and this is the rest."""
        size = int(of.gang.partition("x")[2])
        begun = any(pod.gang == of.gang and pod.node for pod in self._pods.values())
        return each == sum(pod.size for pod in waiting) and (begun or len(waiting) >= size)

    def settled(self, member: ShardMember) -> None:
        """After a step."""
        self._own = {of: granted.get("cpu") if granted else 0 for of, granted in member.rooms.own.items()}
        for of in self._used.keys() - self._own.keys():
            del self._used[of]
        self._lent = {}
        for key, charge in member.rooms.lent.charges.items():
            self._lent[key.of] = self._lent.get(key.of, 0) + charge.used.get("cpu")
