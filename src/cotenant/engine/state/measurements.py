"""What agents measured of pods since estimates were last corrected.

Problem: every node reports the use of its pods about once a minute, each at its own time, and a correction of estimates costs a pass over all pods. Choice: the last
use of each pod is kept until the next correction, which takes all of them at once. Limits: a metric older than two of its intervals is ignored; a pod that has left
meanwhile is left out when the correction takes place.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from cotenant.model.machine.node_metric import NodeMetric, Use

CORRECTION_EVERY_S = 60.0


class Measurements:
    """The last use of each pod, by UID."""

    def __init__(self) -> None:
        self._use: dict[str, Use] = {}
        self._corrected_s = -inf

    def note(self, metric: NodeMetric, uids: Mapping[str, str]) -> None:
        """One node's metric; `uids` by namespace/name."""
        if metric.is_empty or metric.age_s > 2 * metric.interval_s:
            return
        for key, measured in (metric.pods or {}).items():
            uid = uids.get(key)
            if uid is not None:
                self._use[uid] = measured.use

    def is_due(self, now_s: float) -> bool:
        """Whether estimates were last corrected long enough ago."""
        return now_s >= self._corrected_s + CORRECTION_EVERY_S

    def corrected(self, now_s: float) -> None:
        """Estimates were corrected now."""
        self._corrected_s = now_s

    def take(self) -> dict[str, Use]:
        """The use of each pod that was reported since the last time."""
        taken, self._use = self._use, {}
        return taken
