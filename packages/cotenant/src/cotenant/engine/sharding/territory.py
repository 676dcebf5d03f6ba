"""What one shard may decide at a moment: its nodes, and the groups of pods that are its own."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.policy.sharding.groups import node_of
from cotenant.policy.sharding.rendezvous import is_owned_in_all


@dataclass(frozen=True, slots=True)
class Territory:
    """A shard owns what it owns by every one of `rings`; without one it owns nothing."""

    slot: int
    rings: tuple[tuple[int, ...], ...] = ()
    away: frozenset[str] = frozenset()  # own nodes that another may bind to, or did until now
    borrowed: frozenset[str] = frozenset()

    def owns_node(self, node: str) -> bool:
        """Whether it may bind to a node."""
        if node in self.borrowed:
            return True
        return node not in self.away and is_owned_in_all(node, self.slot, self.rings)

    def owns_group(self, group: str) -> bool:
        """Whether it decides for the pods of a group."""
        return is_owned_in_all(node_of(group) or group, self.slot, self.rings)
