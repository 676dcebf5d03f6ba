"""Events of the CPU rule for the engine: topology changes, and counts of inconsistencies.

Pods that wait for CPUs must be tried again when a node reports more of them, and a node rule cannot raise events. A
plugin that the CPU rule calls.
Limits: every pod refused for CPUs is woken, not only those of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement.cpus.needs import cpu_need


class CpuUpdates(Plugin):
    """Raises topology events and counts inconsistencies. `need_of`: the CPU need of a pod, by its number;
    `snapshot`: that of the rule.
    """

    def __init__(
        self, name: str, need_of: Callable[[int], Hashable], snapshot: Callable[[], Callable[[], None]]
    ) -> None:
        self.name = name
        self.events = {
            name: frozenset(
                {
                    EventKind.NODE_ADDED,
                    EventKind.NODE_CHANGED,
                    EventKind.POD_CHANGED,
                    EventKind.POD_GONE,
                    EventKind.TOPOLOGY,
                }
            )
        }
        self._snapshot = snapshot
        self._need_of = need_of
        self._host: PluginHost | None = None

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """Pods that share CPUs."""
        return cpu_need(pod, demands) is None

    def sign(self, entry: PodInfo) -> Hashable:
        """The CPU need: the pod's class decides whether it gets exclusive CPUs."""
        return self._need_of(entry.number)

    def attach(self, host: PluginHost) -> None:
        """Set the receiver of events and counts."""
        self._host = host

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        return self._snapshot()

    def changed(self) -> None:
        """Wake the pods that were refused for CPUs."""
        if self._host is not None:
            self._host.happened(EventKind.TOPOLOGY)

    def odd(self, what: str) -> None:
        """Count an inconsistency."""
        if self._host is not None:
            self._host.count(what)
