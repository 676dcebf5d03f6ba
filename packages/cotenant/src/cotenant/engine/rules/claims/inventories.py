"""What each node can use of the pools of devices, and how it is used now.

A node's pools are built from slices when first asked for, and again when a slice of one of them changes. Nodes without
slices of their own that see the same shared ones have one inventory. `marks` tells which inventories changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Int
from cotenant.model.claims.devices import DeviceId, PoolId, ResourceSlice, TaintRule
from cotenant.model.cluster.labels import Labels
from cotenant.policy.claims.allocator import DeviceUsage, counters_left
from cotenant.policy.claims.pools import DevicePool, pools_of, reaches

NOTHING = 0  # the inventory of a node without devices


@dataclass(slots=True, eq=False)
class PoolInventory:
    """The pools of one node, or of several that see the same. `stamp` changes with them."""

    pools: tuple[DevicePool, ...] = ()
    nodes: set[str] = field(default_factory=set)
    key: Hashable = None  # of one that several nodes may have
    stamp: int = 0
    _use: Hashable = None

    def use(self, usage: DeviceUsage) -> Hashable:
        """How its devices are used: a search has the same result as long as this is equal."""
        if self._use is None:
            found: list[Hashable] = []
            for pool in self.pools:
                for device in pool.devices:
                    if device.device.is_shared:
                        consumed = usage.consumed(device.id)
                        found.append(tuple(sorted(consumed.items())) if consumed is not None else None)
                    else:
                        found.append(usage.holds(device.id))
                if pool.counters:
                    found.append(tuple(counters_left(pool, usage).values()))
            self._use = tuple(found)
        return self._use

    def touch(self) -> None:
        """The use of a device changed."""
        self._use = None


class Inventories:
    """The inventories of all nodes."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.rules: dict[str, TaintRule] = {}
        self.all: list[PoolInventory] = [PoolInventory()]
        self.marks: Int = np.zeros(1, dtype=np.int64)
        self._by_pool: dict[PoolId, dict[str, ResourceSlice]] = {}
        self._by_node: dict[str, dict[str, ResourceSlice]] = {}  # slices that reach this node by its name
        self._shared: dict[str, ResourceSlice] = {}  # slices that may reach any node
        self._of_device: dict[DeviceId, set[int]] = {}  # -> inventories whose use it changes
        self._of_node: dict[str, int] = {}
        self._of_key: dict[Hashable, int] = {}
        self._unused: list[int] = []
        self._stale: set[str] = set()
        self._all_stale = False
        self._labels: dict[str, Labels] = {}
        self._encoder: Encoder | None = None
        self._revision = -1
        self._rows: Int = np.zeros(0, dtype=np.int64)
        self._stamps = 0

    def attach(self, encoder: Encoder) -> None:
        """Start again with these rows; slices stay."""
        self._encoder = encoder
        self._revision = -1

    # ---- facts

    def slice_seen(self, offered: ResourceSlice) -> None:
        """A slice was created or changed."""
        self.slice_gone(offered.name)
        self.slices[offered.name] = offered
        self._by_pool.setdefault(offered.pool_id, {})[offered.name] = offered
        nodes = _named(offered)
        if nodes is None:
            self._shared[offered.name] = offered
        for node in nodes or ():
            self._by_node.setdefault(node, {})[offered.name] = offered
        self._pool_changed(offered.pool_id)

    def slice_gone(self, name: str) -> None:
        """A slice was deleted, or cannot be read."""
        before = self.slices.pop(name, None)
        if before is None:
            return
        self._pool_changed(before.pool_id)
        del self._by_pool[before.pool_id][name]
        if not self._by_pool[before.pool_id]:
            del self._by_pool[before.pool_id]
        self._shared.pop(name, None)
        for node in _named(before) or ():
            del self._by_node[node][name]
            if not self._by_node[node]:
                del self._by_node[node]

    def rule_seen(self, rule: TaintRule) -> None:
        """A taint rule was created or changed."""
        if self.rules.get(rule.name) != rule:
            self.rules[rule.name] = rule
            self._all_stale = True

    def rule_gone(self, name: str) -> None:
        """A taint rule was deleted."""
        if self.rules.pop(name, None) is not None:
            self._all_stale = True

    def _pool_changed(self, pool_id: PoolId) -> None:
        for offered in self._by_pool[pool_id].values():
            nodes = _named(offered)
            if nodes is None:
                self._all_stale = True
            else:
                self._stale.update(nodes)

    def touched(self, device: DeviceId) -> None:
        """The use of a device changed."""
        for index in self._of_device.get(device, ()):
            self.all[index].touch()
            self.marks[index] += 1

    def nodes_of(self, device: DeviceId) -> Iterator[str]:
        """The nodes that can use a device."""
        for index in self._of_device.get(device, ()):
            yield from self.all[index].nodes

    # ---- rows

    def by_row(self) -> Int:
        """`int64[N]`: the inventory of each row, up to date."""
        encoder = self._encoder
        assert encoder is not None
        if encoder.labels_revision != self._revision:
            self._lay_out(encoder)
        if self._all_stale:
            self._stale.update(encoder.node_rows)
            self._all_stale = False
        if self._stale:
            for name in self._stale:
                row = encoder.node_rows.get(name)
                if row is not None:
                    self._rows[row] = self._build(name, encoder.node(row).labels)
            self._stale.clear()
        return self._rows

    def at(self, row: int) -> PoolInventory:
        """The inventory of a row."""
        return self.all[int(self.by_row()[row])]

    def name_of(self, row: int) -> str:
        """The node's name."""
        assert self._encoder is not None
        return self._encoder.node(row).name

    def row_of(self, name: str) -> int:
        """The row of a node, -1 = none."""
        return self._encoder.node_rows.get(name, -1) if self._encoder is not None else -1

    @property
    def size(self) -> int:
        """The number of rows."""
        assert self._encoder is not None
        return self._encoder.all_rows

    def _lay_out(self, encoder: Encoder) -> None:
        """Nodes were added or removed, or labels changed."""
        self._revision = encoder.labels_revision
        for name in [name for name in self._of_node if name not in encoder.node_rows]:
            self._leave(name)
            self._labels.pop(name, None)
        self._rows = np.zeros(encoder.all_rows, dtype=np.int64)
        for name, row in encoder.node_rows.items():
            labels = encoder.node(row).labels
            known = self._labels.get(name)
            if known is None or (known is not labels and known != labels and self._shared):
                self._stale.add(name)
            self._labels[name] = labels
            self._rows[row] = self._of_node.get(name, NOTHING)

    def _build(self, name: str, labels: Labels) -> int:
        """The inventory of a node, built from its slices as they are now."""
        own = self._by_node.get(name)
        shared = [offered for offered in self._shared.values() if _may_use(offered, name, labels)]
        if not own and not shared:
            self._leave(name)
            return NOTHING
        offered = {**(own or {}), **{found.name: found for found in shared}}
        for pool_id in {found.pool_id for found in offered.values()}:
            for found in self._by_pool[pool_id].values():
                if found.counters:
                    offered[found.name] = found
        if own:
            self._leave(name)
            return self._add(name, None, self._pools(name, labels, offered.values()))
        pools = self._pools(name, labels, offered.values())
        key: Hashable = tuple(
            (pool.id, pool.state, tuple((id(device.device), device.taints) for device in pool.devices))
            for pool in pools
        )
        known = self._of_key.get(key)
        if known is not None and self._of_node.get(name) == known:
            return known
        self._leave(name)
        if known is not None:
            self.all[known].nodes.add(name)
            self._of_node[name] = known
            return known
        return self._add(name, key, pools)

    def _pools(self, name: str, labels: Labels, offered: Iterable[ResourceSlice]) -> tuple[DevicePool, ...]:
        return pools_of(
            name,
            labels,
            offered,
            lambda pool_id: tuple(self._by_pool.get(pool_id, {}).values()),
            tuple(self.rules.values()),
        )

    def _add(self, name: str, key: Hashable, pools: tuple[DevicePool, ...]) -> int:
        self._stamps += 1
        made = PoolInventory(pools, {name}, key, self._stamps)
        if self._unused:
            index = self._unused.pop()
            self.all[index] = made
        else:
            index = len(self.all)
            self.all.append(made)
            if index >= len(self.marks):
                self.marks = np.concatenate([self.marks, np.zeros(max(64, len(self.marks)), dtype=np.int64)])
        self.marks[index] += 1
        self._of_node[name] = index
        if key is not None:
            self._of_key[key] = index
        for pool in pools:
            for device in (*pool.devices, *(pool.elsewhere if pool.counters else ())):
                self._of_device.setdefault(device.id, set()).add(index)
        return index

    def _leave(self, name: str) -> None:
        index = self._of_node.pop(name, NOTHING)
        if index == NOTHING:
            return
        inventory = self.all[index]
        inventory.nodes.discard(name)
        if inventory.nodes:
            return
        if inventory.key is not None:
            del self._of_key[inventory.key]
        for pool in inventory.pools:
            for device in (*pool.devices, *(pool.elsewhere if pool.counters else ())):
                users = self._of_device.get(device.id)
                if users is not None:
                    users.discard(index)
                    if not users:
                        del self._of_device[device.id]
        self.all[index] = PoolInventory()
        self.marks[index] += 1
        self._unused.append(index)


def _named(offered: ResourceSlice) -> tuple[str, ...] | None:
    """The nodes that a slice reaches by their names; None = others too."""
    if offered.reach is not None:
        return (offered.reach.node,) if offered.reach.node else None
    names = [device.reach.node if device.reach is not None else "" for device in offered.devices]
    return tuple(dict.fromkeys(names)) if names and all(names) else None


def _may_use(offered: ResourceSlice, node: str, labels: Labels) -> bool:
    if offered.counters:
        return False  # added with the other slices of its pool
    if offered.reach is not None:
        return reaches(offered.reach, node, labels)
    return any(device.reach is not None and reaches(device.reach, node, labels) for device in offered.devices)
