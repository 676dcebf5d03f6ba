"""Jobs and machines of Alibaba's PAI GPU cluster, 2020.

The jobs are a sample whose arrivals were stretched over a year: use sizes and durations, not the arrival process.
The machine list carries no header as published.
"""

from __future__ import annotations

from cotenant_lab.traces.schema import TraceColumn, TraceFormat, TraceTable

JOBS = TraceTable(
    "jobs",
    "jobs: arrival, duration, CPUs",
    (
        TraceColumn("arrival_hours", "number", "h", minimum=0, maximum=100_000),
        TraceColumn("duration_hours", "number", "h", minimum=0, maximum=100_000),
        TraceColumn("cpus", "number", "cores", minimum=0.001, maximum=1_000_000),
    ),
    r"pai_jobs.*|pai-100k.*",
    ascending="arrival_hours",
)

MACHINES = TraceTable(
    "machines",
    "machines: GPU type and capacity",
    (
        TraceColumn("machine", "text"),
        TraceColumn("gpu_type", "text"),
        TraceColumn("cap_cpu", "integer", "cores", minimum=1, maximum=4_096),
        TraceColumn("cap_mem", "number", "GB", minimum=1, maximum=65_536),
        TraceColumn("cap_gpu", "integer", "GPUs", minimum=0, maximum=64),
    ),
    r"pai_machine_spec.*",
    key=("machine",),
)

FORMAT = TraceFormat(
    "pai2020",
    "Alibaba PAI GPU cluster 2020: a job sample and 1,897 machines",
    "alibaba/clusterdata, cluster-trace-gpu-v2020; job sample of umassos/GAIA",
    "machines CC-BY 4.0; job sample MIT",
    (JOBS, MACHINES),
)
