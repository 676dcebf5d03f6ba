"""What one shard may decide at a moment: its nodes, and the groups of pods that are its own."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.shards.table import RoomFor, RoomKey
from cotenant.policy.sharding.groups import node_of
from cotenant.policy.sharding.rendezvous import is_owned_in_all, owner


@dataclass(frozen=True, slots=True)
class Territory:
    """A shard owns what it owns by every one of `rings`; without one it owns nothing."""

    slot: int
    rings: tuple[tuple[int, ...], ...] = ()
    away: frozenset[str] = frozenset()  # own nodes that another may bind to, or did until now
    borrowed: frozenset[str] = frozenset()
    rooms: frozenset[RoomFor] = frozenset()  # of quotas of other shards, lent to this one
    rooms_away: frozenset[RoomKey] = frozenset()  # lent to others, or until now

    def owns_node(self, node: str) -> bool:
        """Whether it may bind to a node."""
        if node in self.borrowed:
            return True
        return node not in self.away and is_owned_in_all(node, self.slot, self.rings)

    def owns_group(self, group: str) -> bool:
        """Whether it decides for the pods of a group."""
        return is_owned_in_all(node_of(group) or group, self.slot, self.rings)

    def lends(self, of: RoomFor, home: str) -> bool:
        """Whether another decides, by room that it was lent, for such pods of a quota and of a workload's group."""
        key = node_of(home) or home
        return any(RoomKey(of, owner(key, ring)) in self.rooms_away for ring in self.rings)
