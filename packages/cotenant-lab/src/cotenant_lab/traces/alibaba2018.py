"""The six tables of the Alibaba 2018 cluster trace (eight days, about 4,000 machines), in their published column order.

The official CSV files carry no header; both forms are read. CPU requests: 100 = one core; memory: percent of one
machine; time: seconds from the start of the trace. Known faults of the published batch tables are rules here: tasks
that wait or run at the end of the trace have no usable times. A task that starts and ends in the same second is real
(7.7 % of all) and stays.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable

TRACE_END_S = 1e8  # eight days are 691,200 s; three years can only be an error
MACHINE_CPU = 9_600.0  # 96 cores, 100 = a core


def _text(name: str, nullable: bool = False) -> TraceColumn:
    return TraceColumn(name, "text", nullable=nullable)


def _time(name: str, nullable: bool = False) -> TraceColumn:
    return TraceColumn(name, "integer", "s", minimum=0, maximum=TRACE_END_S, nullable=nullable)


def _percent(name: str, nullable: bool = True) -> TraceColumn:
    return TraceColumn(name, "number", "percent", minimum=0, maximum=100, nullable=nullable, markers=(-1.0, 101.0))


def _level(name: str, unit: str, maximum: float = 1e6) -> TraceColumn:
    return TraceColumn(name, "number", unit, minimum=0, maximum=maximum, nullable=True, markers=(-1.0,))


MACHINE_META = TraceTable(
    "machine_meta",
    "events of machines: capacity, failure domains, status",
    (
        _text("machine_id"),
        _time("time_stamp"),
        TraceColumn("failure_domain_1", "integer", nullable=True),
        TraceColumn("failure_domain_2", "integer", nullable=True),
        TraceColumn("cpu_num", "integer", "cores", minimum=1, maximum=4_096),
        TraceColumn("mem_size", "number", "percent of a machine", minimum=1, maximum=100),
        _text("status"),
    ),
    r"machine_meta.*",
    key=("machine_id", "time_stamp", "status"),
)

MACHINE_USAGE = TraceTable(
    "machine_usage",
    "utilisation of machines, 10 s samples at irregular gaps",
    (
        _text("machine_id"),
        _time("time_stamp"),
        _percent("cpu_util_percent"),
        _percent("mem_util_percent"),
        _level("mem_gps", "percent of memory bandwidth"),
        _level("mkpi", "cache misses per 1,000 instructions"),
        _level("net_in", "normalised 0..100"),
        _level("net_out", "normalised 0..100"),
        _percent("disk_io_percent"),
    ),
    r"machine_usage.*",
)

CONTAINER_META = TraceTable(
    "container_meta",
    "events of long-running containers: place, application, request",
    (
        _text("container_id"),
        _text("machine_id"),
        _time("time_stamp"),
        _text("app_du"),
        _text("status"),
        TraceColumn("cpu_request", "integer", "100 = core", minimum=0, maximum=MACHINE_CPU, nullable=True),
        TraceColumn("cpu_limit", "integer", "100 = core", minimum=0, maximum=MACHINE_CPU, nullable=True),
        TraceColumn("mem_size", "number", "percent of a machine", minimum=0, maximum=100, nullable=True),
    ),
    r"container_meta.*",
    key=("container_id", "machine_id", "time_stamp", "status"),
)

CONTAINER_USAGE = TraceTable(
    "container_usage",
    "utilisation of containers, relative to their requests",
    (
        _text("container_id"),
        _text("machine_id"),
        _time("time_stamp"),
        TraceColumn(
            "cpu_util_percent",
            "number",
            "percent of the request",
            minimum=0,
            maximum=10_000,
            nullable=True,
            markers=(-1.0,),
        ),
        TraceColumn(
            "mem_util_percent",
            "number",
            "percent of the request",
            minimum=0,
            maximum=10_000,
            nullable=True,
            markers=(-1.0,),
        ),
        _level("cpi", "cycles per instruction"),
        _level("mem_gps", "percent of memory bandwidth"),
        _level("mpki", "cache misses per 1,000 instructions"),
        _level("net_in", "normalised 0..100"),
        _level("net_out", "normalised 0..100"),
        _percent("disk_io_percent"),
    ),
    r"container_usage.*",
)

_RUNS = (
    RowRule(
        "never started",
        (pl.col("status") == "Waiting") | (pl.col("start_time") == 0) & (pl.col("end_time") == 0),
        "start_time",
    ),
    RowRule("not finished", pl.col("end_time") == 0, "end_time"),
    RowRule("ends before it starts", pl.col("end_time") < pl.col("start_time"), "end_time"),
    RowRule("zero duration", pl.col("end_time") == pl.col("start_time"), "end_time", drops=False),
)

BATCH_TASK = TraceTable(
    "batch_task",
    "batch tasks; the name encodes the job's DAG (see dag.py)",
    (
        _text("task_name"),
        TraceColumn("instance_num", "integer", "instances", minimum=1, maximum=1_000_000),
        _text("job_name"),
        TraceColumn("task_type", "text", nullable=True),
        _text("status"),
        _time("start_time"),
        _time("end_time"),
        TraceColumn("plan_cpu", "number", "100 = core, per instance", minimum=0, maximum=MACHINE_CPU),
        TraceColumn("plan_mem", "number", "percent of a machine, per instance", minimum=0, maximum=100),
    ),
    r"batch_task.*",
    key=("job_name", "task_name"),
    rules=_RUNS,
)

BATCH_INSTANCE = TraceTable(
    "batch_instance",
    "instances of batch tasks: machine, times, use",
    (
        _text("instance_name"),
        _text("task_name"),
        _text("job_name"),
        TraceColumn("task_type", "text", nullable=True),
        _text("status"),
        _time("start_time"),
        _time("end_time"),
        _text("machine_id", nullable=True),
        TraceColumn("seq_no", "integer", minimum=0, maximum=1_000_000, nullable=True),
        TraceColumn("total_seq_no", "integer", minimum=0, maximum=1_000_000, nullable=True),
        TraceColumn("cpu_avg", "number", "100 = core", minimum=0, maximum=MACHINE_CPU, nullable=True),
        TraceColumn("cpu_max", "number", "100 = core", minimum=0, maximum=MACHINE_CPU, nullable=True),
        TraceColumn("mem_avg", "number", "percent of a machine", minimum=0, maximum=1_000, nullable=True),
        TraceColumn("mem_max", "number", "percent of a machine", minimum=0, maximum=1_000, nullable=True),
    ),
    r"batch_instance.*",
    rules=_RUNS,
)

CLUSTER_USAGE = TraceTable(
    "cluster_usage",
    "mean utilisation over all machines, per 300 s; time is unknown on days with gaps",
    (
        TraceColumn("day", "integer", "day of the trace, from 1", minimum=1, maximum=31),
        TraceColumn("row_in_day", "integer", minimum=0, maximum=100_000),
        _time("time_stamp", nullable=True),
        _percent("cpu_util_percent"),
        _percent("mem_util_percent"),
        _level("net_in", "normalised 0..100"),
        _level("net_out", "normalised 0..100"),
        _percent("disk_io_percent"),
    ),
    r"cluster_mean_usage.*",
    key=("day", "row_in_day"),
    ascending="time_stamp",
)

FORMAT = TraceFormat(
    "alibaba2018",
    "Alibaba cluster trace 2018: machines, containers, batch DAG tasks and instances",
    "alibaba/clusterdata, cluster-trace-v2018",
    "free for research or study; ask before a commercial use",
    (MACHINE_META, MACHINE_USAGE, CONTAINER_META, CONTAINER_USAGE, BATCH_TASK, BATCH_INSTANCE, CLUSTER_USAGE),
)
