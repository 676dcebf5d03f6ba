"""A plugin with `filter` or `score` among the node rules of narrowing.

Pods of one round are placed one after the other before any of them is assigned, and each must be judged with those
before it. The plugin takes part as a node rule does: what is allocated there is `reserve` here, at once.
Limits: pods that such a plugin does not skip are placed one by one; it allocates nothing that is written with the bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.framework.node_view import NodeView
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.preference import PreferencePart


class PluginRules:
    """Implements `NodeRules` of engine/framework/node_rules.py by a plugin."""

    def __init__(self, plugin: Plugin) -> None:
        self.name = plugin.name
        self.entry_of: Callable[[int], PodInfo]  # by number; set by the assignments that use it
        self.plugin = plugin
        self._pods: dict[int, Pod] = {}
        self._nodes = NodeView(Encoder(1.0))

    def attach(self, encoder: Encoder) -> None:
        """See `NodeRules`."""
        self._nodes = NodeView(encoder)
        self._pods.clear()

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """It applies to pods that the plugin does not skip."""
        if self.plugin.skips(pod, demands):
            return False
        self._pods[number] = pod
        return True

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Pods hold nothing of it."""

    def rules(self, number: int) -> Iterator[RuleResult]:
        """See `Plugin.filter`."""
        found = self.plugin.filter(self._pods[number], self._nodes)
        if found is not None:
            yield found

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """See `Plugin.score`."""
        points = self.plugin.score(self._pods[number], self._nodes, rows)
        if points is None:
            return ()
        if points.shape != rows.shape:
            raise InvalidInput(
                f"score of plugin {self.name}", f"shape {points.shape}", f"one number for each of {len(rows)} rows"
            )
        return (PreferencePart(self.name, points),)

    def allocate(self, number: int, row: int) -> None:
        """See `Plugin.reserve`."""
        self.assign(number, row)

    def assign(self, number: int, row: int) -> None:
        """See `Plugin.reserve`."""
        self.plugin.reserve(self.entry_of(number), self._nodes.node(row).name)

    def unassign(self, number: int) -> None:
        """See `Plugin.unreserve`."""
        self.plugin.unreserve(self.entry_of(number))

    def remove_pod(self, number: int) -> None:
        """See `NodeRules`."""
        del self._pods[number]

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """Pods hold nothing of it."""
        return holds

    def validate(self) -> None:
        """The plugin validates itself."""
