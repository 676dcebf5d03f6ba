"""What load-aware placement needs of the engine beside rows: the time, pods' starts, and who is woken.

Choice: a plugin that hands these on; the keeper itself (engine/rules/load/rules.py) is asked as `NodeRules`. Limits: starts are taken when a pod is opened.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from cotenant.engine.framework.events import Event
from cotenant.engine.framework.plugin import Host, Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rules.load.rules import NAME, LoadAware
from cotenant.model.errors import Permanent


class LoadTurns(Plugin):
    """One keeper's hands."""

    name = NAME

    def __init__(self, keeper: LoadAware) -> None:
        self._keeper = keeper

    def attach(self, host: Host) -> None:
        """Refused pods are woken by a node that may take more than before."""
        super().attach(host)
        self._keeper.helped = lambda: host.happened(Event.NODE_LOAD)

    def pod_arrived(self, entry: PodInfo) -> None:
        """Since when it runs, where its status says so."""
        self._keeper.started(entry.number, entry.seen.started_s)

    def kind_of(self, entry: PodInfo) -> Hashable:
        """Pods that are expected to use different amounts are judged apart."""
        return self._keeper.ask_of(entry.seen.pod)

    def turn(self, now_s: float) -> None:
        """The time goes on."""
        self._keeper.at(now_s)

    def next_s(self) -> float:
        """When figures grow too old, where that opens a node."""
        return self._keeper.next_s()

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """The keeper watches these pods and no others. Raises `Permanent`."""
        known = self._keeper.numbers()
        missing = [entry.seen.pod.key for entry in pods.values() if entry.number not in known]
        if missing:
            raise Permanent(f"the load of {len(missing)} pods is not watched, of {missing[0]} among them")
