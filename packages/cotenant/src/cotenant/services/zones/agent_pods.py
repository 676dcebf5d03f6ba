"""Pods of zones in this node's virtual machines, as far as objectives go: asked for at the trace process, their signals
kept for the keeper that runs the zones.

Their groups are a guest's, so they are no pods of the engine: the guard here could do nothing for them, and the zone's
own loop does. Which they are is read from the zones' state files, as metrics do; their signals are kept as those of
other replicas, and are on `/v1/state` beside the zone's and the pod's names.
Limits: services only; a pod of a machine that started a moment ago is asked for at the next discovery.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.engine.node.replica_signals import ReplicaSignals
from cotenant.model.machine.replica_signal import ReplicaSignal
from cotenant.services.zones.state_file import read_states


class ZonePodPage(msgspec.Struct, frozen=True):
    """One of `/v1/state`. `name`: namespace/name in spans."""

    zone: str
    pod: str
    uid: str
    name: str
    ready: bool
    signals: tuple[ReplicaSignal, ...] = ()


@dataclass(frozen=True, slots=True)
class _ZonePod:
    zone: str
    pod: str
    uid: str
    name: str
    ready: bool


class ZonePods:
    """Those of the zones in this folder. `folder`: asked each time, since a reload may change it."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._signals = ReplicaSignals()
        self._asked: list[_ZonePod] = []

    def traced(self) -> list[tuple[str, str]]:
        """Look for them; name and UID of each. Signals of others are dropped, and not taken from now on."""
        self._asked = self._pods()
        self._signals.keep(pod.uid for pod in self._asked)
        return [(pod.name, pod.uid) for pod in self._asked]

    def reported(self, uid: str, signal: ReplicaSignal, now_us: int) -> bool:
        """Keep a signal; whether a pod here has this UID. Raises `InvalidInput`."""
        if uid not in {pod.uid for pod in self._asked}:
            return False
        self._signals.reported(uid, signal, now_us)
        return True

    def withdrawn(self, name: str, objective: str) -> None:
        """The objective no longer concerns the pods of this name."""
        for pod in self._asked:
            if name in (pod.name, pod.uid):
                self._signals.withdrawn(pod.uid, objective)

    def page(self, now_us: int) -> tuple[ZonePodPage, ...]:
        """All, with their signals."""
        return tuple(
            ZonePodPage(pod.zone, pod.pod, pod.uid, pod.name, pod.ready, self._signals.of(pod.uid, now_us))
            for pod in self._pods()
        )

    def _pods(self) -> list[_ZonePod]:
        return [
            _ZonePod(state["zone"], name, pod["uid"], f"{pod['namespace']}/{pod['fullName']}", pod["ready"])
            for state in read_states(self._folder())
            if state["running"]
            for name, pod in state.get("pods", {}).items()
            if pod.get("kind") == "service" and pod.get("uid")
        ]
