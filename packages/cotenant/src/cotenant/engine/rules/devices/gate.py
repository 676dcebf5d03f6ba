"""The device check that needs no node: a pod with contradictory device requests is rejected before any node is judged.

Limits: annotation values are validated where they are read (drivers/kube/kinds/pod/demands.py).
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rules.devices.rules import PLUGIN, DeviceRules
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.request import asks_devices


class DeviceGate(Plugin):
    """Holds back pods with contradictory requests, and forwards counts of inconsistencies."""

    name = PLUGIN

    def __init__(self, rules: DeviceRules) -> None:
        self._rules = rules

    def attach(self, host: PluginHost) -> None:
        """Set the receiver of counts."""
        super().attach(host)
        self._rules.nodes.count = host.count

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        return self._rules.snapshot()

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Pods without devices."""
        return not asks_devices(pod.requests)

    def pre_enqueue(self, entry: PodInfo) -> str:
        """The contradiction; empty for none."""
        return self._rules.obstacle(entry.number)
