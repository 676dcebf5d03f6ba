"""training: jobs of many pods, of several organisations, on nodes with eight GPUs, scheduled by the cluster's own
engine.

The benefit of gangs, quotas, topology and device choice is often claimed and rarely measured. One workload, one world,
one engine (engine/cluster.py, the one that `cotenant up` and a real cluster run), and policies that differ in the
enabled features: pods one by one, gangs, quotas, racks, devices. Features are enabled by the pods and objects, as in a
cluster.
Limits: traces of such jobs with their members are not public, so the workload is drawn
(cotenant_lab/workloads/training.py); the cost of an interruption is our assumption
(cotenant_lab/clusterworld/config.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from time import perf_counter

import numpy as np

from cotenant.model.arrays import Float
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import GangMode
from cotenant.model.results.forms import RunSeries
from cotenant_lab.clusterworld.config import WAIT_FOR_PODS_READY_S, ClusterConfig
from cotenant_lab.clusterworld.features import COUNTED, SPREAD, Features, make_cluster, pod_attributes
from cotenant_lab.clusterworld.job import WorldJob
from cotenant_lab.clusterworld.racks import racked_nodes
from cotenant_lab.clusterworld.usage import UsageTotals, jain
from cotenant_lab.clusterworld.world import ClusterWorld, JobLog
from cotenant_lab.contract import Measures, PolicyInfo, RunResult, RunSpec, TaskExplanation
from cotenant_lab.workloads import training as workload

WINDOW = (workload.WARM_UP_S, workload.HORIZON_S)
MAX_SLOWDOWNS = 2_000
MAX_LINES = 60
_GPUS_A_RACK = workload.GPUS_A_NODE * workload.NODES_A_RACK


@dataclass(frozen=True, slots=True)
class TrainingPolicy:
    """A node scoring, and the enabled features."""

    info: PolicyInfo
    features: Features
    timeout_s: float = inf  # after this time the job's controller requeues an incomplete job


def _one_by_one(
    name: str, summary: str, role: str, features: Features, timeout_s: float = WAIT_FOR_PODS_READY_S
) -> TrainingPolicy:
    return TrainingPolicy(PolicyInfo(name, summary, role), features, timeout_s)


def _together(name: str, summary: str, role: str, **features: object) -> TrainingPolicy:
    together = replace(Features("best-fit", gang=GangMode.STRICT), **features)  # type: ignore[arg-type]
    return TrainingPolicy(PolicyInfo(name, summary, role), together)


_REQUEUED = "jobs that are not complete after 5 min are requeued"
POLICIES: tuple[TrainingPolicy, ...] = (
    _together("cotenant", "gangs Strict, quotas, racks; full devices first", "ours", quotas=True, racks=True),
    _one_by_one(
        "kube-default",
        f"pods one by one by kube-scheduler's score; {_REQUEUED}",
        "rival",
        Features("kube-default", devices=COUNTED),
    ),
    _one_by_one("pods", f"pods one by one, full nodes and devices first; {_REQUEUED}", "rival", Features("best-fit")),
    _together(
        "gangs-nonstrict", "gangs NonStrict: members keep what they have found", "variant", gang=GangMode.NON_STRICT
    ),
    _together("gangs", "gangs Strict, and nothing else", "ablation"),
    _together("gangs-quotas", "gangs Strict and quotas: ours without racks", "ablation", quotas=True),
    _together("gangs-racks", "gangs Strict and racks: ours without quotas", "ablation", racks=True),
    _together("cotenant-spread", "ours, idle devices first", "ablation", quotas=True, racks=True, devices=SPREAD),
    _one_by_one(
        "pods-forever", "pods one by one, incomplete jobs keep what they hold", "variant", Features("best-fit"), inf
    ),
)


class Training:
    """The scenario (`cotenant_lab.contract.Scenario`)."""

    name = "training"
    summary = (
        "jobs of 1 to 64 pods of eight teams on 192 GPUs: gangs, quotas, racks and devices, by the cluster's own engine"
    )
    provenance = (
        "synthetic: sizes and durations of Philly as Gavel samples them, shares of a GPU as in openb; see "
        "cotenant_lab/workloads/training.py"
    )
    default_load = 1.1
    default_policies: tuple[str, ...] = tuple(p.info.name for p in POLICIES if p.info.name != "pods-forever")
    headline: tuple[str, ...] = (
        "completion_mean_s",
        "completion_p50_s",
        "completion_p99_s",
        "wait_mean_s",
        "held_idle",
        "utilisation_used",
        "granted_fairness",
        "guarantee_missed",
        "racks_crossed",
        "preemptions",
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        """All policies, ours first."""
        return tuple(policy.info for policy in POLICIES)

    def check(self, spec: RunSpec) -> None:
        """Raise `InvalidInput` for a specification that cannot run."""
        names = [policy.info.name for policy in POLICIES]
        if spec.policy not in names:
            raise InvalidInput("--policies", spec.policy, "one of " + ", ".join(names))
        if not 0.01 <= spec.load <= 1.5:
            raise InvalidInput("--load", spec.load, "a fraction of the GPUs from 0.01 to 1.5")
        if not 0.0 <= spec.interference <= 10.0:
            raise InvalidInput(
                "--interference", spec.interference, "a number from 0 to 10: scale of a job's loss across racks"
            )
        for name, _ in spec.overrides:
            raise InvalidInput(
                "knob", name, "none: these policies differ by enabled features, and each combination is a policy"
            )

    def run(self, spec: RunSpec) -> RunResult:
        """Run the seed's jobs to their end. Equal specifications give equal results except for the latencies."""
        started = perf_counter()
        world = _world(spec)
        world.run()
        return _result(spec, world, perf_counter() - started)

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """`task` is the number of a job in order of arrival, from 0."""
        self.check(spec)
        plans = workload.jobs(spec.load, spec.seed)
        if not task.isdecimal() or int(task) >= len(plans):
            raise InvalidInput("TASK", task, f"the number of a job from 0 to {len(plans) - 1}")
        log = JobLog(int(task))
        world = _world(spec, log)
        world.run()
        job = world.jobs[int(task)]
        plan, team = job.plan, workload.TEAMS[job.plan.team]
        head = (
            f"job {plan.number} of team {team.name} ({team.organisation}): {plan.pods} pods of {plan.gpu_percent} % "
            "of a GPU, "
            f"{plan.duration_s:,.0f} s alone, priority {plan.priority}"
        )
        lines = log.lines
        if len(lines) > MAX_LINES:
            lines = [*lines[: MAX_LINES // 2], f"... {len(lines) - MAX_LINES} more ...", *lines[-MAX_LINES // 2 :]]
        if not job.ended:
            outcome = "never ended"
        else:
            outcome = (
                f"ran first after {job.first_run_s - plan.arrival_s:,.0f} s, ended after "
                f"{job.ended_s - plan.arrival_s:,.0f} s"
            )
        return TaskExplanation(task, outcome, (head, *lines))


def _world(spec: RunSpec, log: JobLog | None = None) -> ClusterWorld:
    policy = next(policy for policy in POLICIES if policy.info.name == spec.policy)
    nodes = racked_nodes(workload.NODES)
    rng = np.random.default_rng([spec.seed, 43])
    cluster = make_cluster(policy.features, len(nodes), rng)
    plans = workload.jobs(spec.load, spec.seed)
    group = np.array([workload.ORGANISATIONS.index(team.organisation) for team in workload.TEAMS], dtype=np.int64)
    usage = UsageTotals(float(workload.GPUS_A_NODE * len(nodes)), workload.owed_gpus(len(nodes)), group, WINDOW)
    usual = ClusterConfig()
    config = replace(
        usual,
        timeout_s=policy.timeout_s,
        crossing=usual.crossing * spec.interference,
        between_failures_s=usual.between_failures_s if spec.failures else inf,
    )
    return ClusterWorld(
        cluster,
        nodes,
        plans,
        lambda plan: pod_attributes(policy.features, plan),
        usage,
        config,
        np.random.default_rng([spec.seed, 47]),
        float(_GPUS_A_RACK),
        log,
    )


def _percentiles(values: Float) -> tuple[float, float, float]:
    p50, p95, p99 = np.percentile(values, (50, 95, 99))
    return float(p50), float(p95), float(p99)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _result(spec: RunSpec, world: ClusterWorld, run_s: float) -> RunResult:
    usage = world.usage
    counted = [job for job in world.jobs if job.plan.arrival_s >= WINDOW[0]] or world.jobs
    completion = np.array([_until(job.ended_s, world.now_s) - job.plan.arrival_s for job in counted])
    wait = np.array([_until(job.first_run_s, world.now_s) - job.plan.arrival_s for job in counted])
    slowdown = np.sort(completion / np.array([job.plan.duration_s for job in counted]))
    wide = [job for job in counted if job.plan.pods > 1 and job.plan.gpus <= _GPUS_A_RACK]
    latency = np.array(world.decision_us or [0.0])
    total = usage.gpus * usage.seconds
    p50, _, p99 = _percentiles(completion)
    slow = _percentiles(slowdown)
    asking = usage.deserved > 0
    measures = Measures(
        success=float(np.mean([job.ended for job in counted])),
        utilisation=_ratio(float(usage.held.sum()), total),
        utilisation_used=_ratio(float(usage.computing.sum()), total),
        granted_fairness=jain(usage.held[asking] / usage.deserved[asking]),
        slowdown_p50=slow[0],
        slowdown_p95=slow[1],
        slowdown_p99=slow[2],
        wait_p99_s=float(np.percentile(wait, 99)),
        wait_mean_s=float(wait.mean()),
        wait_p50_s=float(np.median(wait)),
        completion_mean_s=float(completion.mean()),
        completion_p50_s=p50,
        completion_p99_s=p99,
        held_idle=1.0 - _ratio(float(usage.computing.sum()), float(usage.held.sum())),
        guarantee_missed=_ratio(float(usage.missed.sum()), float(usage.guaranteed.sum())),
        racks_crossed=_ratio(sum(job.crossed for job in wide), sum(job.runs for job in wide)),
        evictions=float(world.lost),
        preemptions=float(world.preempted),
        decision_p50_us=float(np.median(latency)),
        decision_p99_us=float(np.percentile(latency, 99)),
        decision_total_s=world.decision_s,
        run_s=run_s,
    )
    hours = np.array([at_s / 3600.0 for at_s, _, _ in world.samples])
    series = (
        RunSeries(
            "allocated",
            "time (h)",
            "GPUs held (%)",
            hours,
            np.array([h for _, h, _ in world.samples]) / usage.gpus * 100,
        ),
        RunSeries(
            "computing",
            "time (h)",
            "GPUs computing (%)",
            hours,
            np.array([c for _, _, c in world.samples]) / usage.gpus * 100,
        ),
    )
    step = max(1, -(-len(slowdown) // MAX_SLOWDOWNS))
    pods = sum(job.plan.pods for job in world.jobs)
    notes = (
        f"{workload.NODES} nodes of {workload.GPUS_A_NODE} GPUs in {workload.NODES // workload.NODES_A_RACK} racks; "
        f"{len(world.jobs):,} jobs of "
        f"{pods:,} pods over {workload.HORIZON_S / 3600:g} h, {len(counted):,} counted; durations are Philly's / "
        f"{workload.TIME_SCALE:g}",
        "the engine is the cluster's own (engine/cluster.py); policies differ by the features that pods and objects "
        "enable",
        f"a job whose pods are not all in one rack takes {ClusterConfig().crossing * spec.interference:.0%} longer; "
        f"interrupted jobs restart from their last checkpoint ({ClusterConfig().checkpoint_s:g} s apart)",
        f"guaranteed GPUs: {', '.join(f'{team.name} {team.owed_gpus}' for team in workload.TEAMS)}",
        f"{world.failed_binds} binds failed; the run ended at {world.now_s / 3600:.1f} h",
    )
    return RunResult(
        spec, measures, series, slowdown[step // 2 :: step], None, _by_class(world, counted, completion, wait), notes
    )


def _until(at_s: float, end_s: float) -> float:
    return at_s if at_s == at_s else end_s


def _by_class(
    world: ClusterWorld, counted: list[WorldJob], completion: Float, wait: Float
) -> tuple[tuple[str, float], ...]:
    usage = world.usage
    gpus = np.array([job.plan.gpus for job in counted])
    figures: list[tuple[str, float]] = []
    for name, low, high in (
        ("below 1 GPU", 0, 0.99),
        ("1 GPU", 1, 1),
        ("2 to 8 GPUs", 2, 8),
        ("16 to 64 GPUs", 16, 64),
    ):
        inside = (gpus >= low) & (gpus <= high)
        if inside.any():
            figures.append((f"wait, mean seconds: {name}", float(wait[inside].mean())))
            figures.append((f"completion, mean seconds: {name}", float(completion[inside].mean())))
    urgent = np.array([job.plan.priority == workload.URGENT for job in counted])
    if urgent.any():
        figures.append(("wait, mean seconds: urgent", float(wait[urgent].mean())))
    for at, team in enumerate(workload.TEAMS):
        figures.append((f"held / deserved: {team.name}", _ratio(float(usage.held[at]), float(usage.deserved[at]))))
    work = sum(job.plan.work for job in counted)
    figures += [
        ("computed again, share of the work", _ratio(sum(job.lost_s * job.plan.gpus for job in counted), work)),
        ("jobs requeued as incomplete, times", float(sum(job.requeued for job in world.jobs))),
        ("interruptions", float(sum(job.interruptions for job in world.jobs))),
    ]
    return tuple(figures)


SCENARIOS = (Training(),)
