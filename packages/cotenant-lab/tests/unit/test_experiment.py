"""Experiments continue after any interruption, and report the failed runs."""

import os
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results.forms import RunSeries
from cotenant_lab import experiment, registry
from cotenant_lab.comparison import compare
from cotenant_lab.comparison_object import to_object
from cotenant_lab.contract import MachineMap, Measures, RunResult, RunSpec
from cotenant_lab.experiment import ExperimentPlan, RunProgress

pytestmark = pytest.mark.usefixtures("fake_workloads")

BASE = RunSpec("fake", "", 0, 0.0)


def plan(*policies: str, seeds: int = 2, loads: tuple[float, ...] = (0.77,), workload: str = "fake") -> ExperimentPlan:
    return ExperimentPlan(
        replace(BASE, workload=workload), policies or ("cotenant", "random"), tuple(range(seeds)), loads
    )


def test_a_plan_crosses_seeds_loads_and_policies_seeds_outermost() -> None:
    specs = replace(plan(loads=(0.7, 0.8)), overrides=(("random", "spread", 0.5),)).specs()
    assert [(s.seed, s.load, s.policy) for s in specs[:5]] == [
        (0, 0.7, "cotenant"),
        (0, 0.7, "random"),
        (0, 0.8, "cotenant"),
        (0, 0.8, "random"),
        (1, 0.7, "cotenant"),
    ]
    assert {s.policy: s.overrides for s in specs} == {"cotenant": (), "random": (("spread", 0.5),)}


def test_what_is_stored_is_not_run_again(tmp_path: Path) -> None:
    first = experiment.run(plan(seeds=2), tmp_path, jobs=1)
    steps: list[RunProgress] = []
    more = experiment.run(plan(seeds=3), tmp_path, 1, steps.append)
    assert (first.reused, len(first.records)) == (0, 4)
    assert (more.reused, len(more.records)) == (4, 6)
    assert [(step.done, step.total) for step in steps] == [(5, 6), (6, 6)]
    assert more.records[:4] == first.records


def test_infinite_figures_are_null_and_named_in_the_notes(tmp_path: Path) -> None:
    wanted = plan(loads=(0.7, 0.8))
    outcome = experiment.run(wanted, tmp_path, jobs=1)
    records = tuple(
        replace(r, measures=replace(r.measures, slowdown_p99=inf, granted_fairness=nan), by_class=(("last end", inf),))
        if (r.spec.policy, r.spec.load) == ("random", 0.8)
        else r
        for r in outcome.records
    )
    found = to_object(compare(wanted, registry.scenario("fake"), replace(outcome, records=records)))
    row = next(row for row in found["rows"] if (row["policy"], row["load"]) == ("random", 0.8))
    assert (row["slowdown_p99"], row["granted_fairness"], row["by_class"]["last end"]["mean"]) == (None, None, None)
    (reported,) = [note for note in found["notes"] if "infinity" in note]
    assert reported.endswith(": slowdown_p99, by_class.last end of random at load 0.8")
    plain = to_object(compare(wanted, registry.scenario("fake"), outcome))
    assert not any("infinity" in note for note in plain["notes"])


def test_a_failing_run_is_reported_with_its_specification_and_the_others_continue(tmp_path: Path) -> None:
    outcome = experiment.run(plan("raises", "cotenant", "absurd"), tmp_path, jobs=1)
    assert [record.spec.policy for record in outcome.records] == ["cotenant", "cotenant"]
    assert outcome.failures[0].line() == "raises, load 0.77, seed 0: RuntimeError: it was asked to fail"
    assert "Traceback" in outcome.failures[0].detail
    assert "violates the contract: success is 7.0" in outcome.failures[1].error


def test_bad_input_found_in_a_run_stops_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"machine_meta.csv: line 7: x: expected a number"):
        experiment.run(plan("cotenant", "refuses"), tmp_path, jobs=1)
    assert experiment.run(plan("cotenant"), tmp_path, jobs=1).reused == 1


@pytest.mark.slow
def test_a_killed_process_costs_its_run_only_and_the_same_plan_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    monkeypatch.setenv("FAKE_MARKER", str(marker))
    wanted = plan("cotenant", "dies", "random", seeds=2)
    outcome = experiment.run(wanted, tmp_path, jobs=2)
    assert sorted(failure.spec.seed for failure in outcome.failures) == [0, 1]
    assert all("ended by SIGKILL" in failure.error for failure in outcome.failures)
    assert len(outcome.records) == 4
    marker.touch()
    again = experiment.run(wanted, tmp_path, jobs=2)
    assert (again.reused, len(again.records), again.failures) == (4, 6, ())


@pytest.mark.slow
def test_bad_input_found_by_a_worker_arrives_as_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        experiment.run(plan("refuses", "cotenant"), tmp_path, jobs=2)
    assert (caught.value.field, caught.value.expected) == ("machine_meta.csv: line 7", "a number")


@pytest.mark.slow
def test_parallel_runs_equal_sequential_runs(tmp_path: Path) -> None:
    wanted = plan("cotenant", "random", seeds=1)
    alone = experiment.run(wanted, tmp_path / "a", jobs=1)
    beside = experiment.run(wanted, tmp_path / "b", jobs=2)
    reported = [[replace(record.measures, run_s=0.0) for record in outcome.records] for outcome in (alone, beside)]
    assert repr(reported[0]) == repr(reported[1])


def test_an_exception_in_the_middle_leaves_what_is_finished(tmp_path: Path) -> None:
    def stop(step: RunProgress) -> None:
        if step.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(plan(seeds=3), tmp_path, 1, stop)
    assert experiment.run(plan(seeds=3), tmp_path, jobs=1).reused == 2


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="--out"):
        experiment.run(plan(), tmp_path / "file", jobs=1)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (plan("cotenat"), "did you mean cotenant"),
        (plan("cotenant", "cotenant"), "each one once"),
        (plan(seeds=0), "--seeds"),
        (plan(loads=(0.7, nan)), "a number above 0"),
        (plan(loads=(-0.5,)), "a number above 0"),
        (plan(loads=(9.0,)), "at most 1.5"),
        (replace(plan(), overrides=(("cotenant", "sprad", 1.0),)), "a knob of that policy"),
        (replace(plan(), overrides=(("first-fit", "spread", 1.0),)), "add first-fit to --policies"),
        (replace(plan(), overrides=(("cotenant", "spread", nan),)), "a finite number"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_before_it_starts(wanted: ExperimentPlan, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        experiment.check(wanted, registry.scenario("fake"))


SPEC = RunSpec("fake", "cotenant", 0, 0.77)
GOOD = RunResult(SPEC, Measures(success=1.0))
X = np.array([1.0, 2.0])


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (replace(GOOD, spec=replace(SPEC, seed=1)), "not the one that was run"),
        (replace(GOOD, measures=Measures()), "measures nothing"),
        (replace(GOOD, measures=Measures(violation=-0.1)), "violation is -0.1"),
        (replace(GOOD, measures=Measures(task_fairness=1.1)), "task_fairness is 1.1"),
        (replace(GOOD, measures=Measures(evictions=inf)), "evictions is inf"),
        (replace(GOOD, measures=Measures(success=inf)), "success is inf"),
        (replace(GOOD, slowdowns=np.array([1.0, nan])), "ascending"),
        (replace(GOOD, slowdowns=np.array([2.0, 1.0])), "ascending"),
        (replace(GOOD, slowdowns=np.ones(2_001)), "at most 2000"),
        (replace(GOOD, series=(RunSeries("s", "x", "y", X, X[:1]),)), "series s"),
        (replace(GOOD, machine_map=MachineMap("now", X.astype(int), ("a",), X, X > 0)), "columns differ"),
    ],
)
def test_a_result_that_breaks_the_contract_is_refused(broken: RunResult, words: str) -> None:
    with pytest.raises(Permanent, match=words):
        experiment.check_result(broken, SPEC)


def test_a_result_that_keeps_the_contract_passes_even_beyond_full_load() -> None:
    experiment.check_result(replace(GOOD, measures=Measures(success=1.0, first_failure=1.3)), SPEC)


def test_what_never_ended_is_infinite_and_passes() -> None:
    endless = replace(GOOD, measures=Measures(slowdown_p99=inf, wait_p99_s=inf), slowdowns=np.array([1.0, inf, inf]))
    experiment.check_result(endless, SPEC)


def test_the_comparison_pairs_by_seed_and_puts_the_best_first(tmp_path: Path) -> None:
    wanted = plan("random", "cotenant", "edf-paragon", seeds=3)
    found = compare(wanted, registry.scenario("fake"), experiment.run(wanted, tmp_path, jobs=1))
    assert [row.policy for row in found.rows] == ["cotenant", "edf-paragon", "random"]
    pair = next(p for p in found.paired if p.policy == "random" and p.metric == "violation")
    assert pair.against == "cotenant"
    assert pair.difference.count == 3
    assert pair.difference.mean == pytest.approx(
        found.rows[2].get("violation").mean - found.rows[0].get("violation").mean
    )
    assert not [p for p in found.paired if p.metric in ("utilisation", "dominant_fairness")]
    assert found.sustained == ()  # one load is no sweep


def test_a_sweep_gives_the_sustained_load_with_its_bounds(tmp_path: Path) -> None:
    wanted = plan("cotenant", "best-fit", seeds=2, loads=(0.75, 0.85, 0.95))
    found = compare(wanted, registry.scenario("fake"), experiment.run(wanted, tmp_path, jobs=1))
    ours, packer = found.sustained
    assert (ours.policy, ours.bound, packer.policy, packer.bound) == ("cotenant", "exact", "best-fit", "below")
    assert 0.85 < ours.mean.mean < 0.95
    assert (packer.mean.mean, packer.bounded) == (0.75, 2)
    pair = next(p for p in found.paired if p.metric == "sustained_load")
    assert pair.difference.mean == pytest.approx(0.75 - ours.mean.mean)


def test_a_sweep_gives_the_used_cpu_at_objective_and_its_ratio_to_that_of_ours(tmp_path: Path) -> None:
    wanted = plan("cotenant", "best-fit", seeds=2, loads=(0.75, 0.85, 0.95))
    found = compare(wanted, registry.scenario("fake"), experiment.run(wanted, tmp_path, jobs=1))
    ours, packer = found.used_at_objective
    assert ours.mean.mean == pytest.approx(0.57 * found.sustained[0].mean.mean)
    assert (packer.policy, packer.bound, packer.mean.mean) == ("best-fit", "below", pytest.approx(0.57 * 0.75))
    assert packer.ratio.mean == pytest.approx(ours.mean.mean / packer.mean.mean)
    shown = to_object(found)["used_at_objective"]
    assert [(entry["policy"], entry["against"]) for entry in shown] == [
        ("cotenant", "cotenant"),
        ("best-fit", "cotenant"),
    ]
    assert shown[1]["ratio"] == pytest.approx(packer.ratio.mean)
    single = plan("cotenant", seeds=1)
    assert compare(single, registry.scenario("fake"), experiment.run(single, tmp_path, jobs=1)).used_at_objective == ()


def test_a_policy_whose_runs_failed_has_no_sustained_load(tmp_path: Path) -> None:
    wanted = plan("cotenant", "raises", seeds=2, loads=(0.75, 0.95))
    found = compare(wanted, registry.scenario("fake"), experiment.run(wanted, tmp_path, jobs=1))
    assert [row.policy for row in found.sustained] == ["cotenant"]
    assert len(found.failures) == 4


def test_the_object_has_every_figure_with_its_interval_and_no_nan(tmp_path: Path) -> None:
    wanted = plan("cotenant", "random", seeds=1, workload="fake-packing")
    found = to_object(compare(wanted, registry.scenario("fake-packing"), experiment.run(wanted, tmp_path, jobs=1)))
    assert (found["workload"], found["seeds"]) == ("fake-packing", 1)
    row = found["rows"][0]
    assert (row["policy"], row["success"], row["success_ci"]) == ("cotenant", 0.9, None)
    assert row["violation"] is None
    assert {
        "violation_ci",
        "task_fairness",
        "dominant_fairness_ci",
        "decision_p50_us",
        "decision_p99_us_ci",
    } <= row.keys()


def test_the_registry_lists_without_loading_and_finds_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [entry.name for entry in registry.entries({})]
    assert names == ["founding", "colocation", "replay", "takeover", "openb", "tianchi", "dag", "training"]
    assert [entry.name for entry in registry.entries(os.environ)][-2:] == ["fake", "fake-packing"]
    assert registry.scenario("fake-packing").name == "fake-packing"
    with pytest.raises(InvalidInput, match="did you mean founding"):
        registry.entry("fonding")
    with pytest.raises(InvalidInput, match="has no variants"):
        registry.entry("training:small")
    assert registry.entry("openb:cpu250").name == "openb"
    monkeypatch.setenv("COTENANT_SCENARIOS", "no_such_module")
    with pytest.raises(InvalidInput, match="COTENANT_SCENARIOS: no_such_module"):
        registry.entries()
    monkeypatch.setenv("COTENANT_SCENARIOS", "json")
    with pytest.raises(InvalidInput, match="a module with SCENARIOS"):
        registry.entries()


def test_an_overcommitted_cluster_may_be_asked_for_more_than_it_has() -> None:
    asked = RunResult(BASE, Measures(utilisation=1.2, success=1.0))
    experiment.check_result(asked, BASE)
    with pytest.raises(Permanent, match=r"utilisation_used is 1\.2"):
        experiment.check_result(replace(asked, measures=Measures(utilisation_used=1.2)), BASE)
