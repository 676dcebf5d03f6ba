"""Jobs that are graphs of tasks, with deadlines, on 249 machines at 90 % of CPU: the effect of the order when not every
job can be on time.

Real batch jobs are a few wide ones among thousands of narrow ones; a burst of wide ones exceeds the cluster for
minutes, and the order then decides which deadlines are missed. Jobs of Alibaba's 2018 trace (or synthetic ones without
--traces), see workloads/dag.py; a task starts when all pods of its parents have ended (barrier), its pods start one by
one as room appears. No contention: use equals requests, a pod runs its recorded duration. Every scheduler gets the same
noisy durations (log-normal, sd 1.5 x estimate error, 0.3 by default), never the true ones. Violation: core-seconds of
jobs that end after their deadline over all, and by number of jobs; a job that does not end is violated. Counted: jobs
that arrive in the window after the warm-up; the run continues until every job has ended.
Limits: no failures, no preemption, one tenant; interference and node QoS have no effect.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.model.arrays import Float
from cotenant.model.errors import InvalidInput
from cotenant.model.results.forms import RunSeries
from cotenant.policy.placement.job_order import JobOrder, OrderKnobs, time_needed, trust
from cotenant_lab.contract import Measures, PolicyInfo, RunResult, RunSpec, TaskExplanation
from cotenant_lab.scenarios.dag_loop import advance, play
from cotenant_lab.scenarios.dag_placement import place
from cotenant_lab.scenarios.dag_state import SAMPLE_S, DagState, Fixed, NodeChoice, prepare
from cotenant_lab.workloads import dag as workload
from cotenant_lab.workloads.dag import Arrivals
from cotenant_lab.workloads.job_parts import part_named

CORES = workload.NODES * workload.NODE_MILLI_CPU / 1000.0
WINDOW = (workload.WARM_UP_S, workload.WARM_UP_S + workload.MEASURED_S)
TIMED_EVERY = 64  # one placement in this many is timed
SMALL_WORK = 5_000.0  # core-seconds: below this a job is small
MAX_SLOWDOWNS = 2_000
TURNABLE = ("margin", "hopeless", "small_work", "share", "believe")
PLAIN = OrderKnobs()
# The best of 12 trials (the earlier knobs, then random ones) on the tuning half of the jobs, seeds 100 to 103, load
# 1.0.
OURS = OrderKnobs(margin=1.24, hopeless=0.9, small_work=20_000.0, share=0.5, cores=CORES, believe=0.8)


@dataclass(frozen=True, slots=True)
class DagPolicy:
    """A task order and a node choice."""

    info: PolicyInfo
    order: JobOrder
    where: NodeChoice
    knobs: OrderKnobs = PLAIN


POLICIES = (
    DagPolicy(
        PolicyInfo("fifo-first-fit", "by arrival; first node that fits", "rival"),
        JobOrder.ARRIVAL,
        NodeChoice.FIRST_FIT,
    ),
    DagPolicy(
        PolicyInfo("edf-best-fit", "earliest deadline of the job; fullest node", "rival"),
        JobOrder.DEADLINE,
        NodeChoice.BEST_FIT,
    ),
    DagPolicy(
        PolicyInfo("edf-least-allocated", "earliest deadline of the job; emptiest node", "rival"),
        JobOrder.DEADLINE,
        NodeChoice.LEAST_ALLOCATED,
    ),
    DagPolicy(
        PolicyInfo("shortest-work", "least estimated work left in the job; fullest node", "rival"),
        JobOrder.REMAINING_WORK,
        NodeChoice.BEST_FIT,
    ),
    DagPolicy(
        PolicyInfo("least-slack", "least slack on the estimated path to the job's end; fullest node", "rival"),
        JobOrder.LATEST_START,
        NodeChoice.BEST_FIT,
    ),
    DagPolicy(
        PolicyInfo(
            "cotenant", "least slack on path and width, small jobs first, hopeless jobs behind; fullest node", "ours"
        ),
        JobOrder.LATEST_START,
        NodeChoice.BEST_FIT,
        OURS,
    ),
    DagPolicy(
        PolicyInfo("cotenant-no-shedding", "ours, hopeless jobs keep their position", "ablation"),
        JobOrder.LATEST_START,
        NodeChoice.BEST_FIT,
        OURS._replace(hopeless=0.0),
    ),
    DagPolicy(
        PolicyInfo("cotenant-no-small-first", "ours, small jobs without precedence", "ablation"),
        JobOrder.LATEST_START,
        NodeChoice.BEST_FIT,
        OURS._replace(small_work=0.0),
    ),
    DagPolicy(
        PolicyInfo("cotenant-no-width", "ours, slack on the path alone", "ablation"),
        JobOrder.LATEST_START,
        NodeChoice.BEST_FIT,
        OURS._replace(share=0.0),
    ),
    DagPolicy(
        PolicyInfo("cotenant-no-cap", "ours, estimates are not capped", "ablation"),
        JobOrder.LATEST_START,
        NodeChoice.BEST_FIT,
        OURS._replace(believe=0.0),
    ),
)


class Dag:
    """The scenario (`cotenant_lab.contract.Scenario`)."""

    name = "dag"
    summary = "DAG jobs with deadlines and barriers on 249 machines at 90 % of CPU"
    provenance = (
        "real jobs of Alibaba's 2018 trace re-weighted to the full trace's tasks per job, with --traces; "
        "without, synthetic jobs calibrated to its published figures"
    )
    default_load = 0.90
    default_policies = tuple(p.info.name for p in POLICIES if p.info.role != "ablation")
    headline = (
        "violation",
        "violation_count",
        "success",
        "slowdown_p50",
        "slowdown_p95",
        "slowdown_p99",
        "wait_p99_s",
        "utilisation",
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        """Rivals, ours, ablations of ours."""
        return tuple(p.info for p in POLICIES)

    def check(self, spec: RunSpec) -> None:
        """Raise `InvalidInput` for a specification that cannot run."""
        part_named(spec.workload)
        if spec.policy not in (p.info.name for p in POLICIES):
            raise InvalidInput("--policies", spec.policy, "one of " + ", ".join(p.info.name for p in POLICIES))
        if not 0.05 <= spec.load <= 2.0:
            raise InvalidInput("--load", spec.load, "a fraction of the CPU from 0.05 to 2")
        if not 0.0 <= spec.estimate_error <= 3.0:
            raise InvalidInput("--estimate-error", spec.estimate_error, "a standard deviation from 0 to 3")
        known = TURNABLE if _policy(spec).order == JobOrder.LATEST_START else ()
        for name, value in spec.overrides:
            if name not in known:
                raise InvalidInput(
                    "knob", name, "one of " + ", ".join(known) if known else "none: this policy has no knobs"
                )
            if not isfinite(value) or value < 0:
                raise InvalidInput(f"knob {name}", value, "a finite number >= 0")
        if spec.traces is not None:
            workload.find_folders(spec.traces)

    def run(self, spec: RunSpec) -> RunResult:
        """Run the seed's jobs to their end. Equal specifications give equal results except for the latencies."""
        pool, arrivals, policy, knobs, fixed, state = self._begin(spec)
        warm = prepare(arrivals, workload.NODES, workload.NODE_MILLI_CPU, workload.NODE_MEMORY, WINDOW)
        play(1, -1, int(policy.order), int(policy.where), knobs, *warm)
        start = time.perf_counter()
        latency = _play(policy, knobs, fixed, state)
        return _result(spec, pool, arrivals, fixed, state, latency, time.perf_counter() - start)

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """`task` is JOB.TASK: the number of the job in order of arrival, and the task's within the job, both from 0."""
        _, arrivals, policy, knobs, fixed, state = self._begin(spec)
        job, position = _parse(task, arrivals)
        t = int(arrivals.graph.start[job]) + position
        play(1 << 60, t, int(policy.order), int(policy.where), knobs, fixed, state)
        return _explain(arrivals, policy, knobs, fixed, state, task, t)

    def _begin(self, spec: RunSpec) -> tuple[workload.JobPool, Arrivals, DagPolicy, OrderKnobs, Fixed, DagState]:
        self.check(spec)
        policy = _policy(spec)
        pool = workload.load_pool(spec.traces, part_named(spec.workload))
        arrivals = workload.make(pool, spec.load, spec.seed, spec.estimate_error)
        fixed, state = prepare(arrivals, workload.NODES, workload.NODE_MILLI_CPU, workload.NODE_MEMORY, WINDOW)
        return pool, arrivals, policy, policy.knobs._replace(**dict(spec.overrides)), fixed, state


def _policy(spec: RunSpec) -> DagPolicy:
    return next(p for p in POLICIES if p.info.name == spec.policy)


def _play(policy: DagPolicy, knobs: OrderKnobs, fixed: Fixed, state: DagState) -> Float:
    """Run to the end; microseconds of the timed placements."""
    order, where = int(policy.order), int(policy.where)
    latency = []
    while play(TIMED_EVERY - 1, -1, order, where, knobs, fixed, state) and advance(order, knobs, fixed, state):
        start = time.perf_counter_ns()
        place(where, knobs, fixed, state)
        latency.append((time.perf_counter_ns() - start) / 1000.0)
    return np.array(latency)


def _share_of(part: NDArray[np.generic], whole: NDArray[Any]) -> float:
    return float(part.sum() / whole.sum()) if whole.sum() > 0 else 0.0


def _result(
    spec: RunSpec,
    pool: workload.JobPool,
    arrivals: Arrivals,
    fixed: Fixed,
    state: DagState,
    latency: Float,
    run_s: float,
) -> RunResult:
    counted = arrivals.measured
    work = workload.work_of(arrivals.graph)
    late = state.end_s > arrivals.deadline_s
    slowdown = np.sort(((state.end_s - arrivals.arrival_s) / arrivals.isolated_s)[counted])
    tasks = counted[fixed.job]
    wait = (state.started_s - state.ready_s)[tasks]
    speed = 1.0 / slowdown
    seconds = WINDOW[1] - WINDOW[0]
    p50, p95, p99 = (float(x) for x in np.percentile(slowdown, (50, 95, 99)))
    measures = Measures(
        success=1.0 - _share_of(state.late_pods[tasks], fixed.pods[tasks]),
        utilisation=float(state.used[0]) / (CORES * seconds),
        utilisation_memory=float(state.used[1]) * workload.GIB / (workload.NODES * workload.NODE_MEMORY * seconds),
        violation=_share_of((work * late)[counted], work[counted]),
        violation_batch=_share_of((work * late)[counted], work[counted]),
        violation_count=float(late[counted].mean()),
        task_fairness=float(speed.sum() ** 2 / (len(speed) * (speed**2).sum())),
        slowdown_p50=p50,
        slowdown_p95=p95,
        slowdown_p99=p99,
        wait_p99_s=float(np.percentile(wait, 99)),
        decision_p50_us=float(np.percentile(latency, 50)) if len(latency) else 0.0,
        decision_p99_us=float(np.percentile(latency, 99)) if len(latency) else 0.0,
        run_s=run_s,
    )
    by_class = []
    for k in workload.TIGHTNESS:
        chosen = counted & (arrivals.tightness == k)
        by_class.append((f"violation at deadline factor {k:g}", _share_of((work * late)[chosen], work[chosen])))
    small = counted & (work < SMALL_WORK)
    large = counted & ~small
    by_class += [
        (f"jobs late, below {SMALL_WORK:g} core-seconds", _share_of(late[small] * 1.0, np.ones(small.sum()))),
        (f"jobs late, from {SMALL_WORK:g} core-seconds", _share_of(late[large] * 1.0, np.ones(large.sum()))),
        ("work of jobs late and small", _share_of((work * late)[small], work[counted])),
    ]
    hours = np.arange(int(WINDOW[1] // SAMPLE_S) + 1, dtype=np.float64) * SAMPLE_S / 3600.0
    series = (
        RunSeries("allocated", "time (h)", "requested CPU (%)", hours, state.samples[:, 0] * 100.0),
        RunSeries(
            "backlog", "time (h)", "CPU of waiting ready pods (% of the cluster)", hours, state.samples[:, 1] * 100.0
        ),
    )
    pods = int(fixed.pods.sum())
    notes = (
        pool.source,
        f"{workload.NODES} machines of {workload.NODE_MILLI_CPU // 1000} cores; {len(counted):,} jobs, "
        f"{len(fixed.job):,} tasks, {pods:,} pods "
        f"over {sum((workload.WARM_UP_S, workload.MEASURED_S, workload.TAIL_S)) / 3600:g} h; {int(counted.sum()):,} "
        "jobs counted",
        "success: pods of counted jobs that started within 600 s of being ready; wait: from ready to the task's last "
        "pod; "
        "slowdown: arrival to end over the job alone, one value per job; fairness: Jain over the reciprocals",
        f"decision: one placement round (all that fits at an event), one in {TIMED_EVERY} timed, "
        f"{int(state.counts[3]):,} rounds",
        "load is exact over all arrivals; the part within the window differs by seed, since a few large jobs have "
        "most of the work",
        *pool.notes,
    )
    step = max(1, -(-len(slowdown) // MAX_SLOWDOWNS))
    return RunResult(spec, measures, series, slowdown[step // 2 :: step], None, tuple(by_class), notes)


def _parse(task: str, arrivals: Arrivals) -> tuple[int, int]:
    jobs = len(arrivals.arrival_s)
    job, dot, position = task.partition(".")
    if not dot or not job.isdecimal() or not position.isdecimal() or int(job) >= jobs:
        raise InvalidInput("TASK", task, f"JOB.TASK with a job from 0 to {jobs - 1:,}", "for example 12.0")
    tasks = int(arrivals.graph.start[int(job) + 1] - arrivals.graph.start[int(job)])
    if int(position) >= tasks:
        raise InvalidInput("TASK", task, f"a task of job {job} from 0 to {tasks - 1}")
    return int(job), int(position)


def _explain(
    arrivals: Arrivals, policy: DagPolicy, knobs: OrderKnobs, fixed: Fixed, state: DagState, task: str, t: int
) -> TaskExplanation:
    """The state is at the time the task became ready, before the placement."""
    j = int(fixed.job[t])
    ready = float(state.now[0])
    scale = trust(fixed.arrival_s[j], fixed.deadline_s[j], fixed.job_path_s[j], knobs)
    needed = float(time_needed(scale * fixed.path_s[t], scale * state.work_left[j], knobs))
    slack = float(arrivals.deadline_s[j]) - ready - needed
    queued = [
        int(q)
        for rank in range(2)
        for c in range(state.queued.shape[1])
        for q in state.queue[rank, c, : state.queued[rank, c]]
    ]
    ahead = sum((state.key[q], q) < (state.key[t], t) for q in queued)
    lines = [
        f"job {j} arrived at {arrivals.arrival_s[j]:.0f} s, due at {arrivals.deadline_s[j]:.0f} s, "
        f"{arrivals.isolated_s[j]:.0f} s alone",
        f"task of {fixed.pods[t]:,} pods of {fixed.cpu[t] / 1000:g} cores, {fixed.memory[t] / workload.GIB:.2f} GiB; "
        f"ready at {ready:.0f} s, when its {int(fixed.parents[t])} parents had ended",
        f"estimated to the job's end: {fixed.path_s[t]:.0f} s of path, {state.work_left[j]:,.0f} core-seconds of "
        f"work, scaled to {scale:.0%}; slack {slack:.0f} s",
        f"key {state.key[t]:.1f} ({policy.info.summary}); {ahead} of {len(queued) - 1} other ready tasks were ahead "
        "of it",
    ]
    fits, rejected, candidates = _nodes(policy, fixed, state, t)
    lines.append(f"{fits} of {workload.NODES} machines had room for a pod when it became ready")
    place(int(policy.where), knobs, fixed, state)
    while state.waiting[t] == fixed.pods[t] and advance(int(policy.order), knobs, fixed, state):
        fits, rejected, candidates = _nodes(policy, fixed, state, t)
        place(int(policy.where), knobs, fixed, state)
    first = float(state.now[0])
    given_up = any(t in state.queue[1, c, : state.queued[1, c]] for c in range(state.queued.shape[1]))
    if given_up:
        lines.append(
            "given up before it could start: its job was estimated to miss its deadline, so it was queued behind jobs "
            "that could meet theirs"
        )
    play(1 << 60, -1, int(policy.order), int(policy.where), knobs, fixed, state)
    lines.append(f"its last pod started at {state.started_s[t]:.0f} s")
    late = float(state.end_s[j]) - float(arrivals.deadline_s[j])
    lines.append(
        f"the job ended at {state.end_s[j]:.0f} s, {abs(late):.0f} s {'late' if late > 0 else 'before its deadline'}"
    )
    outcome = (
        f"started at once, at {first:.0f} s"
        if first == ready
        else f"started at {first:.0f} s, after {first - ready:.0f} s"
    )
    return TaskExplanation(task, outcome, tuple(lines), rejected, candidates)


Candidates = tuple[tuple[str, float, tuple[tuple[str, float], ...]], ...]


def _nodes(
    policy: DagPolicy, fixed: Fixed, state: DagState, t: int
) -> tuple[int, tuple[tuple[str, int], ...], Candidates]:
    """Before a placement: number of machines with room for a pod of task t, the rejections by reason, and the best
    five by the policy's score.
    """
    no_cpu = state.free_cpu < fixed.cpu[t]
    no_memory = ~no_cpu & (state.free_memory < fixed.memory[t])
    rejected = tuple(
        (text, int(which.sum())) for text, which in (("Insufficient cpu", no_cpu), ("Insufficient memory", no_memory))
    )
    rows = np.flatnonzero(~no_cpu & ~no_memory)
    cpu, memory = state.free_cpu[rows] / fixed.node_cpu, state.free_memory[rows] / fixed.node_memory
    sign = {NodeChoice.FIRST_FIT: 0.0, NodeChoice.BEST_FIT: -1.0, NodeChoice.LEAST_ALLOCATED: 1.0}[policy.where]
    order = np.lexsort((rows, -sign * (cpu + memory)))[:5]
    candidates = tuple(
        (
            f"machine {rows[i]}",
            float(sign * (cpu[i] + memory[i])),
            (("free CPU", float(sign * cpu[i])), ("free memory", float(sign * memory[i]))),
        )
        for i in order
    )
    return len(rows), tuple(entry for entry in rejected if entry[1]), candidates


SCENARIOS = (Dag(),)
