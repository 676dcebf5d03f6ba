"""Nodes that have enough free storage for a volume to be provisioned.

A driver may publish how much storage each part of the cluster has left; a claim that is provisioned where there is too
little fails after its pod was placed. For a class and a size, the topologies of the CSIStorageCapacity objects that
suffice, as one node selector. The answer is kept per class and size, and the same object is given while its content is
the same, so that a published capacity that changes nothing changes no pod.
Limits: space that is promised to volumes not yet provisioned is not subtracted, as in kube-scheduler; the provisioner
refuses, and the pod is placed again.
Source: Kubernetes documentation, "Storage Capacity"; kube-scheduler's VolumeBinding plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

from cotenant.drivers.kube.kinds.selectors import read_label_selector
from cotenant.drivers.kube.kinds.storage.csi import CSIDriver, CSIStorageCapacity
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.observed import StorageRoom
from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import whole

_MAX_SIZES = 4096  # answers kept


class Capacities:
    """The drivers that publish their capacity, and the capacities."""

    def __init__(self) -> None:
        self._drivers: set[str] = set()
        self._by_class: dict[str, dict[str, CSIStorageCapacity]] = {}  # class -> key -> object
        self._class_of: dict[str, str] = {}  # key -> class
        self._rooms: dict[tuple[str, int], StorageRoom] = {}
        self._outdated: set[str] = set()  # classes whose answers must be checked again

    def put_driver(self, name: str, driver: CSIDriver | None) -> bool:
        """A driver as it is now; None = it is gone. Whether the check of its capacity was switched on or off."""
        tracked = driver is not None and driver.spec is not None and bool(driver.spec.storage_capacity)
        changed = tracked != (name in self._drivers)
        (self._drivers.add if tracked else self._drivers.discard)(name)
        return changed

    def put_capacity(self, key: str, capacity: CSIStorageCapacity | None) -> bool:
        """A capacity as it is now, by namespace/name; None = it is gone. Whether some driver's capacity is checked."""
        before = self._class_of.pop(key, None)
        if before is not None:
            del self._by_class[before][key]
            self._outdated.add(before)
        if capacity is not None:
            name = self._class_of[key] = capacity.storage_class_name
            self._by_class.setdefault(name, {})[key] = capacity
            self._outdated.add(name)
        return bool(self._drivers)

    def room(self, provisioner: str, storage_class: str, size: int) -> StorageRoom | None:
        """The nodes that reach `size` bytes of a class; None where the provisioner's capacity is not published."""
        if provisioner not in self._drivers:
            return None
        key = (storage_class, size)
        known = self._rooms.get(key)
        if known is not None and storage_class not in self._outdated:
            return known
        for element in [entry for entry in self._rooms if entry[0] == storage_class]:
            self._rooms[element] = self._keep_if_equal(self._rooms[element], element)
        self._outdated.discard(storage_class)
        if key not in self._rooms:
            if len(self._rooms) >= _MAX_SIZES:
                self._rooms.clear()
            self._rooms[key] = StorageRoom(self._selector(storage_class, size))
        return self._rooms[key]

    def _keep_if_equal(self, room: StorageRoom, key: tuple[str, int]) -> StorageRoom:
        selector = self._selector(*key)
        return room if room.nodes == selector else StorageRoom(selector)

    def _selector(self, storage_class: str, size: int) -> NodeSelector | None:
        terms: dict[NodeSelectorTerm, None] = {}
        for term in self._terms(storage_class, size):
            if not term.expressions:
                return None  # an empty topology selects every node
            terms[term] = None
        return NodeSelector(tuple(sorted(terms, key=repr)))

    def _terms(self, storage_class: str, size: int) -> Iterator[NodeSelectorTerm]:
        """The topologies with enough storage. An object that cannot be read offers none."""
        for key, capacity in self._by_class.get(storage_class, {}).items():
            most = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
            try:
                if most is None or whole(most, f"CSIStorageCapacity {key}") < size:
                    continue
                selector = read_label_selector(capacity.node_topology, f"CSIStorageCapacity {key}: nodeTopology")
            except InvalidInput:
                continue
            if selector is not None:  # no topology = no node
                yield NodeSelectorTerm(selector.requirements)
