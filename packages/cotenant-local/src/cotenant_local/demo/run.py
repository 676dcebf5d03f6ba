"""One simulated day on the same nodes for each way to run them, through the whole loop.

A newcomer wants to see the loop close without a cluster: manifests in, pods placed by a real scheduler process, load
rising, objectives met or missed, and what it gains. For each way a local cluster of its own, one after another, with
equal nodes, seed and speed; more batch work arrives than fits by requests, so that what is lent shows; the workload is
submitted as ordinary Deployments and Jobs; the cluster is sampled twice a second. The day starts at midnight of the
simulated world once everything is ready, however long that took. On a machine that is too busy the cluster falls behind
the day, and its figures would describe the machine: `DayOutcome.behind` says so.
Limits: it runs in real time, so two runs are similar, not equal, and one day of one seed is a demonstration; for
comparisons with intervals there is the lab (`cotenant lab compare`).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import perf_counter

import aiohttp

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PROFILES
from cotenant.services.warming import is_warm
from cotenant_local.up.cluster import LocalCluster
from cotenant_local.up.config import UpConfig
from cotenant_local.up.lending import POLICIES
from cotenant_local.up.warming import warm_apart
from cotenant_local.workloads.script import DAY_S

SHOWN = ("kube-default", "kube-default+usage", "cotenant+peak")
LOAD = 1.2  # share of the nodes' CPU that services and batch request: more than kube-default can place
WAIT = "scheduler_pod_scheduling_sli_duration_seconds_bucket"
SAMPLE_S = 0.5
LOOK_S = 0.05
SETTLING_HOURS = 3.0
LONGEST_LAG_HOURS = 1.0  # simulated, between two samples or from created to bound (p99) while there is room for all

Say = Callable[[str], None]
Tick = Callable[[str, float], None]  # profile, share of its run that is done
Assess = Callable[[Path], str]  # kubeconfig -> what is said of the cluster
Show = Callable[[str, str], None]  # profile, the link to its cluster's console; empty when both are gone


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """What to show. Raises `InvalidInput` with the option's name."""

    profiles: tuple[str, ...] = SHOWN  # PROFILE, or PROFILE+POLICY with a manager that lends by this policy
    nodes: int = 100
    workload: str = "founding"
    load: float = LOAD
    seconds: float = 35.0  # of wall time for each profile
    days: float = 0.6  # simulated, from midnight: the load rises to its noon peak
    seed: int = 1

    def __post_init__(self) -> None:
        known = [profile.name for profile in PROFILES]
        for entry in self.profiles:
            name, plus, policy = entry.partition("+")
            if name not in known:
                raise InvalidInput("--profile", entry, "one of " + ", ".join(known))
            if plus and policy not in POLICIES:
                raise InvalidInput("--profile", entry, f"{name}+POLICY with one of " + ", ".join(POLICIES))
        if not self.profiles:
            raise InvalidInput("--profile", "", "at least one profile")
        if not 0.3 <= self.load <= 2.0:
            raise InvalidInput("--load", self.load, "0.3 to 2.0")
        if not 5 <= self.seconds <= 3600:
            raise InvalidInput("--seconds", self.seconds, "5 to 3600")
        if self.nodes < 1:
            raise InvalidInput("--nodes", self.nodes, "1 or more")

    @property
    def speed(self) -> float:
        """Simulated seconds a second."""
        return self.days * DAY_S / self.seconds


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The cluster at one instant. Shares are fractions."""

    hours: float  # simulated, of a 24-hour day
    cpu_requested: float
    cpu_used: float
    violation: float  # share of the replicas that miss their objective now
    batch_pace: float  # batch work done, in CPU time alone on a node
    pods: int


@dataclass(slots=True)
class DayOutcome:
    """The result of one profile's day."""

    profile: str  # as written in the configuration
    samples: list[ClusterSample] = field(default_factory=list)
    hours_per_s: float = 0.0  # simulated hours a second
    submitted: int = 0  # pods
    placed: int = 0
    wait_p99_ms: float = 0.0  # from created to bound, until all services were placed, by the scheduler's metrics
    services_placed: bool = False
    stages_done: int = 0
    stages: int = 0
    ready_s: float = 0.0
    assessment: str = ""  # what `cotenant assess` says of the cluster at the end of the day, where it was asked

    @property
    def settled(self) -> list[ClusterSample]:
        """The samples after the settling time: replicas that have just started miss the windows before their start."""
        return [sample for sample in self.samples if sample.hours >= SETTLING_HOURS]

    def mean(self, name: str) -> float:
        """Mean of a sample's field over the settled part of the day."""
        return sum(getattr(sample, name) for sample in self.settled) / max(1, len(self.settled))

    @property
    def behind(self) -> str:
        """Why the figures do not describe the profile: how the cluster fell behind the day; empty where it kept up."""
        gaps = [after.hours - before.hours for before, after in pairwise(self.samples)]
        wait_hours = self.wait_p99_ms / 1000.0 * self.hours_per_s
        if not self.settled:
            return "no sample was taken after the settling time"
        if not self.services_placed:
            return f"only {self.placed} of {self.submitted} pods were placed, not all services among them"
        if max(gaps, default=0.0) > LONGEST_LAG_HOURS:
            return f"the nodes stood still for {max(gaps):.1f} simulated hours"
        if wait_hours > LONGEST_LAG_HOURS:
            return f"pods waited for up to {wait_hours:.1f} simulated hours (p99)"
        return ""

    @property
    def worst_violation(self) -> float:
        """The largest share of replicas that missed their objective at once, once settled."""
        return max((sample.violation for sample in self.settled), default=0.0)


def run(config: DemoConfig, tick: Tick, show: Show | None = None, assess: Assess | None = None) -> list[DayOutcome]:
    """One outcome for each profile, in the order given. Errors during a start are raised; every cluster is removed.
    `assess` is called with the kubeconfig of the first cluster after its day.

    `show` is called with the link to each cluster's console once it can be opened, and with an empty one after the day;
    None = there is no console.
    """
    import uvloop

    first = config.profiles[0]
    return [
        uvloop.run(_one(config, profile, tick, show, assess if profile == first else None))
        for profile in config.profiles
    ]


async def _one(config: DemoConfig, way: str, tick: Tick, show: Show | None, assess: Assess | None) -> DayOutcome:
    outcome = DayOutcome(way, hours_per_s=config.speed / DAY_S * 24.0)
    profile, _, policy = way.partition("+")
    if not is_warm(profile):
        await warm_apart(profile)
    with tempfile.TemporaryDirectory(prefix="cotenant-demo-") as folder:
        up = UpConfig(
            directory=Path(folder),
            nodes=config.nodes,
            workload=config.workload,
            load=config.load,
            is_ephemeral=True,
            has_extender=False,
            profile=profile,
            has_manager=bool(policy),
            lend=policy,
            speed=config.speed,
            seed=config.seed,
            has_console=show is not None,
        )
        began = perf_counter()
        async with LocalCluster(up) as cluster:
            await cluster.ready()
            outcome.ready_s = perf_counter() - began
            if show is not None:
                show(way, cluster.endpoints.console)
            await _day(config, cluster, outcome, tick)
            if assess is not None:
                outcome.assessment = await asyncio.to_thread(assess, cluster.endpoints.kubeconfig)
    if show is not None:
        show(way, "")
    return outcome


async def _day(config: DemoConfig, cluster: LocalCluster, outcome: DayOutcome, tick: Tick) -> None:
    async with aiohttp.ClientSession() as http:
        await cluster.nodes.start_day()
        began, first_day = perf_counter(), cluster.nodes.snapshot().day
        submitting = asyncio.create_task(_services_placed(cluster, http, outcome, began + config.seconds))
        await cluster.submit()
        while (elapsed := perf_counter() - began) < config.seconds:
            await asyncio.sleep(SAMPLE_S)
            seen = cluster.nodes.snapshot()
            outcome.samples.append(
                ClusterSample(
                    (seen.day - first_day) * 24.0,
                    seen.cpu_requested,
                    seen.cpu_used,
                    seen.violation,
                    seen.batch_pace,
                    seen.pods,
                )
            )
            tick(outcome.profile, min(1.0, elapsed / config.seconds))
        await submitting
        metrics = await _metrics(http, cluster.endpoints.scheduler_port)
        outcome.placed = round(_placed(metrics))
        if cluster.submitter is not None:
            outcome.submitted = cluster.submitter.progress.replicas + cluster.submitter.progress.pods
            outcome.stages_done = cluster.submitter.progress.completed_stages
            outcome.stages = cluster.submitter.progress.stages


async def _services_placed(
    cluster: LocalCluster, http: aiohttp.ClientSession, outcome: DayOutcome, until: float
) -> None:
    """Measure the first burst: until as many pods are placed as the services have replicas. Later batch waits for
    room, and its waiting says nothing about the scheduler.
    """
    while perf_counter() < until:
        metrics = await _metrics(http, cluster.endpoints.scheduler_port)
        replicas = cluster.submitter.progress.replicas if cluster.submitter is not None else 0
        if replicas and _placed(metrics) >= replicas:
            outcome.wait_p99_ms = quantile_ms(metrics, WAIT, 0.99)
            outcome.services_placed = True
            return
        await asyncio.sleep(LOOK_S)


async def _metrics(http: aiohttp.ClientSession, port: int) -> str:
    async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
        return await answer.text()


def _placed(metrics: str) -> float:
    lines = (line for line in metrics.splitlines() if line.startswith("scheduler_schedule_attempts_total{"))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'result="scheduled"' in line)


def quantile_ms(metrics: str, name: str, q: float) -> float:
    """A quantile of a Prometheus histogram (all its label sets together), interpolated within its bucket as PromQL
    does.
    """
    buckets: dict[float, float] = {}
    for line in metrics.splitlines():
        if line.startswith(name + "{"):
            labels, value = line[len(name) + 1 :].rsplit("} ", 1)
            le = labels.split('le="', 1)[1].split('"', 1)[0]
            bound = float("inf") if le == "+Inf" else float(le)
            buckets[bound] = buckets.get(bound, 0.0) + float(value)
    bounds: Sequence[float] = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    below, lower = 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= q * total and total:
            if bound == float("inf"):
                return lower * 1000
            return (lower + (bound - lower) * (q * total - below) / max(1e-9, buckets[bound] - below)) * 1000
        below, lower = buckets[bound], bound
    return 0.0
