"""Long-running containers of Alibaba's 2018 global scheduling contest (Tianchi): day curves and anti-affinity, in cores
and GB.

A curve has 98 samples over one day, about 15 minutes apart, joined by `|`. A rule (app_present, app_limited,
max_count): a machine with a container of app_present may hold at most max_count containers of app_limited; for the same
app the contest counts max_count + 1.
"""

from __future__ import annotations

from cotenant_lab.traces.schema import Column, Format, Table

SAMPLES = 98

APPS = Table(
    "apps",
    "applications: CPU and memory of one container over a day, disk, priority counters",
    (
        Column("app", "text"),
        Column("cpu_98", "curve", "cores", minimum=0, maximum=4_096, length=SAMPLES),
        Column("mem_98", "curve", "GB", minimum=0, maximum=65_536, length=SAMPLES),
        Column("disk", "number", "GB", minimum=0, maximum=1_000_000),
        Column("P", "integer", minimum=0, maximum=1_000),
        Column("M", "integer", minimum=0, maximum=1_000),
        Column("PM", "integer", minimum=0, maximum=1_000),
    ),
    r"app_resources.*",
    key=("app",),
)

CONTAINERS = Table(
    "containers",
    "containers, their application, and their initial machine (empty: not placed)",
    (Column("instance", "text"), Column("app", "text"), Column("initial_machine", "text", nullable=True)),
    r"instance_deploy.*",
    key=("instance",),
)

MACHINES = Table(
    "machines",
    "machines and their limits",
    (
        Column("machine", "text"),
        Column("cpu", "number", "cores", minimum=1, maximum=4_096),
        Column("mem", "number", "GB", minimum=1, maximum=65_536),
        Column("disk", "number", "GB", minimum=0, maximum=1_000_000),
        Column("P", "integer", minimum=0, maximum=1_000),
        Column("M", "integer", minimum=0, maximum=1_000),
        Column("PM", "integer", minimum=0, maximum=1_000),
    ),
    r"machine_resources.*",
    key=("machine",),
)

RULES = Table(
    "rules",
    "anti-affinity between applications on one machine",
    (
        Column("app_present", "text"),
        Column("app_limited", "text"),
        Column("max_count", "integer", "containers", minimum=0, maximum=1_000_000),
    ),
    r"app_interference.*",
    key=("app_present", "app_limited"),
)

FORMAT = Format(
    "tianchi",
    "68,224 containers of 9,338 applications with day curves and anti-affinity, 6,000 machines",
    "Alibaba Tianchi global scheduling contest 2018, preliminary data set B",
    "contest data published for research; no licence file",
    (APPS, CONTAINERS, MACHINES, RULES),
)
