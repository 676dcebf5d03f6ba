"""The part of the device rules that is not about nodes: a pod that contradicts itself is told so before anybody looks at nodes.

Limits: what the annotations say is checked where they are read (drivers/kube/kinds/pod_demands.py).
"""

from __future__ import annotations

from cotenant.engine.framework.plugin import Host, Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rules.devices.rules import PLUGIN, DeviceRules


class DeviceGate(Plugin):
    """Holds contradictory requests back, and passes on what was odd."""

    name = PLUGIN

    def __init__(self, rules: DeviceRules) -> None:
        self._rules = rules

    def attach(self, host: Host) -> None:
        """Begin anew."""
        super().attach(host)
        self._rules.nodes.count = host.count

    def gate(self, entry: PodInfo) -> str:
        """The contradiction."""
        return self._rules.obstacle(entry.number)
