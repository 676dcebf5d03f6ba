"""Anomaly detector: a node is overloaded only after several rounds in a row.

One high sample must not move pods. Two states and two counters. More than `abnormal` abnormal marks in a row make the
node anomalous; it becomes normal again after more than `normal` normal marks in a row, after `timeout_s` in the
anomalous state, or by `reset`. A change of state clears both counters. Difference from upstream: a reset always clears
the counters; upstream does so only when it changes the state, so marks before a calm spell still count there.
Source: Koordinator, pkg/descheduler/utils/anomaly/basic_detector.go.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnomalyCondition:
    """How many marks in a row more than which change the state, and for how long a node may stay anomalous without
    marks.
    """

    abnormal: int = 5
    normal: int = 3
    timeout_s: float = 60.0

    @property
    def is_immediate(self) -> bool:
        """Whether one abnormal round suffices (a setting of 1, as upstream)."""
        return self.abnormal <= 1


class Detector:
    """The detector of one node."""

    def __init__(self, condition: AnomalyCondition) -> None:
        self._condition = condition
        self._anomalous = False
        self._entered_s = 0.0
        self._abnormal = 0
        self._normal = 0

    def is_anomalous(self, now_s: float) -> bool:
        """The state now."""
        if self._anomalous and now_s - self._entered_s >= self._condition.timeout_s:
            self._change(False, now_s)
        return self._anomalous

    def mark(self, *, normal: bool, now_s: float) -> bool:
        """Record one round; returns whether the node is anomalous now."""
        self.is_anomalous(now_s)
        if normal:
            self._normal, self._abnormal = self._normal + 1, 0
            if self._anomalous and self._normal > self._condition.normal:
                self._change(False, now_s)
        else:
            self._abnormal, self._normal = self._abnormal + 1, 0
            if not self._anomalous and self._abnormal > self._condition.abnormal:
                self._change(True, now_s)
        return self._anomalous

    def reset(self, now_s: float) -> None:
        """Normal, with cleared counters."""
        self._change(False, now_s)

    def _change(self, anomalous: bool, now_s: float) -> None:
        self._anomalous, self._entered_s = anomalous, now_s
        self._abnormal = self._normal = 0


class Detectors:
    """The detectors of all nodes, by name."""

    def __init__(self, condition: AnomalyCondition | None) -> None:
        """None = a node is overloaded as soon as it is above a threshold."""
        self._condition = condition
        self._by_node: dict[str, Detector] = {}

    def mark(self, node: str, now_s: float) -> bool:
        """Record that the node is above a threshold in this round; returns whether it counts as overloaded."""
        if self._condition is None or self._condition.is_immediate:
            return True
        if node not in self._by_node:
            self._by_node[node] = Detector(self._condition)
        return self._by_node[node].mark(normal=False, now_s=now_s)

    def acted_on(self, node: str, now_s: float) -> None:
        """Pods of the node were moved in this round."""
        if node in self._by_node:
            self._by_node[node].mark(normal=True, now_s=now_s)

    def calm(self, node: str, now_s: float) -> None:
        """The node is not above its thresholds in this round."""
        if node in self._by_node:
            self._by_node[node].reset(now_s)
