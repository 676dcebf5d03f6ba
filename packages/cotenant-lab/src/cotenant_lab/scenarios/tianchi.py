"""Real containers placed one by one until the machines are full: 250 machines, all anti-affinity rules, no departures,
no retries.

Placement policies differ when items are large, constrained, and the cluster is nearly full. Containers of Alibaba's
2018 contest arrive in random order up to `load` of the CPU (130 % by default); each is placed at once or refused for
good. A container that fits on some machine is always placed (work-conserving), by every policy. Fragment: CPU that a
random real container (CPU, memory, disk) could not use, as a fraction of capacity. Requests are peaks over the day, so
no time passes here and interference, estimates, failures and node QoS have no effect.
Limits: the real use of a machine is reported, but decides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan

import numpy as np

from cotenant.model.arrays import Float, Int, Mask, NodeArrays, ShapeArrays
from cotenant.model.compiled import njit
from cotenant.model.errors import InvalidInput
from cotenant.model.results.forms import RunSeries
from cotenant.policy.placement import compiled
from cotenant.policy.placement.codes import Fit, Score
from cotenant.policy.placement.compiled import choose, commit, plain_rejections, plain_scores, sample_size
from cotenant.policy.placement.knobs import Knobs
from cotenant.policy.placement.leftover import Leftover, LeftoverKnobs, leftover, leftover_choose, leftover_parts
from cotenant.policy.placement.topology import group_antiaffinity
from cotenant.policy.placement.topology.group_antiaffinity import GroupRules, GroupVerdict, narrow, plain_verdicts
from cotenant_lab.contract import MachineMap, Measures, PolicyInfo, RunResult, RunSpec, TaskExplanation
from cotenant_lab.workloads import tianchi as workload

CPU_STEP, MEMORY_STEP = 1000, 2 * workload.GIB  # grid of the waste table: one core, 2 GiB
CHECKPOINTS = (0.77, 0.90, 1.00)  # loads at which success, allocation and fragment are also reported
STEP = 0.01  # of load, between two points of the curves
OURS = "cotenant"


@dataclass(frozen=True, slots=True)
class Rival:
    """A policy given by a score of the compiled placement."""

    info: PolicyInfo
    score: Score
    random_ties: bool = False
    samples_nodes: bool = False


RIVALS = (
    Rival(PolicyInfo("random", "any machine that may take it, uniformly", "rival"), Score.NONE, random_ties=True),
    Rival(PolicyInfo("least-allocated", "most CPU and memory left over", "rival"), Score.LEAST_ALLOCATED),
    Rival(PolicyInfo("dot-product", "demand aligned with what is free", "rival"), Score.DOT_PRODUCT),
    Rival(PolicyInfo("first-fit", "the first machine that may take it", "rival"), Score.NONE),
    Rival(PolicyInfo("best-fit", "least CPU and memory left over", "rival"), Score.BEST_FIT),
    Rival(PolicyInfo("balance", "least gap between CPU and memory fractions", "rival"), Score.BALANCE),
    Rival(
        PolicyInfo("kube-default", "kube-scheduler: least-allocated + balanced, sampled nodes, random ties", "rival"),
        Score.KUBE_DEFAULT,
        random_ties=True,
        samples_nodes=True,
    ),
)
OWN: tuple[tuple[PolicyInfo, LeftoverKnobs], ...] = (
    (PolicyInfo(OURS, "least expected waste of what is left, plus the price of scarce room", "ours"), LeftoverKnobs()),
    (
        PolicyInfo("cotenant-no-scarcity", "ours without the price of scarce room", "ablation"),
        LeftoverKnobs(scarcity=0.0),
    ),
    (PolicyInfo("cotenant-no-waste", "ours without expected waste", "ablation"), LeftoverKnobs(waste=0.0)),
)

Chooser = Callable[[int], int]


@njit
def unusable(free: Int, request: Int, share: Float) -> float:
    """Milli-CPU free on all nodes that a shape drawn with `share[K]` could not use: sum over nodes of free x P(it does
    not fit).

    `request[K, R]` ascends in CPU, its first column.
    """
    shares = np.cumsum(share)
    total = 0.0
    for n in range(free.shape[0]):
        fits_cpu = np.searchsorted(request[:, 0], free[n, 0], side="right")
        fitting = 0.0
        for k in range(fits_cpu):
            fits = True
            for r in range(1, request.shape[1]):
                fits &= request[k, r] <= free[n, r]
            fitting += share[k] if fits else 0.0
        total += (shares[-1] - fitting) * free[n, 0]
    return total


def _chooser(
    spec: RunSpec, data: workload.TianchiContainers, world: workload.TianchiWorld
) -> tuple[Chooser, Leftover | None]:
    """The policy as a function from a shape to a row (-1 = none), on the world's own arrays."""
    nodes, shapes = world.nodes, world.shapes
    allowed = np.empty(len(nodes.capacity), np.bool_)

    def may_hold(k: int) -> bool:
        allowed[:] = True
        return narrow(nodes.group_count, k, data.rules, allowed) > 0

    own = {info.name: knobs for info, knobs in OWN}
    if spec.policy in own:
        knobs = own[spec.policy]._replace(**dict(spec.overrides))
        ours = leftover(nodes, shapes, data.rules, data.population.astype(np.float64), knobs, CPU_STEP, MEMORY_STEP)
        return lambda k: leftover_choose(nodes, shapes, k, allowed, ours) if may_hold(k) else -1, ours

    rival = next(r for r in RIVALS if r.info.name == spec.policy)
    rng = np.random.default_rng([spec.seed, 1])
    sample = sample_size(len(allowed)) if rival.samples_nodes else 0
    cursor, filters = np.zeros(1, np.int64), Knobs().array()
    fit, score, ties = int(Fit.REQUESTS), int(rival.score), rival.random_ties
    verdicts, scores = np.empty(len(allowed), np.int64), np.empty(len(allowed), np.float64)

    def by_score(k: int) -> int:
        if not may_hold(k):
            return -1
        return choose(nodes, shapes, k, allowed, fit, score, ties, sample, cursor, 0.0, filters, rng, verdicts, scores)

    return by_score, None


@dataclass(frozen=True, slots=True)
class _Course:
    """The course of a run, by arrival and by step of load."""

    row: Int  # [count]
    latency_us: Float  # [count]
    load: Float  # [points]
    allocated: Float
    fragment: Float
    success: Float


def _play(data: workload.TianchiContainers, world: workload.TianchiWorld, pick: Chooser) -> _Course:
    nodes, shapes = world.nodes, world.shapes
    capacity = float(nodes.capacity[:, 0].sum())
    apps = data.app_of[world.arrivals[: world.count]]
    requested = np.cumsum(shapes.request[apps, 0]) / capacity
    request, inverse = np.unique(shapes.request[data.population > 0], axis=0, return_inverse=True)
    share = np.bincount(inverse.ravel(), weights=data.population[data.population > 0]) / data.population.sum()
    row = np.full(world.count, -1, np.int64)
    latency = np.empty(world.count)
    points: list[tuple[float, float, float, float]] = []
    placed = 0

    def sample(load: float, arrived: int) -> None:
        allocated = float(nodes.requested[:, 0].sum()) / capacity
        fragment = unusable(nodes.capacity - nodes.requested, request, share) / capacity
        points.append((load, allocated, fragment, placed / max(1, arrived)))

    for i in range(world.count):
        while requested[i] > (len(points) + 1) * STEP:
            sample((len(points) + 1) * STEP, i)
        k = int(apps[i])
        start = time.perf_counter_ns()
        n = pick(k)
        latency[i] = (time.perf_counter_ns() - start) / 1000.0
        if n >= 0:
            row[i] = n
            placed += 1
            commit(nodes, n, shapes, k)
    sample(float(requested[-1]), world.count)
    columns = np.array(points).T
    return _Course(row, latency, columns[0], columns[1], columns[2], columns[3])


def _warm(spec: RunSpec, data: workload.TianchiContainers) -> None:
    """Compile before anything is timed, on a separate world."""
    world = workload.make(data, 0.02, spec.seed)
    pick, _ = _chooser(spec, data, world)
    _play(data, world, pick)


class Tianchi:
    """The scenario (`cotenant_lab.contract.Scenario`)."""

    name = "tianchi"
    summary = "real containers with day curves and anti-affinity, arriving until the machines are full"
    provenance = (
        "real: 68,224 containers of 9,338 applications with 33,416 anti-affinity rules, Alibaba's 2018 scheduling "
        "contest (data set B); "
        "needs --traces"
    )
    default_load = 1.30
    default_policies = (*(r.info.name for r in RIVALS), OURS)
    headline = (
        "first_failure",
        "success",
        "utilisation",
        "utilisation_memory",
        "fragmentation",
        "decision_p50_us",
        "decision_p99_us",
    )

    def policies(self) -> tuple[PolicyInfo, ...]:
        """Rivals first, then ours with its ablations."""
        return tuple(r.info for r in RIVALS) + tuple(info for info, _ in OWN)

    def check(self, spec: RunSpec) -> None:
        """Raise `InvalidInput` for a specification that cannot run; reads no data."""
        names = [info.name for info in self.policies()]
        if spec.policy not in names:
            raise InvalidInput("--policies", spec.policy, "one of " + ", ".join(names))
        if not 0.01 <= spec.load <= 3.0:
            raise InvalidInput("--load", spec.load, "a fraction of the CPU from 0.01 to 3")
        known = LeftoverKnobs._fields if spec.policy in (info.name for info, _ in OWN) else ()
        for name, value in spec.overrides:
            if name not in known:
                raise InvalidInput(
                    "knob", name, "one of " + ", ".join(known) if known else "none: this policy has no knobs"
                )
            if not np.isfinite(value) or value < 0 or (name == "patience" and value <= 1):
                raise InvalidInput(f"knob {name}", value, "a finite number >= 0 (patience: above 1)")
        workload.find_folder(spec.traces)

    def run(self, spec: RunSpec) -> RunResult:
        """Place every arrival. Equal specifications give equal results except for the latencies."""
        self.check(spec)
        data = workload.load(workload.find_folder(spec.traces))
        _warm(spec, data)
        start = time.perf_counter()
        world = workload.make(data, spec.load, spec.seed)
        pick, _ = _chooser(spec, data, world)
        course = _play(data, world, pick)
        return _result(spec, data, world, course, time.perf_counter() - start)

    def explain(self, spec: RunSpec, task: str) -> TaskExplanation:
        """`task` is a container's name, e.g. `inst_123`."""
        self.check(spec)
        data = workload.load(workload.find_folder(spec.traces))
        world = workload.make(data, spec.load, spec.seed)
        arrivals = world.arrivals[: world.count]
        found = [i for i, c in enumerate(arrivals) if data.container_names[c] == task]
        if not found:
            example = data.container_names[arrivals[-1]]
            raise InvalidInput(
                "TASK", task, f"a container that arrives in this run (seed {spec.seed})", f"for example {example}"
            )
        pick, ours = _chooser(spec, data, world)
        before = _play(data, replace(world, count=found[0]), pick) if found[0] else None
        return _explain(spec, data, world, pick, ours, task, found[0], before)


def _result(
    spec: RunSpec, data: workload.TianchiContainers, world: workload.TianchiWorld, course: _Course, run_s: float
) -> RunResult:
    nodes = world.nodes
    capacity = nodes.capacity.sum(axis=0).astype(np.float64)
    apps = data.app_of[world.arrivals[: world.count]]
    placed = course.row >= 0
    refused = np.flatnonzero(~placed)
    requested = np.cumsum(data.request[apps, 0]) / capacity[0]
    first = float(requested[refused[0]]) if len(refused) else nan
    curve = data.cpu_curve[apps[placed]].sum(axis=0) / capacity[0]
    by_class: list[tuple[str, float]] = []
    for load in CHECKPOINTS:
        if load <= course.load[-1]:
            at = int(np.argmin(np.abs(course.load - load)))
            percent = round(load * 100)
            by_class += [
                (f"success at {percent} % load", float(course.success[at])),
                (f"allocated at {percent} % load", float(course.allocated[at])),
                (f"fragment at {percent} % load", float(course.fragment[at])),
            ]
    by_class += [
        ("CPU in use at the day's peak", float(curve.max())),
        ("disk allocated", float(nodes.requested[:, 3].sum() / capacity[3])),
    ]
    notes = (
        "requests are each container's peak CPU and memory over the day, and its disk; arrivals in random order, no "
        "departures, no retry",
        "success, utilisation and fragmentation are those after the last arrival; every policy places whatever fits "
        "somewhere",
        "beyond saturation, success by number favours refusing large containers: compare it below 100 % load, and "
        "allocation above",
        *(() if len(refused) else ("no container was refused at this load: first_failure is undefined",)),
        *data.notes,
    )
    measures = Measures(
        success=float(placed.mean()),
        utilisation=float(course.allocated[-1]),
        utilisation_used=float(curve.mean()),
        utilisation_memory=float(nodes.requested[:, 1].sum() / capacity[1]),
        fragmentation=float(course.fragment[-1]),
        first_failure=first,
        decision_p50_us=float(np.percentile(course.latency_us, 50)),
        decision_p99_us=float(np.percentile(course.latency_us, 99)),
        decision_total_s=float(course.latency_us.sum() / 1e6),
        run_s=run_s,
    )
    x_label = "load offered (% of CPU)"
    series = tuple(
        RunSeries(name, x_label, y_label, course.load * 100.0, values * 100.0)
        for name, y_label, values in (
            ("allocated", "allocated CPU (%)", course.allocated),
            ("fragmentation", "CPU a random container could not use (%)", course.fragment),
            ("success", "containers placed so far (%)", course.success),
        )
    )
    machine = course.row[placed]
    machine_map = MachineMap(
        f"at {course.load[-1] * 100:.0f} % load offered",
        machine,
        tuple(data.app_names[a] for a in apps[placed]),
        data.request[apps[placed], 0] / nodes.capacity[machine, 0],
        np.ones(len(machine), np.bool_),
    )
    return RunResult(spec, measures, series, machine_map=machine_map, by_class=tuple(by_class), notes=notes)


def _explain(
    spec: RunSpec,
    data: workload.TianchiContainers,
    world: workload.TianchiWorld,
    pick: Chooser,
    ours: Leftover | None,
    task: str,
    at: int,
    before: _Course | None,
) -> TaskExplanation:
    nodes, shapes, rules = world.nodes, world.shapes, data.rules
    k = int(data.app_of[world.arrivals[at]])
    rejected, passing = _filtered(nodes, shapes, k, rules)
    parts: list[tuple[float, tuple[tuple[str, float], ...]]]
    if ours is not None:
        prices = leftover_parts(nodes, shapes, k, passing, ours)
        parts = [(-w - s, (("expected waste (cores)", -w), ("scarce room (cores)", -s))) for w, s in prices.tolist()]
    else:
        rival = next(r for r in RIVALS if r.info.name == spec.policy)
        scores = plain_scores(rival.score, nodes, shapes, k, passing, 0.0, Knobs().array())
        parts = [(float(s), ((spec.policy, float(s)),)) for s in scores]
    n = pick(k)
    best = sorted(range(len(passing)), key=lambda i: (passing[i] != n, -parts[i][0], passing[i]))[:5]
    request = shapes.request[k]
    lines = [
        f"{data.app_names[k]}: {request[0] / 1000:g} cores, {request[1] / workload.GIB:g} GiB, disk "
        f"{request[3] / workload.GIB:g} GiB; "
        f"arrival {at + 1:,} of {world.count:,}",
        f"{len(passing)} of {len(nodes.capacity)} machines could take it",
        f"{rules.by_start[k + 1] - rules.by_start[k]} rules of others restrict it, and it imposes "
        f"{rules.on_start[k + 1] - rules.on_start[k]}",
    ]
    if before is not None:
        lines.append(f"{int((before.row < 0).sum()):,} containers had been refused before")
    if n >= 0:
        held = int(nodes.group_count[n, k])
        lines.append(
            f"machine {n} had {(nodes.capacity[n, 0] - nodes.requested[n, 0]) / 1000:g} cores free and held {held} of "
            "its kind"
        )
    outcome = f"placed on machine {n}" if n >= 0 else "refused: no machine could take it"
    candidates = tuple((f"machine {passing[i]}", parts[i][0], parts[i][1]) for i in best)
    return TaskExplanation(task, outcome, tuple(lines), rejected, candidates)


def _filtered(
    nodes: NodeArrays, shapes: ShapeArrays, k: int, rules: GroupRules
) -> tuple[tuple[tuple[str, int], ...], Int]:
    """Machines rejected by reason, and the rows that pass, in filter order: rules, then resources."""
    verdict = plain_verdicts(nodes.group_count, k, rules)
    rejection = plain_rejections(nodes, shapes, k, Fit.REQUESTS, Knobs().array())
    allowed: Mask = verdict == GroupVerdict.ALLOWED
    counted = [(text, int((verdict == code).sum())) for code, text in group_antiaffinity.REASONS.items()]
    counted += [(text, int((allowed & (rejection == code)).sum())) for code, text in compiled.REASONS.items()]
    rows = np.flatnonzero(allowed & (rejection == 0)).astype(np.int64)
    return tuple((text, count) for text, count in counted if count), rows


SCENARIOS = (Tianchi(),)
