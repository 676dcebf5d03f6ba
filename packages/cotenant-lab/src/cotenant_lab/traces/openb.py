"""The GPU-sharing trace of Weng et al. (USENIX ATC 2023): nodes, pods, and the published results of six policies.

CPU in milli-CPU, memory in MiB, GPU share in thousandths of one GPU. The multi-GPU lists carry only the first five pod
columns.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import Column, Format, Rule, Table

SECONDS = 1e9

NODES = Table(
    "nodes",
    "nodes with CPU, memory, GPUs and the GPU model",
    (
        Column("sn", "text"),
        Column("cpu_milli", "integer", "milli-CPU", minimum=1, maximum=4_096_000),
        Column("memory_mib", "integer", "MiB", minimum=1, maximum=2**30),
        Column("gpu", "integer", "GPUs", minimum=0, maximum=64),
        Column("model", "text", nullable=True),
    ),
    r"openb_node_list.*",
    key=("sn",),
    rules=(Rule("GPUs without a model", (pl.col("gpu") > 0) & pl.col("model").is_null(), "model"),),
)

PODS = Table(
    "pods",
    "pods: requests, GPU share, allowed models (`A|B`), class, times",
    (
        Column("name", "text"),
        Column("cpu_milli", "integer", "milli-CPU", minimum=0, maximum=4_096_000),
        Column("memory_mib", "integer", "MiB", minimum=0, maximum=2**30),
        Column("num_gpu", "integer", "GPUs", minimum=0, maximum=64),
        Column("gpu_milli", "integer", "thousandths of one GPU, for each", minimum=0, maximum=1_000),
        Column("gpu_spec", "text", nullable=True, optional=True),
        Column("qos", "text", nullable=True, optional=True, choices=("LS", "BE", "Burstable", "Guaranteed")),
        Column("pod_phase", "text", nullable=True, optional=True),
        Column("creation_time", "integer", "s", minimum=0, maximum=SECONDS, nullable=True, optional=True),
        Column("deletion_time", "integer", "s", minimum=0, maximum=SECONDS, nullable=True, optional=True),
        Column("scheduled_time", "integer", "s", minimum=0, maximum=SECONDS, nullable=True, optional=True),
    ),
    r"openb_pod_list.*",
    key=("name",),
    rules=(
        Rule(
            "asks for nothing",
            (pl.col("cpu_milli") == 0) & (pl.col("memory_mib") == 0) & (pl.col("num_gpu") == 0),
            "cpu_milli",
        ),
        Rule("GPU share without a GPU", (pl.col("num_gpu") == 0) & (pl.col("gpu_milli") > 0), "gpu_milli"),
        Rule("GPU without a share", (pl.col("num_gpu") > 0) & (pl.col("gpu_milli") == 0), "gpu_milli"),
        Rule("shares of several GPUs", (pl.col("num_gpu") > 1) & (pl.col("gpu_milli") != 1_000), "gpu_milli"),
        Rule("deleted before it was created", pl.col("deletion_time") < pl.col("creation_time"), "deletion_time"),
        Rule("scheduled before it was created", pl.col("scheduled_time") < pl.col("creation_time"), "scheduled_time"),
        Rule("deleted before it was scheduled", pl.col("deletion_time") < pl.col("scheduled_time"), "deletion_time"),
    ),
)

RESULTS = Table(
    "results",
    "published allocation and fragmentation of six policies, 10 seeds, every 5 % of arrivals",
    (
        Column("workload", "text"),
        Column("sc_policy", "text"),
        Column("tune", "number", "arrived / capacity at the end", minimum=0, maximum=10),
        Column("seed", "integer", minimum=0),
        Column("arrived_pct", "integer", "percent of GPUs", minimum=0, maximum=1_000),
        Column("gpu_alloc_pct", "number", "percent of GPUs", minimum=0, maximum=100),
        Column("gpu_frag_pct_of_cluster", "number", "percent of GPUs", minimum=0, maximum=100),
        Column("gpu_frag_pct_of_idle", "number", "percent of idle GPUs", minimum=0, maximum=100),
    ),
    r"published_results.*",
    key=("workload", "sc_policy", "seed", "arrived_pct"),
)

FORMAT = Format(
    "openb",
    "GPU-sharing cluster of 1,213 nodes and 6,212 GPUs, with 15 pod lists",
    "alibaba/clusterdata, cluster-trace-gpu-v2023; results of hkust-adsl/kubernetes-scheduler-simulator; Weng et al., "
    "USENIX ATC 2023",
    "trace free for research or study; results Apache-2.0",
    (NODES, PODS, RESULTS),
)
