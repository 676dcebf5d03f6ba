from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.contract import RunSpec
from cotenant_lab.scenarios.tianchi import Tianchi
from cotenant_lab.workloads import tianchi as workload

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[5] / "shared" / "traces")
real = pytest.mark.skipif(
    not (TRACES / workload.FOLDER).is_dir(), reason=f"no {workload.FOLDER} in {TRACES}; set COTENANT_TRACES"
)

SIZES = ((2, 4, 60), (6, 8, 60), (12, 16, 100), (24, 32, 60), (0.5, 8, 40))
APPS = 40
KINDS = ((32, 64, 1440), (92, 288, 2457))


def write(folder: Path, containers_of: int = 120) -> Path:
    """A small data set of the published form: 40 applications, 125 machines of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    apps, containers = ["app,cpu_98,mem_98,disk,P,M,PM"], ["instance,app,initial_machine"]
    for a in range(APPS):
        cpu, memory, disk = SIZES[a % len(SIZES)]
        curve = np.append(rng.uniform(0.3, 1.0, 97), 1.0)
        joined = "|".join(f"{cpu * c:.4f}" for c in curve)
        apps.append(f"app_{a},{joined},{'|'.join([str(memory)] * 98)},{disk},0,0,0")
        containers += [f"inst_{a * containers_of + i},app_{a},machine_1" for i in range(containers_of)]
    machines = ["machine,cpu,mem,disk,P,M,PM"]
    machines += [
        f"machine_{i},{c},{m},{d},7,3,7" for i, (c, m, d) in enumerate(kind for kind in KINDS for _ in range(125))
    ]
    rules = ["app_present,app_limited,max_count"] + [f"app_{a},app_{a},2" for a in range(APPS)]
    rules += [f"app_{a},app_{(a + 7) % APPS},{a % 2}" for a in range(APPS)]
    for stem, lines in (
        ("app_resources", apps),
        ("instance_deploy", containers),
        ("machine_resources", machines),
        ("app_interference", rules),
    ):
        (folder / f"{stem}.csv").write_text("\n".join(lines) + "\n")
    return folder.parent


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("traces") / workload.FOLDER)


def spec(traces: Path | None, policy: str = "cotenant", load: float = 1.1, seed: int = 0, **knobs: float) -> RunSpec:
    return RunSpec("tianchi", policy, seed, load, traces=traces, overrides=tuple(knobs.items()))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [info.name for info in Tianchi().policies()])
def test_no_policy_breaks_a_capacity_or_a_rule(traces: Path, policy: str) -> None:
    result = Tianchi().run(spec(traces, policy))
    assert result.machine_map is not None
    data = workload.load(traces / workload.FOLDER)
    count = np.zeros((len(data.capacity), APPS), np.int64)
    apps = np.array([data.app_names.index(owner) for owner in result.machine_map.owner])
    np.add.at(count, (result.machine_map.machine, apps), 1)
    assert (count @ data.request <= data.capacity).all()
    assert (count <= 3).all()
    for a in range(APPS):
        beside = count[count[:, a] > 0, (a + 7) % APPS]
        assert (beside <= a % 2).all()
    measures = result.measures
    assert measures.success == pytest.approx(len(apps) / workload.make(data, 1.1, 0).count)
    assert measures.utilisation == pytest.approx((count @ data.request)[:, 0].sum() / data.capacity[:, 0].sum())
    assert 0 < measures.first_failure <= 1.1
    assert measures.utilisation_used < measures.utilisation


@pytest.mark.slow
def test_equal_specifications_give_equal_results(traces: Path) -> None:
    first, second = (Tianchi().run(spec(traces, "random", seed=4)) for _ in range(2))
    assert first.by_class == second.by_class
    assert first.measures.fragmentation == second.measures.fragmentation
    other = Tianchi().run(spec(traces, "random", seed=5))
    assert other.measures.fragmentation != first.measures.fragmentation


def test_below_saturation_nothing_is_refused_and_first_failure_is_undefined(traces: Path) -> None:
    result = Tianchi().run(spec(traces, load=0.3))
    assert result.measures.success == 1.0
    assert np.isnan(result.measures.first_failure)
    assert any("no container was refused" in note for note in result.notes)


@pytest.mark.slow
def test_explain_reports_a_placement_and_a_refusal(traces: Path) -> None:
    data = workload.load(traces / workload.FOLDER)
    world = workload.make(data, 1.1, 0)
    early = data.container_names[world.arrivals[10]]
    placed = Tianchi().explain(spec(traces), early)
    assert placed.outcome.startswith("placed on machine")
    best = placed.candidates[0]
    assert placed.outcome.endswith(best[0])
    assert best[1] == max(score for _, score, _ in placed.candidates)
    assert best[1] == pytest.approx(sum(part for _, part in best[2]))
    refused = [
        reported
        for i in range(world.count - 40, world.count)
        if (
            reported := Tianchi().explain(spec(traces, "least-allocated"), data.container_names[world.arrivals[i]])
        ).outcome.startswith("refused")
    ]
    assert refused
    for reported in refused:
        assert sum(count for _, count in reported.rejected) == len(data.capacity)
        assert reported.candidates == ()


def test_bad_specifications_are_refused_before_anything_runs(traces: Path, tmp_path: Path) -> None:
    scenario = Tianchi()
    for wrong, field in (
        (spec(None), "--traces"),
        (spec(tmp_path), "--traces"),
        (spec(traces, "edf"), "--policies"),
        (spec(traces, load=float("nan")), "--load"),
        (spec(traces, load=-1.0), "--load"),
        (spec(traces, paitence=3.0), "knob"),
        (spec(traces, patience=0.5), "patience"),
        (spec(traces, "random", patience=5.0), "knob"),
    ):
        with pytest.raises(InvalidInput, match=field):
            scenario.check(wrong)
    with pytest.raises(InvalidInput, match="TASK"):
        scenario.explain(spec(traces), "inst_none")


def test_dangling_rows_are_counted_and_unrelated_files_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / workload.FOLDER) / workload.FOLDER
    with (folder / "instance_deploy.csv").open("a") as file:
        file.write("inst_x,app_unknown,\n")
    with (folder / "app_interference.csv").open("a") as file:
        file.write("app_0,app_unknown,1\napp_0,app_1,-4\n")
    notes = workload.load(folder).notes
    assert "dropped 1 containers of an unknown application" in notes
    assert "dropped 1 rules on an unknown application" in notes
    assert any("negative" in note and "max_count" in note for note in notes)

    (folder / "machine_resources.csv").write_text("machine,cpu,mem,disk,P,M,PM\nmachine_1,32,64,1440,7,3,7\n")
    workload.load.cache_clear()
    with pytest.raises(InvalidInput, match="two kinds"):
        workload.load(folder)
    (folder / "app_resources.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nx,1,2,3,a\n")
    with pytest.raises(InvalidInput, match="app_resources"):
        workload.load(folder)


@real
@pytest.mark.slow
def test_published_operating_curve_is_reproduced_on_real_containers() -> None:
    """Success and fragment at 77/90/100 % and allocation at the last, on other seeds than those of the published
    figures.
    """
    published = {
        "least-allocated": (0.9981, 0.8779, 0.833, 0.162),
        "best-fit": (1.0, 0.9566, 0.952, 0.048),
        "balance": (1.0, 0.9948, 0.988, 0.009),
    }
    for policy, (success_77, success_100, allocated, fragment) in published.items():
        figures = dict(Tianchi().run(spec(TRACES, policy, load=1.01, seed=3)).by_class)
        assert figures["success at 77 % load"] == pytest.approx(success_77, abs=0.005)
        assert figures["success at 100 % load"] == pytest.approx(success_100, abs=0.02)
        assert figures["allocated at 100 % load"] == pytest.approx(allocated, abs=0.015)
        assert figures["fragment at 100 % load"] == pytest.approx(fragment, abs=0.01)


@real
@pytest.mark.slow
def test_ours_refuses_late_and_fragments_little() -> None:
    result = Tianchi().run(spec(TRACES, load=1.3, seed=3))
    figures = dict(result.by_class)
    assert result.measures.first_failure > 0.95
    assert figures["allocated at 100 % load"] > 0.988
    assert all(value < 0.01 for name, value in figures.items() if name.startswith("fragment"))
