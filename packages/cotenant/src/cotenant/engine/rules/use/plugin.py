"""The plugin of predicted use: passes time, nodes, the identities of pods and events between the engine and the rule.

Row judgements are in the node rule (engine/rules/use/rules.py), events in this plugin.
Limits: the start time of a pod is read when it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rules.use.rules import NAME, PredictedUse
from cotenant.model.cluster.node import Node
from cotenant.model.errors import Permanent


class PredictedUsePlugin(Plugin):
    """Connects one rule to the engine."""

    name = NAME
    events = MappingProxyType(
        {
            NAME: frozenset(
                {
                    EventKind.NODE_ADDED,
                    EventKind.NODE_CHANGED,
                    EventKind.NODE_LOAD,
                    EventKind.POD_CHANGED,
                    EventKind.POD_GONE,
                }
            )
        }
    )

    def __init__(self, rules: PredictedUse) -> None:
        self._rules = rules

    def attach(self, host: PluginHost) -> None:
        """Wake refused pods when a node can take more than before."""
        super().attach(host)
        self._rules.opened = lambda: host.happened(EventKind.NODE_LOAD)

    def node_changed(self, name: str, node: Node | None) -> None:
        """A node that offers lent resources switches the rule on."""
        if node is not None:
            self._rules.node_seen(node)

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        return self._rules.snapshot()

    def pod_arrived(self, entry: PodInfo) -> None:
        """Pass on the pod's identity and its start time from its status."""
        self._rules.arrived(entry.number, entry.seen.uid, entry.seen.started_s)

    def pod_left(self, entry: PodInfo) -> None:
        """The pod's measurements are dropped unless it arrives again before the next round."""
        self._rules.left(entry.number, entry.seen.uid)

    def turn(self, now_s: float) -> None:
        """Advance the clock."""
        self._rules.at(now_s)

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Check that every pod counts once the rule is awake. Raises `Permanent`."""
        if not self._rules.is_awake:
            return
        known = self._rules.numbers()
        missing = [entry.seen.pod.key for entry in pods.values() if entry.number not in known]
        if missing:
            raise Permanent(f"{len(missing)} pods do not count by predicted use, {missing[0]} among them")
