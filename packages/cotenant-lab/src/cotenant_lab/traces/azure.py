"""Sizes and durations of Azure's virtual machines, in the sampled form of the GAIA study.

Arrivals were stretched over a year by the sampler: use sizes and durations, not the arrival process. The official
`vmtable` with its usage percentiles is another table, which the `generic` format can map.
"""

from __future__ import annotations

from cotenant_lab.traces.schema import TraceColumn, TraceFormat, TraceTable

VMS = TraceTable(
    "vms",
    "virtual machines: arrival, duration, CPUs",
    (
        TraceColumn("arrival_hours", "number", "h", minimum=0, maximum=100_000),
        TraceColumn("duration_hours", "number", "h", minimum=0, maximum=100_000),
        TraceColumn("cpus", "number", "cores", minimum=0.001, maximum=4_096),
    ),
    r"azure.*",
    ascending="arrival_hours",
)

FORMAT = TraceFormat(
    "azure-vm",
    "Azure virtual machines: a sample of sizes and durations",
    "Azure public VM trace, sample of umassos/GAIA",
    "original CC-BY; sample MIT",
    (VMS,),
)
