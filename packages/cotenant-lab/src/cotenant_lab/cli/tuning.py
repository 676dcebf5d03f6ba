"""`cotenant lab tune`: search, judgement on held-out seeds, results, page and profile files."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cotenant.cli import tables
from cotenant.cli.interrupted import Interrupted
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.profile_file import profile_text
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile, profile
from cotenant_lab import experiment, storage
from cotenant_lab.cli.comparing import CompareArguments, make_plan
from cotenant_lab.cli.naming import COMPARE, as_typed
from cotenant_lab.cli.on_cluster import cluster_at, cpus_of
from cotenant_lab.cli.progress import progress
from cotenant_lab.contract import Scenario
from cotenant_lab.experiment import ExperimentPlan
from cotenant_lab.provenance import Provenance, provenance
from cotenant_lab.report.tuning_page import (
    TuningFacts,
    choices,
    label,
    profile_file,
    sentence,
    shown,
    write_tuning_page,
)
from cotenant_lab.scenarios.competitors import competitor
from cotenant_lab.seeds import read_seeds
from cotenant_lab.tuning.held_out import MAX_JUDGED, Tuned, judge
from cotenant_lab.tuning.objectives import OBJECTIVES
from cotenant_lab.tuning.search import Evaluator, Knobs, TuningTrial, load_optuna, search
from cotenant_lab.tuning.spaces import SPACES, Space, space_of
from cotenant_lab.workload_file import is_workload_file, read_workload_file

if TYPE_CHECKING:
    from cotenant_lab.ray_cluster import RayCluster

TUNING_JSON = "tuning.json"
PROFILE = "profile.yaml"
MAX_TRIALS = 10_000


@dataclass(frozen=True, slots=True)
class TuneArguments:
    """The command's arguments as typed; None = not given."""

    workload: str
    policy: str
    trials: int
    seeds: str
    held_out: str
    traces: Path | None = None
    load: str | None = None
    pressure_law: str | None = None
    knobs: tuple[str, ...] = ()
    search_seed: int = 0
    out: Path | None = None
    jobs: int | None = None
    on: str | None = None
    json: bool = False


def tune(request: TuneArguments) -> int:
    """Search, judge, write and print; returns the exit status."""
    plan, scenario = _plan(request)
    base = _base(request.policy)
    space = space_of(request.policy, request.knobs)
    seeds, held_out = read_seeds(request.seeds), read_seeds(request.held_out, "--held-out")
    both = sorted(set(seeds) & set(held_out))
    if both:
        raise InvalidInput("--held-out", request.held_out, "seeds that --seeds does not have", f"both have {both[0]}")
    if not 2 <= request.trials <= MAX_TRIALS:
        raise InvalidInput("--trials", request.trials, f"2 to {MAX_TRIALS}")
    if request.jobs is not None and request.jobs < 1:
        raise InvalidInput("--jobs", request.jobs, "at least 1")
    with as_typed(COMPARE | {"--policies": "--policy", "policy": "--policy"}):
        experiment.check(plan, scenario)
    load_optuna()  # before anything is written
    folder = request.out or _default_folder(request, plan, space)
    with cluster_at(request.on) as cluster:
        jobs = request.jobs or (cpus_of(cluster) if cluster else len(os.sched_getaffinity(0)))
        origin = provenance(command(request, folder), jobs, str(cluster) if cluster else "")
        tuned = _tuned(request, plan, space, folder, jobs, origin, cluster)
    defaults = tuple((name, float(getattr(base.knobs, name))) for name in space)
    facts = TuningFacts(
        workload=request.workload,
        policy=request.policy,
        seeds=request.seeds,
        held_out=request.held_out,
        load=", ".join(f"{load:g}" for load in plan.loads),
        defaults=defaults,
        origin=origin,
        is_for_clusters=base.fit is Fit.REQUESTS,
    )
    _write(folder, tuned, facts)
    failures = tuned.found.failures + tuned.failures
    for failure in failures[:10]:
        print(f"cotenant: failed: {failure.line()}", file=sys.stderr)
    if request.json:
        print(storage.encode_object(to_object(tuned, facts)))
    else:
        _print(tuned, facts, folder, base)
    return 1 if failures else 0


def _tuned(
    request: TuneArguments,
    plan: ExperimentPlan,
    space: Space,
    folder: Path,
    jobs: int,
    origin: Provenance,
    cluster: RayCluster | None,
) -> Tuned:
    """Search and judge, with the runs in `folder`, here or on a cluster."""
    seeds, held_out = read_seeds(request.seeds), read_seeds(request.held_out, "--held-out")
    experiment.prepare(folder)
    per_candidate = len(plan.loads)
    total = per_candidate * (request.trials * len(seeds) + (MAX_JUDGED + 2) * len(held_out))
    with progress(total, quiet=request.json) as on_step:
        evaluate = Evaluator(plan, folder, jobs, total, on_step, cluster.perform if cluster else None)
        try:
            found = search(space, request.trials, seeds, request.search_seed, evaluate)
            if not found.trials or found.trials[0].number:
                why = found.failures[0].line() if found.failures else "no run ended"
                raise Permanent(f"the defaults could not be run, so there is nothing to compare with: {why}")
            tuned = judge(found, held_out, evaluate)
        except KeyboardInterrupt as error:
            raise Interrupted(
                f"interrupted; finished runs are stored, and the same command continues: {origin.command}"
            ) from error
    if not tuned.judged:
        raise Permanent("the defaults could not be run on the held-out seeds, so nothing can be judged")
    return tuned


def command(request: TuneArguments, folder: Path) -> list[str]:
    """The arguments that repeat this search, without the program's name."""
    given: JsonObject = {
        "--workload": request.workload,
        "--policy": request.policy,
        "--trials": request.trials,
        "--seeds": request.seeds,
        "--held-out": request.held_out,
        "--traces": request.traces,
        "--load": request.load,
        "--pressure-law": request.pressure_law,
        "--search-seed": request.search_seed or None,
        "--out": folder,
        "--jobs": request.jobs,
        "--on": request.on,
    }
    words = ["lab", "tune"]
    for name, value in given.items():
        if value is not None:
            words += [name, str(value)]
    for text in request.knobs:
        words += ["--knob", text]
    return words


def to_object(tuned: Tuned, facts: TuningFacts) -> dict[str, object]:
    """The JSON object of a tuning."""
    names = [objective.name for objective in OBJECTIVES]

    def trial(entry: TuningTrial) -> JsonObject:
        return {
            "trial": entry.number,
            "knobs": dict(facts.defaults) | dict(entry.knobs),
            "objectives": dict(zip(names, entry.figures, strict=True)),
            "on_front": entry.number in tuned.front,
        }

    return {
        "workload": facts.workload,
        "policy": facts.policy,
        "seeds": facts.seeds,
        "held_out": facts.held_out,
        "load": facts.load,
        "command": facts.origin.command,
        "optuna": tuned.found.optuna,
        "sources": facts.origin.sources,
        "objectives": [
            {"name": o.name, "definition": o.definition, "better": "higher" if o.sign > 0 else "lower"}
            for o in OBJECTIVES
        ],
        "trials": [trial(entry) for entry in tuned.found.trials],
        "held_out_figures": [
            {
                "trial": judged.trial.number,
                "verdict": judged.verdict,
                **{
                    name: {
                        "mean": mean.mean,
                        "half_width": _finite(mean.half_width),
                        "difference": difference.mean,
                        "difference_half_width": _finite(difference.half_width),
                    }
                    for name, mean, difference in zip(names, judged.means, judged.differences, strict=True)
                },
            }
            for judged in tuned.judged
        ],
        "selected": tuned.selected,
        "recommended": tuned.recommended,
        "failures": [failure.line() for failure in tuned.found.failures + tuned.failures],
    }


def _finite(value: float) -> float | None:
    return None if value != value else value


def _plan(request: TuneArguments) -> tuple[ExperimentPlan, Scenario]:
    load = request.load
    from_file = is_workload_file(request.workload) and read_workload_file(Path(request.workload)).loads is not None
    plan, scenario = make_plan(
        CompareArguments(
            workload=request.workload,
            traces=request.traces,
            policies=request.policy,
            seeds=request.seeds,
            load=load,
            pressure_law=request.pressure_law,
        )
    )
    if load is None and not from_file:  # not a sweep of loads unless one is asked for
        plan = replace(plan, loads=(scenario.default_load,))
    return plan, scenario


def _base(policy: str) -> PlacementProfile:
    """The built-in profile whose knobs are tuned. Raises `InvalidInput` for a policy without one."""
    names = [entry.name for entry in PROFILES]
    if policy not in names:
        competitor(policy)  # an unknown name is refused as such
        tunable = ", ".join(name for name in sorted(SPACES) if name in names)
        raise InvalidInput("--policy", policy, f"a placement profile, e.g. {tunable}")
    return profile(policy)


def _default_folder(request: TuneArguments, plan: ExperimentPlan, space: Space) -> Path:
    # Seeds of the judgement and the number of trials are excluded: more of either continues the same search.
    key = repr(
        (storage.absolute(plan.base), plan.policies, plan.seeds, plan.loads, sorted(space.items()), request.search_seed)
    )
    name = Path(plan.base.file).stem if plan.base.file else plan.base.workload.replace(":", "-")
    return Path("runs") / f"tune-{name}-{request.policy}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _write(folder: Path, tuned: Tuned, facts: TuningFacts) -> None:
    storage.write_json(folder / TUNING_JSON, to_object(tuned, facts))
    verdicts = {judged.trial.number: judged.verdict for judged in tuned.judged}
    for trial in choices(tuned):
        _write_profile(folder / profile_file(trial.number), trial, verdicts.get(trial.number, "not judged"), facts)
    recommended = next(judged for judged in tuned.judged if judged.trial.number == tuned.recommended)
    _write_profile(folder / PROFILE, recommended.trial, recommended.verdict, facts)
    write_tuning_page(folder / storage.REPORT, tuned, facts)


def _write_profile(path: Path, trial: TuningTrial, verdict: str, facts: TuningFacts) -> None:
    note = f"trial {trial.number} of `{facts.origin.command}`; on seeds {facts.held_out}: {verdict}"
    text = profile_text(facts.policy, _set(trial.knobs), note)
    storage.write_atomic(path, lambda file: file.write(text))


def _set(knobs: Knobs) -> Knobs:
    return tuple((name, float(value)) for name, value in knobs)


def _print(tuned: Tuned, facts: TuningFacts, folder: Path, base: PlacementProfile) -> None:
    heads = [f"{o.title}{f', {o.unit}' if o.unit else ''}" for o in OBJECTIVES]
    by_number = {entry.number: entry for entry in tuned.found.trials}
    tables.print_line(f"Front on the tuning seeds ({facts.seeds}), load {facts.load}", strong=True)
    rows = []
    for number in dict.fromkeys((0, *tuned.front)):
        trial = by_number[number]
        figures = [
            f"{value * o.scale:.{3 if o.scale == 1.0 else 2}f}"
            for o, value in zip(OBJECTIVES, trial.figures, strict=True)
        ]
        rows.append([label(tuned, trial), *figures, "yes" if number in tuned.front else "no"])
    tables.print_words(["trial", *heads, "on the front"], rows, right=heads)
    tables.print_line("")
    tables.print_line(
        f"Judged on held-out seeds ({facts.held_out}); in brackets the difference from the defaults", strong=True
    )
    judged = [
        [
            label(tuned, entry.trial),
            *(
                shown(o, mean) + ("" if entry.verdict == "defaults" else f" ({shown(o, difference)})")
                for o, mean, difference in zip(OBJECTIVES, entry.means, entry.differences, strict=True)
            ),
            "" if entry.verdict == "defaults" else entry.verdict,
        ]
        for entry in tuned.judged
    ]
    tables.print_words(["trial", *heads, "verdict"], judged, right=heads)
    tables.print_line("")
    tables.print_line(sentence(tuned))
    chosen = by_number[tuned.recommended]
    if chosen.knobs:
        tables.print_line("knobs: " + ", ".join(f"{name} {value:g}" for name, value in chosen.knobs))
    tables.print_line(
        f"profile: {folder / PROFILE}; one per point of the front under {(folder / profile_file(0)).parent}"
    )
    if base.fit is not Fit.REQUESTS:
        tables.print_line(
            f"`cotenant scheduler --profile` refuses it: {base.name} fits batch by predicted use, which kubelets do "
            "not admit"
        )
    tables.print_line(f"report: {folder / storage.REPORT}")
