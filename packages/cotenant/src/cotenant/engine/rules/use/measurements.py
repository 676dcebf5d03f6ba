"""What was measured of nodes and of pods, on the engine's clock.

Which measurements count: of a pod, by namespace/name, that is assigned to the measured node since before the
measurement; so neither a predecessor's nor a namesake's on another node. A history belongs to a UID; that of a pod
which this process has not measured continues the one that the node's agent reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from math import inf, isnan, nextafter

from cotenant.engine.rules.use.facts import CountedPod, MeasuredNode, PodRecord
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, NodeMetric, Use
from cotenant.policy.overcommit.predicted_use import (
    UNMEASURED,
    PredictedUseSettings,
    continued,
    predicted_use,
)

_SAME_S = 0.5  # measurements whose times differ by less are one


class NodeMeasurements:
    """The last measurement of each node, and a record of each pod. Times are on the engine's clock."""

    def __init__(self, settings: PredictedUseSettings) -> None:
        self.settings = settings
        self.now_s = -inf
        self.counts: dict[str, int] = {}  # inconsistencies, by name
        self._nodes: dict[str, MeasuredNode] = {}  # by name
        self._records: dict[str, PodRecord] = {}  # by UID
        self._left: set[str] = set()  # UIDs, until the next round: a pod whose labels change leaves and arrives again
        self._due: list[tuple[float, str]] = []  # when measurements become stale, by node's name

    def capture(self) -> Callable[[], NodeMeasurements]:
        """A maker of the same measurements, which reads nothing of these later."""
        settings, nodes, due, now_s = self.settings, dict(self._nodes), list(self._due), self.now_s
        records = {uid: replace(record) for uid, record in self._records.items()}

        def make() -> NodeMeasurements:
            made = NodeMeasurements(settings)
            made._nodes, made._due, made.now_s = nodes.copy(), due.copy(), now_s
            made._records = {uid: replace(record) for uid, record in records.items()}
            return made

        return make

    def parts(self) -> tuple[object, ...]:
        """The objects that a snapshot keeps."""
        return (self, *self._records.values())

    def of(self, node: str) -> MeasuredNode | None:
        """The last measurement of a node."""
        return self._nodes.get(node)

    def is_fresh(self, node: str) -> bool:
        """Whether a node has a measurement that is not stale."""
        measured = self._nodes.get(node)
        return measured is not None and measured.is_fresh

    def system(self, node: str) -> Use:
        """What the node's system uses; nothing where that is not measured."""
        measured = self._nodes.get(node)
        return NO_USE if measured is None else measured.system

    # ---- events

    def seen(self, metric: NodeMetric) -> bool:
        """A node's measurement; whether it is a new one."""
        before = self._nodes.get(metric.node)
        updated_s = self.now_s - metric.age_s
        if before is not None and abs(updated_s - before.updated_s) < _SAME_S:
            return False
        until_s = updated_s + self.settings.expires_s(metric.interval_s)
        pods = dict(metric.pods or {})
        self._nodes[metric.node] = MeasuredNode(
            updated_s, metric.interval_s, metric.system or NO_USE, pods, self.now_s < until_s
        )
        if self.now_s < until_s:
            heappush(self._due, (until_s, metric.node))
        return True

    def gone(self, node: str) -> bool:
        """The node is not measured any more; whether it was."""
        return self._nodes.pop(node, None) is not None

    def advance(self, now_s: float) -> Iterator[str]:
        """Advance the clock, which never goes back; the nodes whose measurement becomes stale, one after another."""
        self.now_s = max(self.now_s, now_s)
        while self._due and self._due[0][0] <= self.now_s:
            _, node = heappop(self._due)
            measured = self._nodes.get(node)
            if measured is None or not measured.is_fresh:
                continue
            if measured.updated_s + self.settings.expires_s(measured.interval_s) <= self.now_s:
                self._nodes[node] = measured._replace(is_fresh=False)
                yield node
        for uid in self._left:
            self._records.pop(uid, None)
        self._left.clear()

    def arrived(self, uid: str) -> None:
        """A pod is there, perhaps again."""
        self._left.discard(uid)

    def left(self, uid: str) -> None:
        """A pod is gone, or will arrive again before the next round."""
        self._left.add(uid)

    # ---- pods

    def identify(self, uid: str, pod: CountedPod) -> None:
        """This pod has this UID, and what was measured of it."""
        pod.record = self._records.setdefault(uid, pod.record)

    def allocated(self, pod: CountedPod, node: str) -> None:
        """The pod was placed on the node just now: no measurement includes it yet."""
        measured = self._nodes.get(node)
        after_s = -inf if measured is None else nextafter(measured.updated_s, inf)
        pod.record.node, pod.record.since_s, pod.record.history = node, max(self.now_s, after_s), UNMEASURED

    def assigned(self, pod: CountedPod, node: str) -> None:
        """The pod is assigned to the node, since its start or since it was first seen there."""
        record = pod.record
        if record.node != node or isnan(record.since_s):
            record.node = node
            record.since_s = self.now_s if isnan(pod.started_s) else pod.started_s
        self.sample(pod, node)

    def sample(self, pod: CountedPod, node: str) -> None:
        """Add what was measured of the pod to its history, once, and only where it is of this pod."""
        facts = self._nodes.get(node)
        if facts is None:
            return
        record, measured = pod.record, facts.pods.get(pod.key)
        if (
            measured is None
            or not facts.is_fresh
            or not facts.updated_s > record.since_s
            or record.sampled_s == facts.updated_s
        ):
            return
        record.sampled_s = facts.updated_s
        try:
            if measured.history is not None and not record.history.samples:  # this process has just started
                record.history = continued(measured.history, measured.use, facts.updated_s)
            else:
                record.history = record.history.measured(measured.use, facts.updated_s, self.settings)
        except InvalidInput:
            self.note("a pod's measured use is negative")

    def predicted(self, pod: CountedPod, node: str) -> Use:
        """The predicted use of a pod on this node."""
        return predicted_use(pod.request, pod.record.history, self.is_fresh(node), self.settings)

    def note(self, what: str) -> None:
        """Count an inconsistency."""
        if what in self.counts or len(self.counts) < 100:
            self.counts[what] = self.counts.get(what, 0) + 1
