"""The generated work is what it claims to be: published figures, real histograms, official tables, and valid graphs."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cotenant.lab.traces import read_table
from cotenant.lab.traces.dag import NAME_LIMIT, Shape, job_dags
from cotenant.lab.workloads import calibration, calibration_services
from cotenant.lab.workloads.dag_shapes import MOST_PARENTS
from cotenant.lab.workloads.day_curves import SAMPLES, generate_services
from cotenant.lab.workloads.fidelity import compare_batch, compare_services
from cotenant.lab.workloads.generator import (
    FIRST_ARRIVAL_S,
    BatchTrace,
    batch_core_seconds,
    draw,
    draw_atoms,
    generate_batch,
    seconds_filled,
)
from cotenant.model.errors import InvalidInput

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
HISTOGRAMS = TRACES / "alibaba2018-full-distributions" / "histograms.csv.gz"
DAG_SAMPLE = TRACES / "alibaba2018-dag-jobs" / "batch_task.csv.gz"
needs_traces = pytest.mark.skipif(not HISTOGRAMS.is_file(), reason=f"no {HISTOGRAMS}; set COTENANT_TRACES")


@pytest.fixture(scope="module")
def large() -> BatchTrace:
    return generate_batch(200_000, np.random.default_rng(7))


@pytest.fixture(scope="module")
def small() -> BatchTrace:
    return generate_batch(800, np.random.default_rng(3))


@pytest.mark.slow
def test_statistics_of_generated_batch_agree_with_the_published_figures(large: BatchTrace) -> None:
    figures = compare_batch(large)
    assert len(figures) > 70
    assert [figure for figure in figures if not figure.holds] == []


@pytest.mark.slow
def test_statistics_of_generated_services_agree_with_the_published_figures() -> None:
    figures = compare_services(generate_services(9_338, np.random.default_rng(5)))
    assert [figure for figure in figures if not figure.holds] == []


@pytest.mark.slow
def test_a_figure_off_its_tolerance_is_found(large: BatchTrace) -> None:
    """The comparison can fail: the same jobs with every request doubled disagree exactly in what was changed."""
    doubled = BatchTrace(
        **{name: getattr(large, name) for name in BatchTrace.__slots__ if name != "plan_cpu"},
        plan_cpu=2 * large.plan_cpu,
    )
    wrong = {figure.name for figure in compare_batch(doubled) if not figure.holds}
    assert wrong == {
        "plan CPU",
        "plan CPU by instances",
        "plan CPU of half a core",
        "plan CPU of one core",
        "used / planned CPU",
    }


@needs_traces
@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantity", "knots", "step"),
    [
        ("task_num", calibration.TASKS_PER_JOB, 1.0),
        ("instance_num", calibration.INSTANCES_PER_TASK, 1.0),
        ("task_duration", calibration.TASK_DURATION_S, 1.0),
        ("instance_duration", calibration.INSTANCE_DURATION_S, 1.0),
        ("instance_cpu", calibration.CPU_USED, 1.0),
        ("instance_mem", calibration.MEMORY_USED, 0.01),
        ("job_interval", calibration.JOB_GAP_S, 1.0),
    ],
)
def test_shipped_knots_and_what_is_drawn_from_them_follow_the_real_histogram(
    quantity: str, knots: calibration.Knots, step: float
) -> None:
    table, _ = read_table("alibaba2018-distributions", "histograms", HISTOGRAMS)
    bins = table.filter(pl.col("quantity") == quantity).sort("right_closed")
    value = bins["right_closed"].to_numpy()
    share = np.cumsum(bins["count"].to_numpy()) / bins["count"].sum()
    for at, cumulated in knots:
        assert share[np.searchsorted(value, at + 1e-9) - 1] == pytest.approx(cumulated, abs=2e-7)
    # no sampling noise: a fine grid of shares through the inverse transform, against the real distribution at every bin
    drawn = np.sort(draw(knots, (np.arange(1_000_000) + 0.5) / 1_000_000, step))
    generated = np.searchsorted(drawn, value + 1e-9, side="left") / len(drawn)
    assert np.abs(generated - share).max() < 0.006


@needs_traces
@pytest.mark.slow
def test_longest_paths_and_task_marginals_follow_the_real_histograms(large: BatchTrace) -> None:
    table, _ = read_table("alibaba2018-distributions", "histograms", HISTOGRAMS)
    sizes = np.diff(large.job_offset)
    depth = np.maximum.reduceat(large.level, large.job_offset[:-1])
    for size in (2, 3, 4, 5, 6, 8, 10, 15):
        real = table.filter((pl.col("quantity") == "cpl") & (pl.col("condition") == size))
        expected = float((real["right_closed"] * real["count"]).sum() / real["count"].sum())
        assert depth[sizes == size].mean() == pytest.approx(expected, rel=0.04)
    for quantity, values in (
        ("task_cpu", large.plan_cpu),
        ("task_mem", large.plan_memory),
        ("instance_num", large.instances),
    ):
        bins = table.filter(pl.col("quantity") == quantity).sort("right_closed")
        share = np.cumsum(bins["count"].to_numpy()) / bins["count"].sum()
        generated = np.searchsorted(np.sort(values), bins["right_closed"].to_numpy() + 1e-6) / len(values)
        assert np.abs(generated - share).max() < 0.012


def kinds(trace: BatchTrace) -> Counter[Shape]:
    return Counter(dag.shape() for _, _, dag in job_dags(trace.frame()))


def sample_sizes(jobs: int, rng: np.random.Generator) -> np.ndarray:
    """Job sizes mixed as in the published sample of DAG jobs, which is biased to large ones."""
    _, count, mean = np.array(calibration.SAMPLE_SIZES).T
    chosen = mean[rng.choice(len(count), jobs, p=count / count.sum())]
    return np.maximum(2, np.floor(chosen + rng.random(jobs))).astype(np.int64)


@pytest.mark.slow
def test_kinds_of_graphs_are_mixed_as_in_the_published_sample() -> None:
    rng = np.random.default_rng(11)
    found = kinds(generate_batch(6_000, rng, tasks_per_job=sample_sizes(6_000, rng)))
    published = {Shape.CHAIN: 0.25, Shape.IN_TREE: 0.30, Shape.OUT_TREE: 0.04, Shape.OTHER: 0.41}
    for shape, share in published.items():
        assert found[shape] / 6_000 == pytest.approx(share, abs=0.05), shape


@needs_traces
@pytest.mark.slow
def test_dependencies_and_starting_tasks_resemble_the_real_sample() -> None:
    """Tasks of 11..20, by kind: dependencies a task within 5 %, starting tasks within 15 % of the real jobs'."""
    frame, _ = read_table("alibaba2018", "batch_task", DAG_SAMPLE)
    rng = np.random.default_rng(12)
    generated = generate_batch(3_000, rng, tasks_per_job=rng.integers(11, 21, 3_000))
    for shape in (Shape.IN_TREE, Shape.OTHER):
        rows = []
        for tasks in (frame, generated.frame()):
            dags = [
                dag
                for _, _, dag in job_dags(tasks)
                if not dag.faults and 11 <= len(dag.parents) <= 20 and dag.shape() is shape
            ]
            assert len(dags) > 100
            edges = np.mean([sum(map(len, dag.parents)) / len(dag.parents) for dag in dags])
            roots = np.mean([sum(not of for of in dag.parents) / len(dag.parents) for dag in dags])
            rows.append((edges, roots))
        (real_edges, real_roots), (edges, roots) = rows
        assert edges == pytest.approx(real_edges, rel=0.05)
        assert roots == pytest.approx(real_roots, rel=0.15)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_the_official_table_is_read_back_identically(tmp_path: Path, small: BatchTrace, name: str) -> None:
    small.write(tmp_path / name)
    frame, report = read_table("alibaba2018", "batch_task", tmp_path / name)
    assert report.bad == ()
    assert {noted.kind for noted in report.noted} == {"zero duration"}
    assert frame.equals(small.frame())
    assert frame.height == small.tasks
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_written_files_are_equal_for_equal_seeds(tmp_path: Path, small: BatchTrace) -> None:
    small.write(tmp_path / "a.csv.gz")
    generate_batch(800, np.random.default_rng(3)).write(tmp_path / "b.csv.gz")
    generate_batch(800, np.random.default_rng(4)).write(tmp_path / "c.csv.gz")
    first, again, other = ((tmp_path / name).read_bytes() for name in ("a.csv.gz", "b.csv.gz", "c.csv.gz"))
    assert first == again
    assert first != other


def test_another_ending_is_refused(tmp_path: Path, small: BatchTrace) -> None:
    with pytest.raises(InvalidInput, match=r"\.csv, \.csv\.gz or \.parquet"):
        small.write(tmp_path / "t.xls")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_names_encode_exactly_the_graph_and_no_task_starts_before_its_parents_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    trace = generate_batch(400, rng, tasks_per_job=rng.choice([1, 2, 3, 5, 12, 40, 120, 300], 400))
    frame = trace.frame()
    assert frame["task_name"].str.len_chars().max() < NAME_LIMIT
    for job, (_, rows, dag) in enumerate(job_dags(frame)):
        first, end = trace.job_offset[job : job + 2]
        assert rows.to_list() == list(range(first, end))
        assert dag.faults == ()
        assert dag.is_acyclic
        assert dag.levels() == tuple(trace.level[first:end])
        for task, parents in enumerate(dag.parents):
            own = trace.parent[trace.parent_offset[first + task] : trace.parent_offset[first + task + 1]]
            assert tuple(own - first) == parents
            assert len(parents) <= MOST_PARENTS
            ready = max((trace.end_s[first + parent] for parent in parents), default=trace.arrival_s[job])
            assert trace.start_s[first + task] == ready


def test_columns_are_within_their_units(small: BatchTrace) -> None:
    assert small.arrival_s[0] == FIRST_ARRIVAL_S
    assert np.all(np.diff(small.arrival_s) >= 0)
    assert np.all(small.instances >= 1)
    assert np.all(small.instance_s <= small.end_s - small.start_s)
    assert set(small.plan_cpu) <= {value for value, _ in calibration.PLAN_CPU}
    assert set(small.plan_memory) <= {value for value, _, _ in calibration.PLAN_MEMORY}
    assert np.all((small.cpu_used >= 0) & (small.cpu_used < 1_000))
    assert np.all((small.memory_used >= 0) & (small.memory_used < 110))
    by_job = np.split(small.plan_cpu, small.job_offset[1:-1])
    assert all(len(set(requests)) == 1 for requests in by_job)


@pytest.mark.slow
def test_arrivals_thin_with_the_machines() -> None:
    many = generate_batch(60_000, np.random.default_rng(1))
    few = generate_batch(60_000, np.random.default_rng(1), machines=403)
    ratio = (few.arrival_s[-1] - FIRST_ARRIVAL_S) / (many.arrival_s[-1] - FIRST_ARRIVAL_S)
    assert ratio == pytest.approx(4_034 / 403, rel=0.03)


def test_the_sanity_arithmetic_of_twenty_thousand_instances() -> None:
    """Published: 20,000 real instances are 561,000 core-seconds, which fill 249 machines to 77 % for 30 seconds."""
    work = batch_core_seconds(20_000)
    assert work == pytest.approx(561_000, rel=0.003)
    assert seconds_filled(work, machines=249, share=0.77) == pytest.approx(30, abs=0.6)
    with pytest.raises(InvalidInput):
        seconds_filled(work, machines=249, share=0.0)
    with pytest.raises(InvalidInput):
        seconds_filled(work, machines=0, share=0.77)


@pytest.mark.slow
def test_generated_instances_need_about_the_core_seconds_of_the_arithmetic(large: BatchTrace) -> None:
    """Requests are larger where tasks have more instances, so the mean instance asks for 0.86 of a core rather than 0.79."""
    instances = int(large.instances.sum())
    assert large.core_seconds() / batch_core_seconds(instances) == pytest.approx(0.86 / 0.79, rel=0.25)


@pytest.mark.parametrize(
    ("jobs", "machines", "sizes"),
    [
        (0, 249, None),
        (-1, 249, None),
        (10, 0, None),
        (10, 5_000, None),
        (2, 249, [1, 0]),
        (2, 249, [1]),
        (1, 249, [1_000]),
    ],
)
def test_counts_that_make_no_sense_are_refused(jobs: int, machines: int, sizes: list[int] | None) -> None:
    with pytest.raises(InvalidInput):
        generate_batch(jobs, np.random.default_rng(0), machines, None if sizes is None else np.array(sizes))


def test_drawing_is_exact_at_knots_and_monotone() -> None:
    knots = ((0.0, 0.25), (1.0, 0.5), (10.0, 0.9), (100.0, 1.0))
    u = np.linspace(0, 1, 10_001)
    drawn = draw(knots, u)
    assert np.all(np.diff(drawn) >= 0)
    for value, share in knots:
        assert np.mean(drawn <= value) == pytest.approx(share, abs=2e-4)
    assert set(drawn[(u > 0.5) & (u <= 0.9)]) == set(range(2, 11))
    assert draw_atoms(((5.0, 1.0), (7.0, 3.0)), np.array([0.0, 0.25, 0.2501, 1.0])).tolist() == [5.0, 5.0, 7.0, 7.0]


def test_services_have_a_days_curve_each_and_repeat_with_the_seed() -> None:
    services = generate_services(300, np.random.default_rng(2))
    assert services.cpu_cores.shape == (300, SAMPLES) == (300, 98)
    assert np.all(services.cpu_cores > 0)
    assert np.all(services.containers >= 1)
    assert set(services.disk_gb) <= {value for value, _ in calibration_services.DISK_GB}
    assert np.array_equal(services.cpu_cores, generate_services(300, np.random.default_rng(2)).cpu_cores)
    assert not np.array_equal(services.cpu_cores, generate_services(300, np.random.default_rng(9)).cpu_cores)
    with pytest.raises(InvalidInput):
        generate_services(0, np.random.default_rng(2))


@pytest.mark.slow
def test_wide_in_trees_keep_their_levels_where_a_task_can_wait_for_no_more() -> None:
    trace = generate_batch(6_000, np.random.default_rng(21), tasks_per_job=np.full(6_000, 60))
    shapes = Counter()
    for job, (_, _, dag) in enumerate(job_dags(trace.frame())):
        assert dag.levels() == tuple(trace.level[trace.job_offset[job] : trace.job_offset[job + 1]])
        shapes[dag.shape()] += 1
    assert shapes[Shape.IN_TREE] > 20
