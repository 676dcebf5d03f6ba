"""Histograms over nearly all batch tasks of the Alibaba 2018 trace (Tian et al., SoCC 2019): marginals only.

A bin is (left, right]; recorded values are integers, or steps of 0.01 for memory, so a bin's value is its right edge.
`condition` is the number of tasks of the job (cpl) or the length of the longest path (level), and empty elsewhere.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable

QUANTITIES = (
    "task_num",
    "job_interval",
    "task_cpu",
    "task_mem",
    "task_duration",
    "instance_num",
    "instance_cpu",
    "instance_mem",
    "instance_duration",
    "cpl",
    "level",
)

HISTOGRAMS = TraceTable(
    "histograms",
    "bins of eleven quantities",
    (
        TraceColumn("quantity", "text", choices=QUANTITIES),
        TraceColumn("condition", "integer", minimum=0, maximum=10_000, nullable=True),
        TraceColumn("left_open", "number", minimum=-1, maximum=1e9),
        TraceColumn("right_closed", "number", minimum=0, maximum=1e9),
        TraceColumn("count", "integer", minimum=0),
    ),
    r"histograms.*",
    key=("quantity", "condition", "right_closed"),
    rules=(RowRule("empty interval", pl.col("right_closed") <= pl.col("left_open"), "right_closed"),),
)

FORMAT = TraceFormat(
    "alibaba2018-distributions",
    "histograms of 9.7 million tasks and 416 million instances of Alibaba 2018",
    "All-less/trace-generator; Tian, Zheng, Wang, SoCC 2019",
    "MIT; original data free for research or study",
    (HISTOGRAMS,),
)
