"""The plugin of load-aware placement: passes time, pod start times and load events between the engine and the load
rule.

Row judgements are in the node rule (engine/rules/load/rules.py), events in this plugin.
Limits: the start time of a pod is read when it arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rules.load.rules import NAME, LoadAware
from cotenant.model.errors import Permanent


class LoadPlugin(Plugin):
    """Connects one load rule to the engine."""

    name = NAME
    events = MappingProxyType(
        {
            NAME: frozenset(
                {
                    EventKind.NODE_ADDED,
                    EventKind.NODE_CHANGED,
                    EventKind.NODE_LOAD,
                    EventKind.POD_CHANGED,  # one that was resized is expected to use less
                    EventKind.POD_GONE,
                }
            )
        }
    )

    def __init__(self, rules: LoadAware) -> None:
        self._rules = rules

    def attach(self, host: PluginHost) -> None:
        """Wake refused pods when a node can take more than before."""
        super().attach(host)
        self._rules.opened = lambda: host.happened(EventKind.NODE_LOAD)

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        return self._rules.snapshot()

    def pod_arrived(self, entry: PodInfo) -> None:
        """Pass on the start time from the pod's status."""
        self._rules.started(entry.number, entry.seen.started_s)

    def sign(self, entry: PodInfo) -> Hashable:
        """Pods with different load estimates are judged separately."""
        return self._rules.ask_of(entry.seen.pod)

    def turn(self, now_s: float) -> None:
        """Advance the clock."""
        self._rules.at(now_s)

    def next_s(self) -> float:
        """When figures expire, where that opens a node."""
        return self._rules.next_s()

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """Check that every pod is watched. Raises `Permanent`."""
        known = self._rules.numbers()
        missing = [entry.seen.pod.key for entry in pods.values() if entry.number not in known]
        if missing:
            raise Permanent(f"{len(missing)} pods are not watched by the load rule, {missing[0]} among them")
