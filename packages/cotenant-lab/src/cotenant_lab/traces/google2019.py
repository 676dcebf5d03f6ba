"""Usage of a Google cell, 300 s means over 20 days: the shape of a day, and memory used against assigned.

The last column's scale (about 165) is not a task's cycles per instruction; keep it as published.
"""

from __future__ import annotations

from cotenant_lab.traces.schema import TraceColumn, TraceFormat, TraceTable

USAGE = TraceTable(
    "usage",
    "cell-wide CPU and memory",
    (
        TraceColumn("time_stamp", "integer", "s", minimum=0, maximum=1e8),
        TraceColumn("avg_cpu", "number", "fraction of the cell", minimum=0, maximum=2),
        TraceColumn("avg_mem", "number", "fraction of the cell", minimum=0, maximum=1),
        TraceColumn("avg_assigned_mem", "number", "fraction of the cell", minimum=0, maximum=2),
        TraceColumn("avg_cycles_per_instruction", "number", "as published", minimum=0, maximum=10_000, nullable=True),
    ),
    r"instance_usage.*",
    key=("time_stamp",),
    ascending="time_stamp",
)

FORMAT = TraceFormat(
    "google2019",
    "Google cell usage, 300 s, 20 days",
    "Google cluster data 2019, sample of alejandrofdez-us/DataCenter-Traces-Datasets",
    "original CC-BY; sample without a licence file",
    (USAGE,),
)
