"""What the agents of simulated nodes would report of them."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.arrays import ReportColumn
from cotenant.model.cluster.report import NodeReport
from cotenant_lab.world.config import WorldConfig
from cotenant_lab.world.state import WorldState


def node_reports(state: WorldState, config: WorldConfig, names: Sequence[str], now_s: float) -> list[NodeReport]:
    """Of powered-on nodes, at the last tick; empty before the first."""
    cores, memory = float(config.node_cores), float(config.node_memory_bytes)
    rows = state.report[: len(names)]
    out = []
    for name, row, up in zip(names, rows.tolist(), state.nodes.up[: len(rows)].tolist(), strict=True):
        if up and row[ReportColumn.REPORTED_AT] == row[ReportColumn.REPORTED_AT]:
            out.append(
                NodeReport(
                    node=name,
                    cpu_allocatable=cores,
                    cpu_used=row[ReportColumn.CPU_USED] * cores,
                    memory_allocatable=memory,
                    memory_used=row[ReportColumn.MEMORY_USED] * memory,
                    latency_p99_ms=min(row[ReportColumn.LATENCY_P99_MS], 1e9),
                    violation=row[ReportColumn.VIOLATION],
                    dominant_share=row[ReportColumn.DOMINANT_SHARE],
                    fairness=min(1.0, row[ReportColumn.FAIRNESS]),
                    at_s=now_s,
                )
            )
    return out
