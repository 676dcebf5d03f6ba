"""When the amounts of a node's NUMA zones are written: after the node's own, where they differ enough."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan

from cotenant.engine.manager.instructions import WriteZones
from cotenant.engine.manager.record import NodeRecord
from cotenant.engine.manager.zones import annotation_of_zones, changes, standing, zones_of
from cotenant.policy.overcommit.strategy import DEFAULTS, ColocationConfig, merge
from cotenant.policy.overcommit.writing import status_is_due


class ZoneWrites:
    """Of all nodes; what was sent is kept in each node's record."""

    def __init__(self, confirm_s: float, later: Callable[[str, float], None]) -> None:
        """`later`: look at a node again, at the latest then."""
        self._confirm_s, self._later = confirm_s, later

    def due(self, record: NodeRecord, config: ColocationConfig | None, now_s: float) -> list[WriteZones]:
        """The write that is due, if any."""
        zones, node = record.zones, record.node
        if zones is None or node is None or config is None:
            return []
        wanted = zones_of(record.facts(), record.computed, node.normalization, zones.seen)
        if wanted is None:
            return []
        zones.computed = wanted
        differing = changes(zones.seen, wanted)
        if not differing:
            zones.sent = None
            return []
        if zones.sent == differing and now_s - zones.sent_s < self._confirm_s:
            return []  # on its way
        view = record.computed.view
        strategy = merge(DEFAULTS, view.strategy if view is not None else DEFAULTS)
        max_s = float(strategy.update_time_threshold_seconds or 0)
        since_s = zones.written_s if isnan(zones.written_s) else now_s - zones.written_s
        after = {f"{zone}/{amount.resource}": amount.value for zone, amounts in wanted.items() for amount in amounts}
        if not status_is_due(standing(zones.seen), after, strategy.resource_diff_threshold or 0.0, since_s, max_s):
            self._later(record.name, zones.written_s + max_s + 1.0)
            return []
        zones.sent, zones.sent_s, zones.written_s = differing, now_s, now_s
        self._later(record.name, now_s + self._confirm_s)
        return [WriteZones(record.name, differing, annotation_of_zones(wanted))]
