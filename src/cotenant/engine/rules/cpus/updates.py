"""What the engine hears of CPUs: that nodes tell others than before, and what is odd.

Problem: pods that wait for CPUs must try again when a node tells more of them, and the keeper of CPUs stands where no event is sent. Choice: a plugin
that the keeper tells. Limits: it wakes all who were refused for CPUs, not those of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from cotenant.engine.framework.events import Event
from cotenant.engine.framework.plugin import Host, Plugin
from cotenant.engine.framework.pod_state import PodInfo


class CpuNews(Plugin):
    """Tells the engine that a node tells other CPUs, and counts what is odd. `need_of`: what a pod needs of CPUs, by its number."""

    def __init__(self, name: str, need_of: Callable[[int], Hashable]) -> None:
        self.name = name
        self._need_of = need_of
        self._host: Host | None = None

    def kind_of(self, entry: PodInfo) -> Hashable:
        """What it needs of CPUs: its class says whether it gets its own."""
        return self._need_of(entry.number)

    def attach(self, host: Host) -> None:
        """Whom to tell."""
        self._host = host

    def changed(self) -> None:
        """Pods that were refused for CPUs may try again."""
        if self._host is not None:
            self._host.happened(Event.TOPOLOGY)

    def odd(self, what: str) -> None:
        """Count it."""
        if self._host is not None:
            self._host.count(what)
