"""The GPU-sharing trace of Weng et al. (USENIX ATC 2023): nodes, pods, and the published results of six policies.

CPU in milli-CPU, memory in MiB, GPU share in thousandths of one GPU. The multi-GPU lists carry only the first five pod
columns.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable

SECONDS = 1e9

NODES = TraceTable(
    "nodes",
    "nodes with CPU, memory, GPUs and the GPU model",
    (
        TraceColumn("sn", "text"),
        TraceColumn("cpu_milli", "integer", "milli-CPU", minimum=1, maximum=4_096_000),
        TraceColumn("memory_mib", "integer", "MiB", minimum=1, maximum=2**30),
        TraceColumn("gpu", "integer", "GPUs", minimum=0, maximum=64),
        TraceColumn("model", "text", nullable=True),
    ),
    r"openb_node_list.*",
    key=("sn",),
    rules=(RowRule("GPUs without a model", (pl.col("gpu") > 0) & pl.col("model").is_null(), "model"),),
)

PODS = TraceTable(
    "pods",
    "pods: requests, GPU share, allowed models (`A|B`), class, times",
    (
        TraceColumn("name", "text"),
        TraceColumn("cpu_milli", "integer", "milli-CPU", minimum=0, maximum=4_096_000),
        TraceColumn("memory_mib", "integer", "MiB", minimum=0, maximum=2**30),
        TraceColumn("num_gpu", "integer", "GPUs", minimum=0, maximum=64),
        TraceColumn("gpu_milli", "integer", "thousandths of one GPU, for each", minimum=0, maximum=1_000),
        TraceColumn("gpu_spec", "text", nullable=True, optional=True),
        TraceColumn("qos", "text", nullable=True, optional=True, choices=("LS", "BE", "Burstable", "Guaranteed")),
        TraceColumn("pod_phase", "text", nullable=True, optional=True),
        TraceColumn("creation_time", "integer", "s", minimum=0, maximum=SECONDS, nullable=True, optional=True),
        TraceColumn("deletion_time", "integer", "s", minimum=0, maximum=SECONDS, nullable=True, optional=True),
        TraceColumn("scheduled_time", "integer", "s", minimum=0, maximum=SECONDS, nullable=True, optional=True),
    ),
    r"openb_pod_list.*",
    key=("name",),
    rules=(
        RowRule(
            "asks for nothing",
            (pl.col("cpu_milli") == 0) & (pl.col("memory_mib") == 0) & (pl.col("num_gpu") == 0),
            "cpu_milli",
        ),
        RowRule("GPU share without a GPU", (pl.col("num_gpu") == 0) & (pl.col("gpu_milli") > 0), "gpu_milli"),
        RowRule("GPU without a share", (pl.col("num_gpu") > 0) & (pl.col("gpu_milli") == 0), "gpu_milli"),
        RowRule("shares of several GPUs", (pl.col("num_gpu") > 1) & (pl.col("gpu_milli") != 1_000), "gpu_milli"),
        RowRule("deleted before it was created", pl.col("deletion_time") < pl.col("creation_time"), "deletion_time"),
        RowRule(
            "scheduled before it was created", pl.col("scheduled_time") < pl.col("creation_time"), "scheduled_time"
        ),
        RowRule("deleted before it was scheduled", pl.col("deletion_time") < pl.col("scheduled_time"), "deletion_time"),
    ),
)

RESULTS = TraceTable(
    "results",
    "published allocation and fragmentation of six policies, 10 seeds, every 5 % of arrivals",
    (
        TraceColumn("workload", "text"),
        TraceColumn("sc_policy", "text"),
        TraceColumn("tune", "number", "arrived / capacity at the end", minimum=0, maximum=10),
        TraceColumn("seed", "integer", minimum=0),
        TraceColumn("arrived_pct", "integer", "percent of GPUs", minimum=0, maximum=1_000),
        TraceColumn("gpu_alloc_pct", "number", "percent of GPUs", minimum=0, maximum=100),
        TraceColumn("gpu_frag_pct_of_cluster", "number", "percent of GPUs", minimum=0, maximum=100),
        TraceColumn("gpu_frag_pct_of_idle", "number", "percent of idle GPUs", minimum=0, maximum=100),
    ),
    r"published_results.*",
    key=("workload", "sc_policy", "seed", "arrived_pct"),
)

FORMAT = TraceFormat(
    "openb",
    "GPU-sharing cluster of 1,213 nodes and 6,212 GPUs, with 15 pod lists",
    "alibaba/clusterdata, cluster-trace-gpu-v2023; results of hkust-adsl/kubernetes-scheduler-simulator; Weng et al., "
    "USENIX ATC 2023",
    "trace free for research or study; results Apache-2.0",
    (NODES, PODS, RESULTS),
)
