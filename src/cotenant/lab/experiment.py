"""Policies x paired seeds x loads, resumable.

Problem: a comparison is hundreds of runs; it must use every core, survive being killed, and say exactly which run failed. Choice: a
plan lists its specifications; each finished run is stored under a digest of its specification, so the same command
continues where it stopped; runs that fail are told with their specification while the others go on. Seeds go outermost, so what an
interrupted experiment has is whole pairs. Limits: runs share the machine, so decision latencies hold for that many side by side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from math import inf, isfinite, isnan
from pathlib import Path

import numpy as np

from cotenant.lab import registry, storage, workers
from cotenant.lab.contract import RunResult, RunSpec, Scenario
from cotenant.lab.metrics import METRICS
from cotenant.lab.storage import RunRecord
from cotenant.model.errors import InvalidInput, Permanent

MOST_SLOWDOWNS = 2_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `base` carries everything the runs share; its policy, seed, load and overrides are not read."""

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
class Failure:
    """A run that did not finish."""

    spec: RunSpec
    error: str
    detail: str = ""

    def line(self) -> str:
        """In one line, with what tells the run apart."""
        return f"{self.spec.policy}, load {self.spec.load:g}, seed {self.spec.seed}: {self.error}"


@dataclass(frozen=True, slots=True)
class Step:
    """How far an experiment is, told after each run."""

    done: int
    total: int
    spec: RunSpec
    failed: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment gave. `records` in the plan's order; `reused` of them stood there before."""

    records: tuple[RunRecord, ...]
    failures: tuple[Failure, ...]
    reused: int
    wall_s: float


def check(plan: Plan, scenario: Scenario) -> None:
    """Raise `InvalidInput` where the plan cannot run: policies, knobs' owners, seeds and loads, then the scenario's own checks."""
    known = [info.name for info in scenario.policies()]
    for policy in (*plan.policies, *(owner for owner, _, _ in plan.overrides)):
        if policy not in known:
            close = get_close_matches(policy, known, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}"
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
    plan: Plan,
    folder: Path,
    jobs: int | None = None,
    tell: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Run what is not stored yet under `folder`, `jobs` at a time (default: the cores this process may use; 1 = in this process).

    Raises `InvalidInput` at once where a run finds its input bad; other failures are collected.
    """
    began = time.perf_counter()
    prepare(folder)
    specs = plan.specs()
    paths = {spec: storage.run_path(folder, spec) for spec in specs}
    records: dict[RunSpec, RunRecord] = {}
    for spec, path in paths.items():
        record = storage.load_record(path, spec)
        if record is not None:
            records[spec] = record
    reused = len(records)
    tasks = [_Task(spec, paths[spec]) for spec in specs if spec not in records]
    failures: list[Failure] = []
    at_once = jobs or len(os.sched_getaffinity(0))
    for finished in _performed(tasks, at_once):
        spec = finished.task.spec
        if finished.refused is not None:
            raise finished.refused
        record = None if finished.error else storage.load_record(finished.task.path, spec)
        if record is not None:
            records[spec] = record
        else:
            failures.append(Failure(spec, finished.error or "its stored result cannot be read", finished.detail))
        tell(Step(len(records) + len(failures), len(specs), spec, record is None))
    done = tuple(records[spec] for spec in specs if spec in records)
    return Outcome(done, tuple(failures), reused, time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class _Task:
    spec: RunSpec
    path: Path


def _performed(tasks: list[_Task], jobs: int) -> Iterator[workers.Finished[_Task]]:
    function = f"{__name__}:run_and_store"
    if jobs == 1:
        return (workers.perform(function, task) for task in tasks)
    return workers.perform_all(function, tasks, jobs)


def run_and_store(task: _Task) -> None:
    """Do one run and store its result: what a worker process calls."""
    began = time.perf_counter()
    result = registry.scenario(task.spec.workload).run(task.spec)
    check_result(result, task.spec)
    if isnan(result.measures.run_s):
        result = replace(result, measures=replace(result.measures, run_s=time.perf_counter() - began))
    storage.save_result(task.path, result)


# Fractions that may pass 1: load at the first failure, and what is requested of an overcommitted cluster.
_UNBOUNDED = ("first_failure", "utilisation", "utilisation_memory")


def check_result(result: RunResult, spec: RunSpec) -> None:
    """Raise `Permanent` where a scenario's result breaks the contract: what every scenario, a fake one too, must pass."""

    def refuse(what: str) -> None:
        raise Permanent(f"the scenario {spec.workload} gave a result that breaks the contract: {what}")

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
        endless = value == inf and metric.unit in ("ratio", "seconds")  # what never ended
        if not (isfinite(value) or endless) or value < 0 or (bounded and value > 1 + 1e-9):
            refuse(f"{metric.name} is {value}")
    for series in result.series:
        if series.x.shape != series.y.shape or series.x.ndim != 1:
            refuse(f"the series {series.name} has {series.x.shape} x and {series.y.shape} y")
    slow = result.slowdowns
    if slow.ndim != 1 or slow.size > MOST_SLOWDOWNS or np.isnan(slow).any() or (slow[1:] < slow[:-1]).any():
        refuse(f"slowdowns must be at most {MOST_SLOWDOWNS} numbers in ascending order")
    machines = result.machine_map
    if machines is not None:
        lengths = {machines.machine.size, len(machines.owner), machines.cpu_share.size, machines.is_service.size}
        if len(lengths) != 1:
            refuse("the machine map's columns differ in length")


def measured(records: tuple[RunRecord, ...]) -> tuple[str, ...]:
    """The fields of `Measures` that any of the runs defines."""
    names = [metric.name for metric in METRICS]
    return tuple(name for name in names if any(not isnan(getattr(each.measures, name)) for each in records))


def prepare(folder: Path) -> None:
    """Make an experiment's folder. Raises `InvalidInput` where it cannot be written."""
    try:
        (folder / storage.RUNS).mkdir(parents=True, exist_ok=True)
        storage.remove_leftovers(folder)
        storage.write_atomic(folder / storage.RUNS / "probe", lambda file: file.write(b"writable\n"))
        (folder / storage.RUNS / "probe").unlink()
    except (OSError, Permanent) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput("--out", str(folder), "a folder that can be written", reason or "") from error
