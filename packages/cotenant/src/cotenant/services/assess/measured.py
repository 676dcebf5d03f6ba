"""Nodes' last measurements out of a history, as NodeMetrics: what a rebalancer and Koordinator's formula read.

A cluster with a Prometheus and without an agent has no NodeMetrics, and its load is known all the same. A reported
metric that is current counts before one that is made here.
Limits: the last known step of at most `MAX_AGE_S`; what neither a pod of the copy nor a reservation explains is the
system's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.assess.history import AssessedHistory, ClusterHistory
from cotenant.model.machine.node_metric import NO_USE, MeasuredPod, NodeMetric, Use
from cotenant.services.assess.columns import MAX_AGE_S, MIB, RunningColumns
from cotenant.services.assess.copying import ClusterCopy


def with_measured(copy: ClusterCopy, pods: RunningColumns, history: ClusterHistory) -> Mapping[str, NodeMetric]:
    """The copy's current NodeMetrics, and those of other nodes by the history."""
    current = {name: metric for name, metric in copy.metrics.items() if metric.age_s <= MAX_AGE_S}
    use = {name: found for name, found in _last(history.nodes, copy.now_s).items() if name not in current}
    on: dict[str, dict[str, MeasuredPod]] = {name: {} for name in use}
    of_pods = _last(history.pods.use, copy.now_s) if use else {}
    for info in pods.entries:
        found = of_pods.get(info.seen.pod.key)
        if found is not None and info.node in on:
            on[info.node][info.seen.pod.key] = MeasuredPod(found[0])
    made = {}
    for name, (of_node, age_s) in use.items():
        held = NO_USE
        for pod in on[name].values():
            held = held.plus(pod.use)
        made[name] = NodeMetric(name, age_s, use=of_node, pods=on[name] or None, system=of_node.beyond(held))
    return {**made, **current}


def _last(history: AssessedHistory, now_s: float) -> dict[str, tuple[Use, float]]:
    """Each series' last use and its age, where it is recent."""
    recent = max(1, int(MAX_AGE_S // history.step_s))
    cpu_m, memory_mib = history.cpu_m[:, -recent:], history.memory_mib[:, -recent:]
    known = np.isfinite(cpu_m) & np.isfinite(memory_mib)
    if not known.size:
        return {}
    columns: Int = known.shape[1] - 1 - known[:, ::-1].argmax(axis=1)
    found = {}
    for row in np.flatnonzero(known.any(axis=1)).tolist():
        column = int(columns[row])
        at_s = history.end_s - (known.shape[1] - column) * history.step_s
        age_s = max(0.0, now_s - at_s)
        if age_s <= MAX_AGE_S:
            use = Use(int(cpu_m[row, column]), int(float(memory_mib[row, column]) * MIB))
            found[history.names[row]] = (use, age_s)
    return found
