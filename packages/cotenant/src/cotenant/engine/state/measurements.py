"""What agents measured of pods since estimates were last corrected.

Every node reports the use of its pods about once a minute, each at its own time, and a correction of estimates costs a
pass over all pods. The last use of each pod is kept until the next correction, which takes all of them at once.
Limits: a metric older than two of its intervals is ignored; a pod that has left meanwhile is left out when the
correction takes place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan

from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, PodSignals

CORRECTION_EVERY_S = 60.0


class PodMeasurements:
    """The last measurement of each pod, by UID."""

    def __init__(self) -> None:
        self._measured: dict[str, MeasuredPod] = {}

    def __len__(self) -> int:
        """Of how many pods."""
        return len(self._measured)

    def note(self, metric: NodeMetric, uid_of: Callable[[str], str | None]) -> None:
        """One node's metric; `uid_of` a namespace/name is that of the pod which was on the node when it was
        measured, else None.
        """
        if metric.is_empty or metric.age_s > 2 * metric.interval_s:
            return
        for key, measured in (metric.pods or {}).items():
            uid = uid_of(key)
            if uid is not None:
                self._measured[uid] = measured

    def take(self) -> dict[str, MeasuredPod]:
        """The last measurement of each pod that was reported since the last time."""
        taken, self._measured = self._measured, {}
        return taken


def signal(signals: PodSignals, pod: Pod) -> float:
    """What learned interference reads of a pod (`Cluster.interference_measured`); NaN where nothing was measured.

    For a service p99 over its objective. For another pod cycles per instruction, else time per CPU time (use and wait).
    """
    if pod.objective_p99_ms is not None:
        return nan if signals.latency_p99_ms is None else signals.latency_p99_ms / pod.objective_p99_ms
    if (signals.wait_per_cpu is None and signals.cycles_per_instruction is None) or pod.is_service:
        return nan
    return signals.cycles_per_instruction or 1.0 + (signals.wait_per_cpu or 0.0)
