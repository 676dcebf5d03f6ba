"""Policies x paired seeds x loads, resumable.

A comparison is hundreds of runs; it must use every core, survive being killed, and name the runs that failed. A plan
lists its specifications; each finished run is stored under a digest of its specification, so the same command continues
where it stopped; failed runs are reported with their specification while the others continue. Seeds are the outermost
loop, so an interrupted experiment contains whole pairs.
Limits: runs share the machine, so decision latencies hold for that many parallel runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from math import inf, isfinite, isnan
from pathlib import Path

import numpy as np

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results.forms import RUNS, FrameCell
from cotenant_lab import registry, storage, workers
from cotenant_lab.contract import RunResult, RunSpec, Scenario
from cotenant_lab.metrics import METRICS
from cotenant_lab.storage import RunRecord

MAX_SLOWDOWNS = 2_000


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """What to run. `base` holds everything the runs share; its policy, seed, load and overrides are ignored."""

    base: RunSpec
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    loads: tuple[float, ...]
    overrides: tuple[tuple[str, str, float], ...] = ()  # policy, knob, value

    def specs(self) -> tuple[RunSpec, ...]:
        """Every run, seeds outermost."""
        base = storage.absolute(self.base)
        knobs = {policy: tuple((knob, v) for p, knob, v in self.overrides if p == policy) for policy in self.policies}
        return tuple(
            replace(base, policy=policy, seed=seed, load=load, overrides=knobs[policy])
            for seed in self.seeds
            for load in self.loads
            for policy in self.policies
        )


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A run that did not finish."""

    spec: RunSpec
    error: str
    detail: str = ""

    def line(self) -> str:
        """One line that identifies the run and its error."""
        return f"{self.spec.policy}, load {self.spec.load:g}, seed {self.spec.seed}: {self.error}"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of an experiment, reported after each run."""

    done: int
    total: int
    spec: RunSpec
    failed: bool


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    """The result of an experiment. `records` in the order of the specifications; `reused` of them were stored
    before.
    """

    records: tuple[RunRecord, ...]
    failures: tuple[RunFailure, ...]
    reused: int
    wall_s: float


def check(plan: ExperimentPlan, scenario: Scenario) -> None:
    """Raise `InvalidInput` if the plan cannot run: policies, knobs' owners, seeds and loads, then the scenario's
    own checks.
    """
    known = [info.name for info in scenario.policies()]
    for policy in (*plan.policies, *(owner for owner, _, _ in plan.overrides)):
        if policy not in known:
            close = get_close_matches(policy, known, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else f"known policies: {', '.join(known)}"
            raise InvalidInput("--policies", policy, f"a policy of {scenario.name}", hint)
    for owner, knob, value in plan.overrides:
        if owner not in plan.policies:
            raise InvalidInput("--set", f"{owner}.{knob}", "a policy that is run", f"add {owner} to --policies")
        if not isfinite(value):
            raise InvalidInput("--set", f"{owner}.{knob}={value}", "a finite number")
    for load in plan.loads:
        if not isfinite(load) or load <= 0:
            raise InvalidInput("--load", load, "a number above 0", "0.77 is 77 % of the cluster")
    for name, values in (("--policies", plan.policies), ("--seeds", plan.seeds), ("--load", plan.loads)):
        if not values:
            raise InvalidInput(name, "", "at least one")
        if len(set(values)) != len(values):
            raise InvalidInput(name, ",".join(map(str, values)), "each one once")
    for spec in replace(plan, seeds=plan.seeds[:1]).specs():
        scenario.check(spec)


def run(
    plan: ExperimentPlan,
    folder: Path,
    jobs: int | None = None,
    on_step: Callable[[RunProgress], None] = lambda _: None,
    perform: Perform | None = None,
) -> ExperimentOutcome:
    """Run what is not stored yet under `folder`, `jobs` at a time (default: the cores this process may use; 1 = in this
    process).

    Raises `InvalidInput` at once if a run rejects its input; other failures are collected.
    """
    return run_specs(plan.specs(), folder, jobs, on_step, perform)


def run_specs(
    specs: tuple[RunSpec, ...],
    folder: Path,
    jobs: int | None = None,
    on_step: Callable[[RunProgress], None] = lambda _: None,
    perform: Perform | None = None,
) -> ExperimentOutcome:
    """Run the specifications that are not stored yet, as `run` does; `specs` are distinct, with absolute paths.

    `perform` does and stores the tasks, at most `jobs` at a time; default: processes of this machine.
    """
    began = time.perf_counter()
    prepare(folder)
    paths = {spec: storage.run_path(folder, spec) for spec in specs}
    records: dict[RunSpec, RunRecord] = {}
    for spec, path in paths.items():
        record = storage.load_record(path, spec)
        if record is not None:
            records[spec] = record
    reused = len(records)
    tasks = [Task(spec, paths[spec]) for spec in specs if spec not in records]
    failures: list[RunFailure] = []
    at_once = jobs or len(os.sched_getaffinity(0))
    for finished in (perform or _performed)(tasks, at_once):
        spec = finished.task.spec
        if finished.refused is not None:
            raise finished.refused
        record = None if finished.error else storage.load_record(finished.task.path, spec)
        if record is not None:
            records[spec] = record
        else:
            failures.append(RunFailure(spec, finished.error or "the stored result cannot be read", finished.detail))
        on_step(RunProgress(len(records) + len(failures), len(specs), spec, record is None))
    done = tuple(records[spec] for spec in specs if spec in records)
    return ExperimentOutcome(done, tuple(failures), reused, time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Task:
    """A run that is not stored yet, and the path of its JSON file."""

    spec: RunSpec
    path: Path


Perform = Callable[[Sequence[Task], int], Iterator[workers.FinishedTask[Task]]]


def _performed(tasks: Sequence[Task], jobs: int) -> Iterator[workers.FinishedTask[Task]]:
    function = f"{__name__}:run_and_store"
    if jobs == 1:
        return (workers.perform(function, task) for task in tasks)
    return workers.perform_all(function, tasks, jobs)


def run_and_store(task: Task) -> None:
    """Do one run and store its result; called in a worker process."""
    storage.save_result(task.path, calculate(task.spec))


def calculate(spec: RunSpec) -> RunResult:
    """Do one run, without storing it. Raises `Permanent` if its result violates the contract."""
    began = time.perf_counter()
    result = registry.scenario(spec.workload).run(spec)
    check_result(result, spec)
    if isnan(result.measures.run_s):
        result = replace(result, measures=replace(result.measures, run_s=time.perf_counter() - began))
    return result


# Fractions that may exceed 1: the load at the first failure, and requests on an overcommitted cluster.
_UNBOUNDED = ("first_failure", "utilisation", "utilisation_memory")


def check_result(result: RunResult, spec: RunSpec) -> None:
    """Raise `Permanent` if a scenario's result violates the contract."""

    def refuse(what: str) -> None:
        raise Permanent(f"the scenario {spec.workload} returned a result that violates the contract: {what}")

    if result.spec != spec:
        refuse("its specification is not the one that was run")
    values = asdict(result.measures)
    if all(isnan(value) for value in values.values()):
        refuse("it measures nothing")
    for metric in METRICS:
        value = values[metric.name]
        bounded = metric.unit in ("fraction", "index") and metric.name not in _UNBOUNDED
        if isnan(value):
            continue
        endless = value == inf and metric.unit in ("ratio", "seconds")  # never ended
        if not (isfinite(value) or endless) or value < 0 or (bounded and value > 1 + 1e-9):
            refuse(f"{metric.name} is {value}")
    for series in result.series:
        if series.x.shape != series.y.shape or series.x.ndim != 1:
            refuse(f"the series {series.name} has {series.x.shape} x and {series.y.shape} y")
    slow = result.slowdowns
    if slow.ndim != 1 or slow.size > MAX_SLOWDOWNS or np.isnan(slow).any() or (slow[1:] < slow[:-1]).any():
        refuse(f"slowdowns must be at most {MAX_SLOWDOWNS} numbers in ascending order")
    machines = result.machine_map
    if machines is not None:
        lengths = {machines.machine.size, len(machines.owner), machines.cpu_share.size, machines.is_service.size}
        if len(lengths) != 1:
            refuse("the machine map's columns differ in length")
    frames = result.machine_frames
    if frames is not None:
        times = {frames.time_s.size, frames.violated.size, frames.used_cpu.size}
        if times != {len(frames.cells)} or frames.cells.shape[1:] != (frames.machine.size, len(FrameCell)):
            refuse("the columns of the machine map over time differ in length")


def measured(records: tuple[RunRecord, ...]) -> tuple[str, ...]:
    """The fields of `Measures` defined by any of the runs."""
    names = [metric.name for metric in METRICS]
    return tuple(name for name in names if any(not isnan(getattr(record.measures, name)) for record in records))


def prepare(folder: Path) -> None:
    """Make an experiment's folder. Raises `InvalidInput` if it is not writable."""
    try:
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        storage.remove_leftovers(folder)
        storage.write_atomic(folder / RUNS / "probe", lambda file: file.write(b"writable\n"))
        (folder / RUNS / "probe").unlink()
    except (OSError, Permanent) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput("--out", str(folder), "a folder that can be written", reason or "") from error
