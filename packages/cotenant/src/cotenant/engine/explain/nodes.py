"""The engine's view of a node, to compare with the node itself.

A pod is refused where `kubectl describe node` shows free resources, or the other way round, because some component has
outdated facts. The columns that decide, by name, and every pod that counts there with its state.
Limits: a report is shown with its age, whether or not the profile uses it.
"""

from __future__ import annotations

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Float, ReportColumn
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.taints import Taint
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.decisions.answers import AssignedPod, NodeAmount, NodeAnswer, NodeReported
from cotenant.model.resources import format_amount


def node_answer(components: ClusterComponents, name: str, now_s: float) -> NodeAnswer | None:
    """The view of a node; None if it is unknown."""
    assignments = components.assignments
    assignments.write()
    row = assignments.encoder.node_rows.get(name)
    if row is None:
        return None
    node, nodes = assignments.encoder.node(row), assignments.encoder.nodes()
    requested = assignments.ledger.nodes.requested[row]
    amounts = []
    for column, resource in enumerate(assignments.encoder.axis.names):
        capacity, used = int(nodes.capacity[row, column]), int(requested[column])
        if capacity or used:
            texts = [format_amount(resource, amount) for amount in (capacity, used, max(0, capacity - used))]
            amounts.append(NodeAmount(resource, *texts))
    residents = assignments.residents.get(name, {}).values()
    return NodeAnswer(
        node=name,
        ready=node.ready,
        unschedulable=node.unschedulable,
        labels=node.labels.items,
        taints=tuple(_taint(taint) for taint in node.taints),
        amounts=tuple(amounts),
        pods=tuple(sorted((_pod(entry) for entry in residents), key=lambda pod: pod.pod)),
        promised=tuple(sorted(_key(components, uid) for uid in components.nominations.on(name))),
        report=_reported(nodes.report[row], now_s),
        tried_again=row in assignments.changed,
    )


def node_reports(components: ClusterComponents, now_s: float) -> dict[str, NodeReported]:
    """The last report of every node that has sent one, by name."""
    encoder = components.assignments.encoder
    values = encoder.nodes().report
    found = ((name, _reported(values[row], now_s)) for name, row in encoder.node_rows.items())
    return {name: report for name, report in found if report is not None}


def _pod(entry: PodInfo) -> AssignedPod:
    pod = entry.seen.pod
    holds = entry.seen.holds if entry.seen.holds != NO_HOLDINGS else entry.holds
    return AssignedPod(
        pod=pod.key,
        uid=entry.seen.uid,
        state=entry.state.name.lower(),
        priority=pod.priority,
        requests=tuple((name, format_amount(name, amount)) for name, amount in pod.requests),
        scheduler=entry.seen.scheduler,
        terminating=entry.seen.terminating,
        cpus=format_cpus(holds.cpus.cpus) if holds.cpus is not None else "",
        devices=tuple(f"{device.type.value} {device.minor}: {device.amounts}" for device in holds.devices),
    )


def _key(components: ClusterComponents, uid: str) -> str:
    entry = components.assignments.reserved.get(uid)
    return entry.seen.pod.key if entry is not None else uid


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect.value}" if taint.value else f"{taint.key}:{taint.effect.value}"


def _reported(values: Float, now_s: float) -> NodeReported | None:
    if np.isnan(values[ReportColumn.REPORTED_AT]):
        return None

    def finite(column: ReportColumn) -> float | None:
        value = float(values[column])
        return value if np.isfinite(value) else None

    return NodeReported(
        age_s=round(max(0.0, now_s - float(values[ReportColumn.REPORTED_AT])), 3),
        cpu_used=finite(ReportColumn.CPU_USED),
        memory_used=finite(ReportColumn.MEMORY_USED),
        latency_p99_ms=finite(ReportColumn.LATENCY_P99_MS),
        violation=finite(ReportColumn.VIOLATION),
    )
