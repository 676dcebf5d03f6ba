"""The figures of the whole cluster: allocated, used and idle cores and memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.assess.figure import AssessedFigure, counted, unknown
from cotenant.model.assess.history import ClusterHistory, Float32
from cotenant.model.assess.report import WorkloadUse
from cotenant.model.resources import LENT_CPU, LENT_MEMORY
from cotenant.policy.assess.use import used
from cotenant.services.assess.columns import MIB, NodeColumns, RunningColumns

_CORES, _GIB = 1e-3, 1.0 / 1024.0


def totals(
    nodes: NodeColumns, pods: RunningColumns, history: ClusterHistory, workloads: Sequence[WorkloadUse]
) -> tuple[AssessedFigure, ...]:
    """Nodes, pods, and both resources."""
    of = history.nodes
    lent_m = sum(amount for info in pods.entries for amount in map(info.seen.pod.requests.get, LENT_CPU))
    lent_bytes = sum(amount for info in pods.entries for amount in map(info.seen.pod.requests.get, LENT_MEMORY))
    idle_m = [workload.idle_cpu_m for workload in workloads]
    idle_mib = [workload.idle_memory_mib for workload in workloads]
    size, asked = (nodes.cpu_m, nodes.memory_mib), (nodes.cpu_requested_m, nodes.memory_requested_mib)
    return (
        counted("nodes", "Nodes", len(nodes.names), "nodes", "nodes whose size can be read"),
        counted("pods", "Running pods", len(pods.entries), "pods", "pods that have a node and have not ended"),
        *_of("cpu", "cores", _CORES, size[0], asked[0], lent_m, of.cpu_m, history),
        _idle("cpu", "Cores", "cores", _CORES, idle_m, history),
        *_of("memory", "GiB", _GIB, size[1], asked[1], lent_bytes // MIB, of.memory_mib, history),
        _idle("memory", "Memory", "GiB", _GIB, idle_mib, history),
    )


def _of(
    key: str, unit: str, scale: float, size: Int, requested: Int, lent: int, use: Float32, history: ClusterHistory
) -> tuple[AssessedFigure, ...]:
    title = "Cores" if key == "cpu" else "Memory"
    whole, asked = int(size.sum()), int(requested.sum())
    found = [
        counted(f"{key}_allocatable", f"{title}, allocatable", whole * scale, unit, "allocatable of all nodes"),
        counted(
            f"{key}_allocated", f"{title}, allocated", asked * scale, unit,
            "requests of the pods that count on a node, as a scheduler counts them",
        ),
        counted(
            f"{key}_free", f"{title}, not allocated", max(0, whole - asked) * scale, unit, "allocatable less allocated",
        ),
    ]  # fmt: skip
    if lent:
        definition = "batch and mid resources that pods request, beside what is allocated"
        found.append(counted(f"{key}_lent", f"{title}, lent and requested", lent * scale, unit, definition))
    total = history.nodes.summed(("all",) * len(history.nodes.names))
    values = (total.cpu_m if key == "cpu" else total.memory_mib) if len(total.names) else np.zeros((1, 0), np.float32)
    found.append(_now(key, title, unit, scale, values, history))
    found += used(f"{key}_used", f"{title}, used", unit, scale, history.nodes, values)
    return tuple(found)


def _now(key: str, title: str, unit: str, scale: float, values: Float32, history: ClusterHistory) -> AssessedFigure:
    label, name = f"{key}_used_last", f"{title}, used at the last measurement"
    definition = "the sum over nodes of what they measured last"
    known = values[~np.isnan(values)]
    if not len(known):
        return unknown(label, name, unit, definition, history.nodes.source or "use is not known")
    nodes = len(history.nodes.names)
    return AssessedFigure(
        label, name, float(known[-1]) * scale, unit, definition, f"none: one measurement of {nodes:,} nodes"
    )


def _idle(
    key: str, title: str, unit: str, scale: float, idle: Sequence[float | None], history: ClusterHistory
) -> AssessedFigure:
    """Requested and not used: the sum over workloads, so that one that uses more than it requests hides no other."""
    label, name = f"{key}_idle", f"{title}, requested and not used"
    definition = (
        "requests of any class less use, of each workload that uses less, summed: by the p99 of its total use, or by "
        "its last measurement"
    )
    known = [amount for amount in idle if amount is not None]
    if not known:
        why = history.pods.use.source or "the use of pods is not known"
        return unknown(label, name, unit, definition, why)
    interval = "none: a sum of quantiles has no interval of its own; the days' peaks of each workload are given there"
    return AssessedFigure(label, name, sum(known) * scale, unit, definition, interval)
