"""The founding score, exactly as in the founding document.

    base by priority (35) + free capacity (40) + per-task fairness (15) + latency (20) - dominant share (15) -
    violations (20)

clamped to 0..100 and truncated to an integer. Free capacity, fairness, latency (p99 against 120 ms), dominant share and
violations are the node's last report. The weights are knobs whose defaults are those figures (`founding_base`, ...).
With a report older than two minutes, or none, it uses allocatable minus requested, with the other terms neutral
(fairness 1, no latency, no violations, dominant share of requests), and never excludes a node. Where credit is
considered, the violation term of a shape is larger by its `Param.VIOLATION_SURCHARGE`: tenants in debt avoid nodes
whose services miss their objectives. 0 is the published score. `founding_ledger` is the same with free capacity and
dominant share always from requests, which avoids herding between reports.
"""

from __future__ import annotations

import math

import numpy as np

from cotenant.model.arrays import CPU, MEMORY, Float, Int, NodeArrays, Param, ReportColumn, ShapeArrays
from cotenant.model.compiled import inlined
from cotenant.policy.placement.knobs import Knobs, column

REPORT_TTL_S = 120.0
LATENCY_TARGET_MS = 120.0

_CPU_USED, _MEMORY_USED, _P99 = (
    int(ReportColumn.CPU_USED),
    int(ReportColumn.MEMORY_USED),
    int(ReportColumn.LATENCY_P99_MS),
)
_VIOLATION, _DOMINANT, _FAIRNESS = (
    int(ReportColumn.VIOLATION),
    int(ReportColumn.DOMINANT_SHARE),
    int(ReportColumn.FAIRNESS),
)
_AT, _BASE, _SURCHARGE = int(ReportColumn.REPORTED_AT), int(Param.PRIORITY_BASE), int(Param.VIOLATION_SURCHARGE)
_FULL_BASE = 35.0  # the published weight, in which `Param.PRIORITY_BASE` is given
_W_BASE, _W_CAPACITY, _W_FAIRNESS = column("founding_base"), column("founding_capacity"), column("founding_fairness")
_W_LATENCY, _W_DOMINANT, _W_VIOLATIONS = (
    column("founding_latency"),
    column("founding_dominant"),
    column("founding_violations"),
)
_PUBLISHED = Knobs().array()


@inlined
def founding_at(
    nodes: NodeArrays, n: int, shapes: ShapeArrays, k: int, now_s: float, from_ledger: bool, knobs: Float
) -> float:
    """The founding score of node n, an integer 0..100 as a float; `knobs` as `Knobs.array()`."""
    fresh = now_s - nodes.report[n, _AT] <= REPORT_TTL_S  # false where never reported (NaN)
    used = fresh and not from_ledger
    cpu_requested = nodes.requested[n, CPU] / nodes.capacity[n, CPU]
    memory_requested = nodes.requested[n, MEMORY] / nodes.capacity[n, MEMORY]
    cpu_reported, memory_reported = nodes.report[n, _CPU_USED], nodes.report[n, _MEMORY_USED]
    dominant_reported, fairness = nodes.report[n, _DOMINANT], nodes.report[n, _FAIRNESS]
    p99_ms, violation = nodes.report[n, _P99], nodes.report[n, _VIOLATION]
    cpu_used = cpu_reported if used else cpu_requested
    memory_used = memory_reported if used else memory_requested
    dominant = dominant_reported if used else max(cpu_requested, memory_requested)
    if not fresh:
        fairness, p99_ms, violation = 1.0, 0.0, 0.0
    score = (
        shapes.params[k, _BASE] * (knobs[_W_BASE] / _FULL_BASE)
        + ((1.0 - cpu_used) + (1.0 - memory_used)) / 2.0 * knobs[_W_CAPACITY]
    )
    score += min(1.0, max(0.0, fairness)) * knobs[_W_FAIRNESS]
    score += (1.0 - min(1.0, p99_ms / LATENCY_TARGET_MS)) * knobs[_W_LATENCY]
    score -= min(1.0, max(0.0, dominant)) * knobs[_W_DOMINANT]
    score -= min(1.0, max(0.0, violation)) * knobs[_W_VIOLATIONS] * (1.0 + shapes.params[k, _SURCHARGE])
    return float(math.floor(min(100.0, max(0.0, score))))


def founding(
    nodes: NodeArrays,
    shapes: ShapeArrays,
    k: int,
    rows: Int,
    now_s: float,
    from_ledger: bool,
    knobs: Float = _PUBLISHED,
) -> Float:
    """Plain form of `founding_at` over rows."""
    report = nodes.report[rows]
    taken = nodes.requested[rows][:, [CPU, MEMORY]] / nodes.capacity[rows][:, [CPU, MEMORY]]
    with np.errstate(invalid="ignore"):
        fresh = now_s - report[:, _AT] <= REPORT_TTL_S
    used = fresh & (not from_ledger)
    cpu_used = np.where(used, report[:, _CPU_USED], taken[:, 0])
    memory_used = np.where(used, report[:, _MEMORY_USED], taken[:, 1])
    dominant = np.where(used, report[:, _DOMINANT], taken.max(axis=1))
    fairness = np.where(fresh, report[:, _FAIRNESS], 1.0)
    p99_ms = np.where(fresh, report[:, _P99], 0.0)
    violation = np.where(fresh, report[:, _VIOLATION], 0.0)
    score = (
        shapes.params[k, _BASE] * (knobs[_W_BASE] / _FULL_BASE)
        + ((1.0 - cpu_used) + (1.0 - memory_used)) / 2.0 * knobs[_W_CAPACITY]
    )
    score = score + np.clip(fairness, 0.0, 1.0) * knobs[_W_FAIRNESS]
    score = score + (1.0 - np.minimum(1.0, p99_ms / LATENCY_TARGET_MS)) * knobs[_W_LATENCY]
    score = score - np.clip(dominant, 0.0, 1.0) * knobs[_W_DOMINANT]
    score = score - np.clip(violation, 0.0, 1.0) * knobs[_W_VIOLATIONS] * (1.0 + shapes.params[k, _SURCHARGE])
    return np.floor(np.clip(score, 0.0, 100.0))
