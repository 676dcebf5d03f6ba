"""What a node's own annotations say of its load: thresholds instead of the cluster's, and its raw size."""

from __future__ import annotations

from cotenant.model.cluster.annotations import RAW_ALLOCATABLE, USAGE_THRESHOLDS
from cotenant.model.cluster.node import Node
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import Use
from cotenant.policy.placement.load_aware.custom import node_thresholds, raw_allocatable
from cotenant.policy.placement.load_aware.settings import NO_THRESHOLDS, NodeThresholds

_MAX_REMEMBERED = 4096
_MAX_COUNTED = 100


class LoadAnnotations:
    """Reads them, each text once. Those that cannot be read are counted in `counts`; the cluster's settings apply."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts
        self._known: dict[tuple[str | None, str | None], tuple[NodeThresholds, Use | None]] = {}

    def of(self, node: Node) -> tuple[NodeThresholds, Use | None]:
        """The thresholds and the raw size; none where there is no annotation."""
        if not node.annotations:
            return NO_THRESHOLDS, None
        key = node.annotations.get(USAGE_THRESHOLDS), node.annotations.get(RAW_ALLOCATABLE)
        found = self._known.get(key)
        if found is None:
            own, raw = NO_THRESHOLDS, None
            try:
                own = node_thresholds(key[0]) if key[0] is not None else own
                raw = raw_allocatable(key[1]) if key[1] is not None else raw
            except InvalidInput as error:
                self._count(f"{error.field} cannot be read")
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.clear()
            found = self._known[key] = own, raw
        return found

    def _count(self, what: str) -> None:
        if what in self._counts or len(self._counts) < _MAX_COUNTED:
            self._counts[what] = self._counts.get(what, 0) + 1
