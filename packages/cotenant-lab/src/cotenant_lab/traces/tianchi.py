"""Long-running containers of Alibaba's 2018 global scheduling contest (Tianchi): day curves and anti-affinity, in cores
and GB.

A curve has 98 samples over one day, about 15 minutes apart, joined by `|`. A rule (app_present, app_limited,
max_count): a machine with a container of app_present may hold at most max_count containers of app_limited; for the same
app the contest counts max_count + 1.
"""

from __future__ import annotations

from cotenant_lab.traces.schema import TraceColumn, TraceFormat, TraceTable

SAMPLES = 98

APPS = TraceTable(
    "apps",
    "applications: CPU and memory of one container over a day, disk, priority counters",
    (
        TraceColumn("app", "text"),
        TraceColumn("cpu_98", "curve", "cores", minimum=0, maximum=4_096, length=SAMPLES),
        TraceColumn("mem_98", "curve", "GB", minimum=0, maximum=65_536, length=SAMPLES),
        TraceColumn("disk", "number", "GB", minimum=0, maximum=1_000_000),
        TraceColumn("P", "integer", minimum=0, maximum=1_000),
        TraceColumn("M", "integer", minimum=0, maximum=1_000),
        TraceColumn("PM", "integer", minimum=0, maximum=1_000),
    ),
    r"app_resources.*",
    key=("app",),
)

CONTAINERS = TraceTable(
    "containers",
    "containers, their application, and their initial machine (empty: not placed)",
    (
        TraceColumn("instance", "text"),
        TraceColumn("app", "text"),
        TraceColumn("initial_machine", "text", nullable=True),
    ),
    r"instance_deploy.*",
    key=("instance",),
)

MACHINES = TraceTable(
    "machines",
    "machines and their limits",
    (
        TraceColumn("machine", "text"),
        TraceColumn("cpu", "number", "cores", minimum=1, maximum=4_096),
        TraceColumn("mem", "number", "GB", minimum=1, maximum=65_536),
        TraceColumn("disk", "number", "GB", minimum=0, maximum=1_000_000),
        TraceColumn("P", "integer", minimum=0, maximum=1_000),
        TraceColumn("M", "integer", minimum=0, maximum=1_000),
        TraceColumn("PM", "integer", minimum=0, maximum=1_000),
    ),
    r"machine_resources.*",
    key=("machine",),
)

RULES = TraceTable(
    "rules",
    "anti-affinity between applications on one machine",
    (
        TraceColumn("app_present", "text"),
        TraceColumn("app_limited", "text"),
        TraceColumn("max_count", "integer", "containers", minimum=0, maximum=1_000_000),
    ),
    r"app_interference.*",
    key=("app_present", "app_limited"),
)

FORMAT = TraceFormat(
    "tianchi",
    "68,224 containers of 9,338 applications with day curves and anti-affinity, 6,000 machines",
    "Alibaba Tianchi global scheduling contest 2018, preliminary data set B",
    "contest data published for research; no licence file",
    (APPS, CONTAINERS, MACHINES, RULES),
)
