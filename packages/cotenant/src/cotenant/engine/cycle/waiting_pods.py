"""Pods that hold a node without being bound, because a plugin does not permit it yet.

Permit may return "wait", and the pod must keep its node, its decision record and its place in every count until a
plugin allows or rejects it. The pod is in state WAITING and its record is kept here; the plugin that delays it decides
when (`allow`, `reject`).
Source: kube-scheduler's waiting pods map.
Limits: time-outs are the plugin's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.model.decisions.record import DecisionRecord

Send = Callable[[PodInfo, DecisionRecord, int, float], None]  # the int: how many are bound in the same step


class WaitingPods:
    """Pods that wait for a permit."""

    def __init__(self, components: ClusterComponents, pods: Pods, outbox: Outbox, send: Send) -> None:
        self._components = components
        self._pods = pods
        self._outbox = outbox
        self._send = send
        self.records: dict[str, DecisionRecord] = {}  # uid -> record of its placement
        self.untold: list[PodInfo] = []  # who was told nothing about it yet

    def remember(self, entry: PodInfo, record: DecisionRecord) -> None:
        """Keep the record of a pod that has a node and is not bound yet."""
        self.records[entry.seen.uid] = record
        self.untold.append(entry)

    def tell(self) -> None:
        """Say for what those wait that got a node in this round and are not bound in it."""
        untold, self.untold = self.untold, []
        for entry in untold:
            record = self.records.get(entry.seen.uid)
            if record is not None and entry.state is SchedulingState.WAITING:
                message = f"It holds {entry.node} and waits for the rest of its gang."
                self._outbox.waits(entry, message, record, held=True)

    def allow(self, entries: Sequence[PodInfo], together: int, now_s: float) -> None:
        """Bind these pods; `together`: number of pods bound in this step."""
        for entry in entries:
            entry.move(SchedulingState.ASSUMED, now_s)
            for call in entry.calls.allowed:
                call(entry)
            record = self.records.pop(entry.seen.uid, None) or self._pods.record(entry, "", now_s)
            self._send(entry, record, together, now_s)

    def reject(self, entry: PodInfo, event: str, now_s: float) -> None:
        """The pod gives its node back and waits again."""
        self.records.pop(entry.seen.uid, None)
        self._pods.give_back(entry, now_s, event)

    def preempted(self, uid: str, now_s: float) -> None:
        """A pod was selected as a victim: if it is not bound yet, it is unassigned instead of evicted."""
        entry = self._pods.by_uid.get(uid)
        if entry is not None and entry.state is SchedulingState.WAITING:
            self._unassign(entry, now_s)

    def spare(self, victims: Sequence[str], now_s: float) -> None:
        """Unassign the victims of this round whose binds are of this round too, instead of evicting them: nobody was
        told of either. A bind that was fetched may be under way, so its pod is evicted.
        """
        untold = {said.uid for said in self._outbox.pending if isinstance(said, Bind)}
        for uid in victims:
            entry = self._pods.by_uid.get(uid)
            if entry is None:
                continue
            if entry.state is SchedulingState.WAITING or (entry.state is SchedulingState.ASSUMED and uid in untold):
                self._outbox.withdraw(uid)
                self._components.nominations.forget_asked(uid)
                self._unassign(entry, now_s)

    def _unassign(self, entry: PodInfo, now_s: float) -> None:
        self.reject(entry, "Preempted", now_s)
        self._pods.nominated.wake_preemptors(self._components.nominations.victim_gone(entry.seen.uid), now_s)

    def forget_gone(self) -> None:
        """Drop the records of pods that wait for no permit any more."""
        if self.records:
            pods = self._pods.by_uid
            waiting = {uid for uid in self.records if uid in pods and pods[uid].state is SchedulingState.WAITING}
            self.records = {uid: record for uid, record in self.records.items() if uid in waiting}
