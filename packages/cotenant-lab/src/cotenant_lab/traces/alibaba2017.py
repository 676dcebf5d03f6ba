"""Batch tasks of the Alibaba 2017 cluster trace: about 1,300 machines of 64 cores, no dependencies between tasks.

The official CSV carries no header; both forms are read. CPU: 100 = one core; memory: fraction of a machine; time:
seconds, negative for what was created before the trace began. Waiting tasks have no request, and tasks still running
have no end.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable

BATCH_TASK = TraceTable(
    "batch_task",
    "batch tasks",
    (
        TraceColumn("create_time", "integer", "s", minimum=-100_000, maximum=1_000_000),
        TraceColumn("end_time", "integer", "s", minimum=-100_000, maximum=1_000_000),
        TraceColumn("job_id", "integer", minimum=0),
        TraceColumn("task_id", "integer", minimum=0),
        TraceColumn("instance_num", "integer", "instances", minimum=1, maximum=1_000_000),
        TraceColumn("status", "text"),
        TraceColumn("plan_cpu", "number", "100 = core, per instance", minimum=0, maximum=6_400),
        TraceColumn("plan_mem", "number", "fraction of a machine, per instance", minimum=0, maximum=1),
    ),
    r"batch_task.*",
    key=("job_id", "task_id"),
    rules=(
        RowRule("never started", pl.col("status") == "Waiting", "status"),
        RowRule(
            "not finished", (pl.col("status") == "Running") & (pl.col("end_time") < pl.col("create_time")), "end_time"
        ),
        RowRule("ends before it starts", pl.col("end_time") < pl.col("create_time"), "end_time"),
        RowRule("zero duration", pl.col("end_time") == pl.col("create_time"), "end_time", drops=False),
    ),
)

FORMAT = TraceFormat(
    "alibaba2017",
    "Alibaba cluster trace 2017: batch tasks",
    "alibaba/clusterdata, cluster-trace-v2017",
    "free for research or study; ask before a commercial use",
    (BATCH_TASK,),
)
