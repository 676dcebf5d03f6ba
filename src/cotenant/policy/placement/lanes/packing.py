"""Packing of a node's row from its integers: recomputed after every change, so that no float is ever accumulated."""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, PODS, Int, NodeArrays, Report, ShapeArrays, Sum
from cotenant.model.compiled import inlined
from cotenant.policy.placement.lanes.layout import (
    CLOSED,
    CPU_CAPACITY,
    FOUNDING_LEDGER,
    KUBE_DEFAULT,
    LATENCY,
    SCALARS,
    TERM,
    USE,
    WEIGHTED,
    LaneTable,
    NodeRows,
)
from cotenant.policy.placement.lanes.vector import WIDTH
from cotenant.policy.placement.scores.founding import LATENCY_TARGET_MS, REPORT_TTL_S

_USE_CPU = int(Sum.USE_CPU)
_CPU_USED, _MEMORY_USED, _P99 = int(Report.CPU_USED), int(Report.MEMORY_USED), int(Report.LATENCY_P99_MS)
_VIOLATION, _DOMINANT, _FAIRNESS = int(Report.VIOLATION), int(Report.DOMINANT_SHARE), int(Report.FAIRNESS)
_REPORTED_AT = int(Report.REPORTED_AT)


@inlined
def allows(nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int) -> bool:
    """All filters that do not depend on resources."""
    if not nodes.ready[n] or nodes.taints[n] & ~shapes.tolerated[k]:
        return False
    for word in range(nodes.labels.shape[1]):
        if shapes.selector[k, word] & ~nodes.labels[n, word]:
            return False
    group = shapes.group[k]
    return group < 0 or nodes.group_count[n, group] < shapes.group_limit[k]


@inlined
def pack_allowed(rows: NodeRows, table: LaneTable, nodes: NodeArrays, n: int, shapes: ShapeArrays) -> None:
    """Recompute a node's bits, after a change of taints, labels, readiness, groups or of CLOSED."""
    closed = rows.packed[n, 3 * nodes.capacity.shape[1] + CLOSED] > 0.0
    for block in range(rows.allowed.shape[1]):
        word = 0
        for j in range(WIDTH):
            k = table.shape[block * WIDTH + j]
            if k >= 0 and not closed and allows(nodes, n, shapes, k):
                word |= 1 << j
        rows.allowed[n, block] = np.uint16(word)


@inlined
def pack_free(rows: NodeRows, table: LaneTable, nodes: NodeArrays, n: int) -> None:
    """Recompute the values that depend on requests."""
    resources = nodes.capacity.shape[1]
    for r in range(resources):
        requested = nodes.requested[n, r]
        free = max(0, nodes.capacity[n, r] - requested)
        rows.packed[n, r] = free >> table.shift[r]
        rows.packed[n, resources + r] = (requested >> table.shift[r]) * rows.packed[n, 2 * resources + r]


@inlined
def pack_held(rows: NodeRows, table: LaneTable, held: Int, n: int, tenant: int) -> None:
    """Recompute 1 - the tenant's dominant share on the node."""
    resources = held.shape[2]
    share = 0.0
    for r in range(resources):
        share = max(share, (held[n, tenant, r] >> table.shift[r]) * float(rows.packed[n, 2 * resources + r]))
    rows.packed[n, 3 * resources + SCALARS + tenant] = 1.0 - min(share, 1.0)


@inlined
def pack_scalars(kernel: int, rows: NodeRows, nodes: NodeArrays, n: int, now_s: float) -> None:
    """Recompute the values that depend on a node's sums, requests of CPU and memory, and reports."""
    at = 3 * nodes.capacity.shape[1]
    cpu, memory = float(nodes.capacity[n, CPU]), float(nodes.capacity[n, MEMORY])
    use = float(nodes.sums[n, _USE_CPU])
    rows.packed[n, at + USE] = use
    rows.packed[n, at + CPU_CAPACITY] = cpu
    rows.packed[n, at + CLOSED] = 1.0 if cpu <= 0.0 or memory <= 0.0 else 0.0
    if kernel == WEIGHTED:
        p99_ms, violation = nodes.report[n, _P99], nodes.report[n, _VIOLATION]
        latency = 0.0 if np.isnan(p99_ms) else p99_ms / LATENCY_TARGET_MS
        rows.packed[n, at + TERM] = 1.0 / (1.0 + latency * (1.0 + use / cpu))
        rows.packed[n, at + TERM + 1] = 1.0 - (0.0 if np.isnan(violation) else min(1.0, max(0.0, violation)))
    elif kernel == KUBE_DEFAULT:
        rows.packed[n, at + TERM] = cpu
        rows.packed[n, at + TERM + 1] = memory
        rows.packed[n, at + TERM + 2] = nodes.requested[n, CPU]
        rows.packed[n, at + TERM + 3] = nodes.requested[n, MEMORY]
    else:
        pack_founding(kernel == FOUNDING_LEDGER, rows, nodes, n, now_s)


@inlined
def pack_founding(from_ledger: bool, rows: NodeRows, nodes: NodeArrays, n: int, now_s: float) -> None:
    """The founding score's terms that depend on the node only (see `scores.founding`)."""
    at = 3 * nodes.capacity.shape[1]
    cpu_used = nodes.requested[n, CPU] / nodes.capacity[n, CPU]
    memory_used = nodes.requested[n, MEMORY] / nodes.capacity[n, MEMORY]
    dominant = max(cpu_used, memory_used)
    fairness, p99_ms, violation = 1.0, 0.0, 0.0
    if now_s - nodes.report[n, _REPORTED_AT] <= REPORT_TTL_S:
        fairness = nodes.report[n, _FAIRNESS]
        p99_ms = nodes.report[n, _P99]
        violation = nodes.report[n, _VIOLATION]
        if not from_ledger:
            cpu_used = nodes.report[n, _CPU_USED]
            memory_used = nodes.report[n, _MEMORY_USED]
            dominant = nodes.report[n, _DOMINANT]
    rows.packed[n, at + LATENCY] = (1.0 - min(1.0, p99_ms / LATENCY_TARGET_MS)) * 20.0
    rows.packed[n, at + TERM] = ((1.0 - cpu_used) + (1.0 - memory_used)) / 2.0 * 40.0
    rows.packed[n, at + TERM + 1] = min(1.0, max(0.0, fairness)) * 15.0
    rows.packed[n, at + TERM + 2] = min(1.0, max(0.0, dominant)) * 15.0
    rows.packed[n, at + TERM + 3] = min(1.0, max(0.0, violation)) * 20.0


@inlined
def pack_row(
    kernel: int,
    rows: NodeRows,
    table: LaneTable,
    nodes: NodeArrays,
    held: Int,
    n: int,
    shapes: ShapeArrays,
    now_s: float,
) -> None:
    """Recompute all of a node's row."""
    resources = nodes.capacity.shape[1]
    for r in range(resources):
        inverse = 1.0 / nodes.capacity[n, r] if nodes.capacity[n, r] > 0 and r != PODS else 0.0
        rows.packed[n, 2 * resources + r] = inverse * float(1 << table.shift[r])
    pack_free(rows, table, nodes, n)
    if kernel == WEIGHTED:
        for tenant in range(held.shape[1]):
            pack_held(rows, table, held, n, tenant)
    pack_scalars(kernel, rows, nodes, n, now_s)
    pack_allowed(rows, table, nodes, n, shapes)
