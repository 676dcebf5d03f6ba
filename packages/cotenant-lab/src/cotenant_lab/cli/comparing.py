"""`cotenant lab compare`: builds the plan from arguments, runs it, prints and writes the results."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cotenant.cli.interrupted import Interrupted
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results.forms import METRICS, RESULTS_JSON, RUNS
from cotenant_lab import experiment, registry, storage
from cotenant_lab.cli.comparison_tables import print_comparison
from cotenant_lab.cli.naming import COMPARE, as_typed
from cotenant_lab.cli.on_cluster import cluster_at, cpus_of
from cotenant_lab.cli.progress import progress
from cotenant_lab.cli.values import check_jobs, check_law, check_number, read_loads, read_override
from cotenant_lab.comparison import OURS
from cotenant_lab.comparison import compare as gather
from cotenant_lab.comparison_object import to_object
from cotenant_lab.contract import RunSpec, Scenario
from cotenant_lab.experiment import ExperimentPlan
from cotenant_lab.provenance import provenance, save_experiment
from cotenant_lab.report.page import write_report
from cotenant_lab.report.run_answers import metric_views
from cotenant_lab.seeds import read_seeds
from cotenant_lab.workload_file import WorkloadFile, is_workload_file, read_workload_file

if TYPE_CHECKING:
    from cotenant_lab.ray_cluster import RayCluster

DEFAULT_SEEDS = "10"
TRACES = "COTENANT_TRACES"
_MAX_SHOWN = 10
_BESIDE = Path("../shared/traces")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CompareArguments:
    """The command's arguments as typed; None = not given."""

    workload: str
    traces: Path | None = None
    policies: str | None = None
    seeds: str | None = None
    load: str | None = None
    interference: float | None = None
    pressure_law: str | None = None
    estimate_error: float | None = None
    declared_profiles: bool | None = None
    node_qos: bool | None = None
    failures: bool | None = None
    overrides: tuple[str, ...] = ()
    out: Path | None = None
    jobs: int | None = None
    on: str | None = None
    json: bool = False


def compare(request: CompareArguments) -> int:
    """Run the comparison; returns the exit status."""
    plan, scenario = make_plan(request)
    names = _names(request)
    with as_typed(names, plan.overrides):
        experiment.check(plan, scenario)
    check_jobs(request.jobs)
    folder = request.out or _default_folder(plan)
    with cluster_at(request.on) as cluster:
        return _compared(request, plan, scenario, folder, names, cluster)


def _compared(
    request: CompareArguments,
    plan: ExperimentPlan,
    scenario: Scenario,
    folder: Path,
    names: dict[str, str],
    cluster: RayCluster | None,
) -> int:
    """Run the plan in `folder`, here or on a cluster, write and print; returns the exit status."""
    jobs = request.jobs or (cpus_of(cluster) if cluster else len(os.sched_getaffinity(0)))
    origin = provenance(command(request, folder), jobs, str(cluster) if cluster else "")
    roles = {info.name: info.role for info in scenario.policies()}
    ours = next((name for name in plan.policies if roles[name] == OURS), plan.policies[0])
    experiment.prepare(folder)
    save_experiment(folder, plan, ours, origin)
    total = len(plan.specs())
    with (
        as_typed(names, plan.overrides),
        _resumable(origin.command, folder, total),
        progress(total, quiet=request.json) as on_step,
    ):
        outcome = experiment.run(plan, folder, jobs, on_step, cluster.perform if cluster else None)
    for failure in outcome.failures[:_MAX_SHOWN]:
        print(f"cotenant: failed: {failure.line()}", file=sys.stderr)
    if len(outcome.failures) > _MAX_SHOWN:
        print(f"cotenant: failed: {len(outcome.failures) - _MAX_SHOWN} more, listed in {folder}", file=sys.stderr)
    failed = [(failure.line(), failure.detail) for failure in outcome.failures]
    unwritten = _failing(lambda: storage.write_failures(folder, failed))
    if not outcome.records:
        where = unwritten[0] if unwritten else f"{folder / storage.FAILURES} has their tracebacks"
        runs = "the only run" if total == 1 else f"all {total} runs"
        raise Permanent(f"{runs} failed; {where}")
    comparison = gather(plan, scenario, outcome)
    title = read_workload_file(plan.base.file).title if plan.base.file else ""
    if title:
        comparison = replace(comparison, summary=title)
    unwritten += _failing(
        lambda: storage.write_json(
            folder / RESULTS_JSON, {**to_object(comparison), METRICS: metric_views(comparison.metrics)}
        ),
        lambda: storage.write_parquet(folder / storage.RESULTS_PARQUET, comparison.records),
        lambda: write_report(folder / storage.REPORT, comparison, origin),
    )
    if request.json:
        print(storage.encode_object(to_object(comparison)))
    else:
        print_comparison(comparison, folder, outcome)
    if unwritten:
        raise Permanent("; ".join(unwritten))
    return 1 if outcome.failures else 0


def _names(request: CompareArguments) -> dict[str, str]:
    """The names of error fields as typed: on the command line or in the workload's file."""
    names = dict(COMPARE)
    if is_workload_file(request.workload):
        read = read_workload_file(Path(request.workload))
        for field, given, written in (("load", request.load, read.load), ("policies", request.policies, read.policies)):
            if given is None and written is not None:
                names[f"--{field}"] = f"{request.workload}: {field}"
    return names


def _failing(*writes: Callable[[], None]) -> list[str]:
    """Do each write; returns the errors instead of raising them, so that the figures are still printed."""
    wrong = []
    for write in writes:
        try:
            write()
        except (Permanent, InvalidInput) as error:
            wrong.append(str(error))
    return wrong


def make_plan(
    request: CompareArguments, load: Callable[[str], Scenario] = registry.scenario
) -> tuple[ExperimentPlan, Scenario]:
    """Build a plan and its scenario, found by `load`, from the arguments. Raises `InvalidInput`."""
    file = None
    read: WorkloadFile | None = None
    name = request.workload
    if is_workload_file(name):
        file = Path(name)
        read = read_workload_file(file)
        name = read.base
    scenario = load(name)
    entry = registry.entry(name)
    traces = _traces(request.traces)
    if entry.needs_traces and traces is None:
        raise InvalidInput("--traces", "not given", f"the folder of real traces that {name} reads", f"or set {TRACES}")
    from_file = read.seeds if read else None
    seeds = read_seeds(_first(request.seeds, str(from_file) if from_file is not None else None, DEFAULT_SEEDS))
    loads = read_loads(request.load) if request.load is not None else None
    policies = request.policies
    if policies is not None and policies.strip() == "all":
        chosen = tuple(info.name for info in scenario.policies())
    elif policies is not None:
        chosen = tuple(part for part in (part.strip() for part in policies.split(",")) if part)
    else:
        chosen = (read.policies if read else None) or scenario.default_policies
    plain = RunSpec(name, "", 0, 0.0)
    base = replace(
        plain,
        traces=traces,
        file=file,
        interference=check_number(
            "--interference",
            _first(request.interference, read.interference if read else None, plain.interference),
            10.0,
        ),
        pressure_law=check_law(_first(request.pressure_law, read.pressure_law if read else None, plain.pressure_law)),
        estimate_error=check_number(
            "--estimate-error",
            _first(request.estimate_error, read.estimate_error if read else None, plain.estimate_error),
            5.0,
        ),
        declared_profiles=_first(
            request.declared_profiles, read.declared_profiles if read else None, plain.declared_profiles
        ),
        node_qos=_first(request.node_qos, read.node_qos if read else None, plain.node_qos),
        failures=_first(request.failures, read.failures if read else None, plain.failures),
    )
    plan = ExperimentPlan(
        base,
        chosen,
        seeds,
        loads or (read.loads if read else None) or entry.loads or (scenario.default_load,),
        tuple(read_override(text) for text in request.overrides),
    )
    return plan, scenario


def command(request: CompareArguments, folder: Path) -> list[str]:
    """The arguments that repeat this comparison, without the program's name."""
    words = ["lab", "compare", "--workload", request.workload]
    given = {
        "--traces": request.traces,
        "--policies": request.policies,
        "--seeds": request.seeds,
        "--load": request.load,
        "--interference": request.interference,
        "--pressure-law": request.pressure_law,
        "--estimate-error": request.estimate_error,
        "--out": folder,
        "--jobs": request.jobs,
        "--on": request.on,
    }
    for name, value in given.items():
        if value is not None:
            words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
    for name, switch in (
        ("declared-profiles", request.declared_profiles),
        ("node-qos", request.node_qos),
        ("failures", request.failures),
    ):
        if switch is not None:
            words.append(f"--{name}" if switch else f"--no-{name}")
    for text in request.overrides:
        words += ["--set", text]
    return words


def _first(given: T | None, from_file: T | None, default: T) -> T:
    return given if given is not None else from_file if from_file is not None else default


def _traces(given: Path | None) -> Path | None:
    if given is None and os.environ.get(TRACES):
        given = Path(os.environ[TRACES])
    if given is None:
        return _BESIDE if _BESIDE.is_dir() else None
    if not given.is_dir():
        raise InvalidInput(
            "--traces", str(given), "a folder of traces", "it does not exist" if not given.exists() else ""
        )
    return given


def _default_folder(plan: ExperimentPlan) -> Path:
    # Seeds are excluded: a larger number of seeds continues the same comparison.
    key = repr((storage.absolute(plan.base), plan.policies, plan.loads, plan.overrides))
    name = Path(plan.base.file).stem if plan.base.file else plan.base.workload.replace(":", "-")
    return Path("runs") / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


@contextmanager
def _resumable(command: str, folder: Path, total: int) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        done = len(list((folder / RUNS).glob("*.json")))
        raise Interrupted(
            f"interrupted with {done} of {counted(total, 'run')} stored; the same command continues: {command}"
        ) from error
