"""The plugin: requests of batch pods on a node are at most what it lends for the longest of the stay.

A node's lent amount holds for the next hour. Under `cpuCalculatePolicy: predicted` its annotation says too what holds
for 4 and for 24 hours (`holds`); a pod that is expected to stay longer than an hour counts against that, beside all
batch requests on the node. A pod whose stay is not known counts as one that stays for the longest. A resource that a
node's annotation does not name is judged by its amount only, and where no node has such an annotation the plugin skips
every pod.
Limits: batch pods are placed one by one while it is awake; a pod that was placed for a day is not moved when a later
annotation says less.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from math import inf, isnan
from types import MappingProxyType

import numpy as np

from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.framework.node_view import NodeView
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.stays.stays import Stays, owner_of
from cotenant.model.arrays import Int
from cotenant.model.cluster.annotations import LENT_TERMS
from cotenant.model.cluster.demands import Demands
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import json_object
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY

NAME = "LentForStay"
REASON = "node(s) lend too little for as long as the pod stays"
HOUR_S, _LOOK_S = 3600.0, 60.0
_NAMES = {"batch-cpu": BATCH_CPU, "batch-memory": BATCH_MEMORY}
_UNLIMITED = 1 << 60

Holds = dict[tuple[str, int], int]  # resource, hours -> amount


class LentForStay(Plugin):
    """Sums of batch requests by node, and what holds there for how long."""

    name = NAME
    events = MappingProxyType({NAME: frozenset({EventKind.NODE_ADDED, EventKind.NODE_CHANGED, EventKind.POD_GONE})})

    def __init__(self) -> None:
        self._holds: dict[str, Holds] = {}  # by node
        self._hours: list[int] = []  # of any node
        self._read: dict[str, str] = {}  # by node: the annotation that was read
        self.stays = Stays()
        self._now_s = 0.0  # 0 = no turn since it woke
        self.is_idle = True
        self.attach(self.host)

    def attach(self, host: PluginHost) -> None:
        """See `Plugin`."""
        super().attach(host)
        self._on: dict[str, tuple[str, float, str]] = {}  # uid -> node, since when, owner
        self._asks: dict[str, tuple[int, int]] = {}  # uid -> batch-cpu, batch-memory
        self._owners: dict[str, str] = {}  # pod's key -> owner
        self._sums: dict[str, list[int]] = {}  # by node
        self._rows: Mapping[str, int] = {}
        self._rooms: dict[tuple[str, int], Int] = {}  # [N] by resource and hours, without the sums
        self._held: Int = np.zeros((0, 2), dtype=np.int64)  # [N, 2] sums; as old as the rooms

    def capture(self) -> Callable[[], LentForStay]:
        """See `Plugin`."""
        holds, stays = {node: dict(known) for node, known in self._holds.items()}, self.stays
        kept, now_s, hours, read = stays.captured(), self._now_s, list(self._hours), dict(self._read)

        def make() -> LentForStay:
            made = LentForStay()
            made._holds, made._hours, made._now_s = {node: dict(known) for node, known in holds.items()}, hours, now_s
            made._read = dict(read)
            made.is_idle = not made._holds
            made.stays = kept()
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`."""
        return Memento((self, self.stays)).restore

    # ---- facts

    def node_changed(self, name: str, node: Node | None) -> None:
        """What the node lends for longer."""
        written = (node.annotations.get(LENT_TERMS) or "") if node is not None and node.annotations else ""
        if self._read.get(name, "") == written:
            if node is None:
                self._rooms.clear()
            return
        was_asleep = not self._holds
        self._read[name] = written
        found = _holds_of(written)
        if found:
            self._holds[name] = found
        else:
            self._holds.pop(name, None)
        if not written:
            del self._read[name]
        self._hours = sorted({hours for holds in self._holds.values() for _, hours in holds})
        self._rooms.clear()
        self.is_idle = not self._holds
        if self.is_idle:
            self._now_s = 0.0
        elif was_asleep:
            self.host.unskip(self)

    def turn(self, now_s: float) -> None:
        """The engine's time."""
        self._now_s = max(self._now_s, now_s)

    def next_s(self) -> float:
        """An end is told without its time: the last turn is at most a minute before it."""
        return self._now_s + _LOOK_S if self._on else inf

    def pod_arrived(self, entry: PodInfo) -> None:
        """Whose it is."""
        self._owners[entry.seen.pod.key] = owner_of(entry.seen)

    def pod_left(self, entry: PodInfo) -> None:
        """It is gone, or will arrive again."""
        self._owners.pop(entry.seen.pod.key, None)

    def pod_ended(self, uid: str, seen: ObservedPod | None) -> None:
        """Its owner's pods stay for so long."""
        on = self._on.get(uid)
        if on is not None and on[1] <= self._now_s:
            self.stays.ended(on[2], self._now_s - on[1])
            self._on[uid] = (on[0], inf, on[2])  # told again, it teaches nothing

    # ---- points

    def skips(self, pod: Pod, demands: Demands) -> bool:
        """See `Plugin`."""
        return not self._holds or not any(pod.requests.get(name) > 0 for name in _NAMES.values())

    def sign(self, entry: PodInfo) -> Hashable:
        """Pods that stay for other times are not alike."""
        return self.hours_of(owner_of(entry.seen))

    def filter(self, pod: Pod, nodes: NodeView) -> RuleResult | None:
        """See `Plugin`."""
        hours = self.hours_of(self._owners.get(pod.key, ""))
        left = nodes.everywhere()
        for at, resource in enumerate(_NAMES.values()):
            asked = pod.requests.get(resource)
            if asked > 0 and hours > 1:
                left &= self._room(resource, hours, nodes) - self._held[:, at] >= asked
        return None if left.all() else RuleResult(NAME, f"{REASON} ({hours} h)", left, yields=False)

    def reserve(self, entry: PodInfo, node: str) -> None:
        """It counts on the node."""
        seen = entry.seen
        since_s = (self._now_s or inf) if isnan(seen.started_s) else seen.started_s  # inf: its stay teaches nothing
        self._on[seen.uid] = node, since_s, owner_of(seen)
        asks = self._asks[seen.uid] = (seen.pod.requests.get(BATCH_CPU), seen.pod.requests.get(BATCH_MEMORY))
        sums = self._sums.setdefault(node, [0, 0])
        for at, asked in enumerate(asks):
            sums[at] += asked
        self._count(node, asks)

    def unreserve(self, entry: PodInfo) -> None:
        """It no longer counts there."""
        on = self._on.pop(entry.seen.uid, None)
        asks = self._asks.pop(entry.seen.uid, (0, 0))
        if on is not None:
            for at, asked in enumerate(asks):
                self._sums[on[0]][at] -= asked
            self._count(on[0], (-asks[0], -asks[1]))
            if not any(self._sums[on[0]]):
                del self._sums[on[0]]

    def validate(self, pods: Mapping[str, PodInfo]) -> None:
        """See `Plugin`."""
        sums: dict[str, list[int]] = {}
        for uid, (node, _, _) in self._on.items():
            for at, asked in enumerate(self._asks[uid]):
                sums.setdefault(node, [0, 0])[at] += asked
        if {node: held for node, held in sums.items() if any(held)} != self._sums:
            raise Permanent("batch requests by node are not the sums over their pods")

    def hours_of(self, owner: str) -> int:
        """The horizon by which a pod of this owner is judged; 1 = by the node's amount alone."""
        known = self._hours
        if not known:
            return 1
        stay_s = self.stays.expected_s(owner)
        if stay_s is None:
            return known[-1]
        if stay_s <= HOUR_S:
            return 1
        return next((hours for hours in known if stay_s <= hours * HOUR_S), known[-1])

    def _room(self, resource: str, hours: int, nodes: NodeView) -> Int:
        count = len(nodes.everywhere())
        if count != len(self._held) or not self._rooms:
            self._rooms.clear()
            self._rows, self._held = nodes.rows, np.zeros((count, 2), dtype=np.int64)
            for name, sums in self._sums.items():
                self._count(name, (sums[0], sums[1]))
        room = self._rooms.get((resource, hours))
        if room is None:
            room = np.full(count, _UNLIMITED, dtype=np.int64)
            for name, holds in self._holds.items():
                row = nodes.rows.get(name)
                if row is not None and (resource, hours) in holds:
                    room[row] = holds[resource, hours]
            self._rooms[resource, hours] = room
        return room

    def _count(self, node: str, more: tuple[int, int]) -> None:
        row = self._rows.get(node)
        if row is not None and row < len(self._held):
            self._held[row] += more


def _holds_of(written: str) -> Holds:
    """Empty where the annotation has none, or cannot be read: then the amount alone counts."""
    if '"holds"' not in written:
        return {}
    try:
        table = json_object(LENT_TERMS, written).get("holds")
    except InvalidInput:
        return {}
    found: Holds = {}
    for short, amounts in table.items() if isinstance(table, dict) else ():
        for hours, amount in amounts.items() if isinstance(amounts, dict) and short in _NAMES else ():
            if hours.isdigit() and isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0:
                found[_NAMES[short], int(hours)] = amount
    return found
