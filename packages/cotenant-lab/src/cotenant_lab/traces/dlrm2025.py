"""Latency-sensitive recommendation inference of Alibaba's GPU trace 2025: four-dimensional requests and density limits.

`max_instance_per_node` of -1 means no limit. Empty times lie outside the trace.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable


def _amount(name: str, unit: str, maximum: float) -> TraceColumn:
    return TraceColumn(name, "number", unit, minimum=0, maximum=maximum)


def _time(name: str) -> TraceColumn:
    return TraceColumn(name, "number", "s", minimum=0, maximum=1e9, nullable=True)


INSTANCES = TraceTable(
    "instances",
    "inference instances: requests and limits of CPU, GPU, RDMA, memory and disk; density limit; times",
    (
        TraceColumn("instance_sn", "text"),
        TraceColumn("role", "text", choices=("CN", "HN")),
        TraceColumn("app_name", "text"),
        _amount("cpu_request", "cores", 4_096),
        _amount("cpu_limit", "cores", 4_096),
        _amount("gpu_request", "GPUs", 64),
        _amount("gpu_limit", "GPUs", 64),
        _amount("rdma_request", "percent of a NIC", 1_000),
        _amount("rdma_limit", "percent of a NIC", 1_000),
        _amount("memory_request", "GiB", 65_536),
        _amount("memory_limit", "GiB", 65_536),
        _amount("disk_request", "GiB", 1_000_000),
        _amount("disk_limit", "GiB", 1_000_000),
        TraceColumn("max_instance_per_node", "integer", "instances; -1 = no limit", minimum=-1, maximum=100_000),
        _time("creation_time"),
        _time("scheduled_time"),
        _time("deletion_time"),
    ),
    r"dlrm_instances.*|disaggregated_DLRM_trace.*",
    key=("instance_sn",),
    rules=(
        RowRule("limit below request", pl.col("cpu_limit") < pl.col("cpu_request"), "cpu_limit"),
        RowRule("limit below request", pl.col("memory_limit") < pl.col("memory_request"), "memory_limit"),
        RowRule("density limit of zero", pl.col("max_instance_per_node") == 0, "max_instance_per_node"),
        RowRule(
            "scheduled before it was created", pl.col("scheduled_time") < pl.col("creation_time"), "scheduled_time"
        ),
        RowRule("deleted before it was created", pl.col("deletion_time") < pl.col("creation_time"), "deletion_time"),
    ),
)

FORMAT = TraceFormat(
    "dlrm2025",
    "inference services of recommendation models with four resources and density limits",
    "alibaba/clusterdata, cluster-trace-gpu-v2025; Yang et al., NSDI 2025",
    "free for research or study",
    (INSTANCES,),
)
