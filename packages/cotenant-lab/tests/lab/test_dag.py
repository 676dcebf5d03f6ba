from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.job_order import JobOrder, OrderKnobs
from cotenant_lab.contract import RunSpec
from cotenant_lab.metrics_by_workload import catalogue
from cotenant_lab.scenarios.dag import TIMED_EVERY, WINDOW, Dag
from cotenant_lab.scenarios.dag_loop import play
from cotenant_lab.scenarios.dag_placement import PATIENCE_S
from cotenant_lab.scenarios.dag_state import NodeChoice, prepare
from cotenant_lab.workloads import dag as workload
from cotenant_lab.workloads.dag import Arrivals, DagJob, graph_of
from cotenant_lab.workloads.job_parts import JobPart, part_named, part_of

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[5] / "shared" / "traces")
real = pytest.mark.skipif(
    not (TRACES / workload.JOBS_FOLDER).is_dir(), reason=f"no {workload.JOBS_FOLDER} in {TRACES}; set COTENANT_TRACES"
)
GIB = workload.GIB
PLAIN = OrderKnobs()


def job(*tasks: tuple[int, float, float, tuple[int, ...]], memory: int = GIB) -> DagJob:
    """Tasks as (pods, cores, seconds, parents)."""
    pods, cores, seconds, parents = zip(*tasks)
    size = len(tasks)
    return DagJob(
        np.array(pods),
        (np.array(cores) * 1000).astype(np.int64),
        np.full(size, memory),
        np.array(seconds, float),
        parents,
    )


def arrive(jobs: list[DagJob], at: list[float], deadline: list[float], estimate: float = 1.0) -> Arrivals:
    graph = graph_of(jobs)
    alone = workload.isolated_s(graph)
    everything = np.ones(len(jobs), np.bool_)
    return Arrivals(
        graph, np.array(at), np.array(deadline), alone, np.ones(len(jobs)), graph.duration_s * estimate, everything
    )


def ends(
    arrivals: Arrivals,
    order: JobOrder,
    where: NodeChoice = NodeChoice.BEST_FIT,
    knobs: OrderKnobs = PLAIN,
    cores: int = 2,
) -> list[float]:
    fixed, state = prepare(arrivals, 1, cores * 1000, 64 * GIB, (0.0, 1e4))
    play(1 << 60, -1, int(order), int(where), knobs, fixed, state)
    assert state.free_cpu.tolist() == [cores * 1000]
    assert state.free_memory.tolist() == [64 * GIB]
    assert (state.waiting == 0).all()
    assert (state.unfinished == 0).all()
    work = float(workload.work_of(arrivals.graph).sum())
    assert state.used[0] == pytest.approx(work)  # work is conserved
    return state.end_s.tolist()


def test_a_job_alone_takes_its_isolated_time() -> None:
    # 0 -> 1, 0 -> 2 -> 3: the longest path is 10 + 20 + 5
    diamond = job((1, 1.0, 10.0, ()), (1, 0.5, 5.0, (0,)), (1, 0.5, 20.0, (0,)), (2, 1.0, 5.0, (1, 2)))
    arrivals = arrive([diamond], [7.0], [100.0])
    assert arrivals.isolated_s.tolist() == [35.0]
    assert ends(arrivals, JobOrder.ARRIVAL) == [42.0]


def test_a_stage_starts_only_when_all_pods_of_its_parents_have_ended() -> None:
    # three pods on two cores take two waves, then the child
    assert ends(arrive([job((3, 1.0, 10.0, ()), (1, 1.0, 1.0, (0,)))], [0.0], [99.0]), JobOrder.ARRIVAL) == [21.0]


def test_parents_may_be_listed_after_their_children() -> None:
    swapped = job((1, 1.0, 3.0, (1,)), (1, 1.0, 4.0, ()))
    graph = graph_of([swapped])
    assert graph.level.tolist() == [2, 1]
    assert workload.paths(graph, graph.duration_s).tolist() == [3.0, 7.0]
    assert ends(arrive([swapped], [0.0], [9.0]), JobOrder.ARRIVAL) == [7.0]


def test_orders_differ_as_they_should() -> None:
    blocker, long, short = job((1, 1.0, 10.0, ())), job((1, 1.0, 50.0, ())), job((1, 1.0, 5.0, ()))
    arrivals = arrive([blocker, long, short], [0.0, 1.0, 2.0], [99.0, 70.0, 62.0])
    assert ends(arrivals, JobOrder.ARRIVAL, cores=1) == [10.0, 60.0, 65.0]
    assert ends(arrivals, JobOrder.DEADLINE, cores=1) == [10.0, 65.0, 15.0]
    assert ends(arrivals, JobOrder.REMAINING_WORK, cores=1) == [10.0, 65.0, 15.0]
    assert ends(arrivals, JobOrder.LATEST_START, cores=1) == [10.0, 60.0, 65.0]  # 70 - 50 < 62 - 5


def test_a_hopeless_job_waits_behind_one_that_can_still_be_on_time() -> None:
    blocker, lost, sound = job((1, 1.0, 10.0, ())), job((1, 1.0, 50.0, ())), job((1, 1.0, 20.0, ()))
    arrivals = arrive([blocker, lost, sound], [0.0, 1.0, 2.0], [99.0, 40.0, 45.0])
    assert ends(arrivals, JobOrder.LATEST_START, cores=1) == [10.0, 60.0, 80.0]  # both late
    shed = ends(arrivals, JobOrder.LATEST_START, knobs=OrderKnobs(hopeless=1.0), cores=1)
    assert shed == [10.0, 80.0, 30.0]  # one on time


def test_schedulers_get_estimates_and_never_the_durations() -> None:
    arrivals = arrive([job((2, 1.0, 10.0, ()), (1, 1.0, 30.0, (0,)))], [0.0], [99.0], estimate=2.0)
    fixed, state = prepare(arrivals, 1, 2000, 64 * GIB, (0.0, 99.0))
    assert fixed.path_s.tolist() == [80.0, 60.0]
    assert state.work_left.tolist() == [2 * 20.0 + 60.0]


@pytest.mark.parametrize("where", list(NodeChoice))
def test_pods_go_where_the_rule_says_and_never_over_capacity(where: NodeChoice) -> None:
    rng = np.random.default_rng(1)
    jobs = [
        job((int(rng.integers(1, 30)), float(rng.choice([0.5, 1.0])), 10.0, ()), memory=int(rng.integers(1, 9)) * GIB)
        for _ in range(40)
    ]
    arrivals = arrive(jobs, np.arange(40.0).tolist(), [99.0] * 40)
    fixed, state = prepare(arrivals, 5, 8_000, 40 * GIB, (0.0, 1e4))
    while play(1, -1, int(JobOrder.ARRIVAL), int(where), PLAIN, fixed, state):
        assert (state.free_cpu >= 0).all()
        assert (state.free_memory >= 0).all()
    assert np.isfinite(state.end_s).all()

    lone = arrive([job((3, 1.0, 10.0, ()))], [0.0], [99.0])
    fixed, state = prepare(lone, 3, 2_000, 64 * GIB, (0.0, 99.0))
    play(1, -1, int(JobOrder.ARRIVAL), int(where), PLAIN, fixed, state)
    spread = where is NodeChoice.LEAST_ALLOCATED
    assert state.free_cpu.tolist() == ([1_000] * 3 if spread else [0, 1_000, 2_000])


def test_many_pods_spread_as_one_by_one_would() -> None:
    lone = arrive([job((23, 1.0, 10.0, ()))], [0.0], [99.0])
    fixed, state = prepare(lone, 4, 8_000, 64 * GIB, (0.0, 99.0))
    play(1, -1, int(JobOrder.ARRIVAL), int(NodeChoice.LEAST_ALLOCATED), PLAIN, fixed, state)
    assert sorted(state.free_cpu.tolist()) == [2_000, 2_000, 2_000, 3_000]


def spec(
    policy: str = "cotenant", traces: Path | None = None, seed: int = 0, load: float = 0.9, **knobs: float
) -> RunSpec:
    return RunSpec("dag", policy, seed, load, traces=traces, overrides=tuple(knobs.items()))


@pytest.mark.slow
def test_synthetic_jobs_follow_the_figures_they_claim() -> None:
    graph = workload.synthetic_pool().graph
    tasks = np.diff(graph.start)
    assert (tasks == 1).mean() == pytest.approx(0.38, abs=0.03)
    assert tasks.mean() == pytest.approx(3.38, rel=0.1)
    assert np.percentile(tasks, (50, 90, 95, 99)) == pytest.approx((2, 7, 11, 20), abs=1.5)
    assert (graph.pods == 1).mean() == pytest.approx(0.662, abs=0.02)
    assert (graph.pods > 100).mean() == pytest.approx(0.067, rel=0.2)
    assert np.percentile(graph.duration_s, (50, 90)) == pytest.approx(
        (9, 77), rel=0.15
    )  # exp(mu), exp(mu + 1.28 sigma)
    assert (graph.cpu == 500).mean() == pytest.approx(0.419, abs=0.02)
    depth = np.maximum.reduceat(graph.level, graph.start[:-1])
    assert depth[tasks == 5].mean() == pytest.approx(3.7, abs=0.4)


@pytest.mark.slow
def test_load_is_the_requested_load_and_seeds_differ() -> None:
    pool = workload.synthetic_pool()
    seconds = workload.WARM_UP_S + workload.MEASURED_S + workload.TAIL_S
    first, again, other = (workload.make(pool, 0.5, seed, 0.2) for seed in (1, 1, 2))
    offered = workload.work_of(first.graph).sum() / (workload.NODES * 96 * seconds)
    assert offered == pytest.approx(0.5, rel=0.01)
    assert (np.diff(first.arrival_s) >= 0).all()
    assert (first.deadline_s >= first.arrival_s + 1.5 * first.isolated_s + 60.0).all()
    assert first.arrival_s.tolist() == again.arrival_s.tolist()
    assert len(first.arrival_s) != len(other.arrival_s)
    noise = np.log(first.estimate_s / first.graph.duration_s)
    assert noise.std() == pytest.approx(0.3, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [info.name for info in Dag().policies()])
def test_every_policy_runs_without_traces(policy: str) -> None:
    result = Dag().run(spec(policy, load=0.3))
    measures = result.measures
    assert any("synthetic" in note for note in result.notes)
    assert measures.success > 0.9
    assert 0.0 <= measures.violation < 0.5
    assert measures.slowdown_p50 >= 1.0
    assert 0.1 < measures.utilisation < 0.6
    assert len(result.slowdowns) <= 2_000
    assert (np.diff(result.slowdowns) >= 0).all()


@pytest.mark.slow
def test_equal_specifications_give_equal_results() -> None:
    first, second = (Dag().run(spec(load=0.4)) for _ in range(2))
    assert first.by_class == second.by_class
    assert first.slowdowns.tolist() == second.slowdowns.tolist()


def test_the_definitions_name_the_window_and_the_figures_that_are_measured() -> None:
    reported = catalogue("dag")
    hours = f"[{WINDOW[0] / 3600:g} h, {WINDOW[1] / 3600:g} h)"
    assert hours in reported["success"].definition
    assert f"{PATIENCE_S:g} s" in reported["success"].definition
    assert f"+ {workload.GRACE_S:g} s" in reported["violation"].definition
    assert all(f"{k:g}" in reported["violation"].definition for k in workload.TIGHTNESS)
    assert f"one round in {TIMED_EVERY}" in reported["decision_p50_us"].definition.lower()


@pytest.mark.slow
def test_explain_reports_a_tasks_history() -> None:
    reported = Dag().explain(spec(load=0.4), "20.0")
    assert reported.outcome.startswith("started")
    assert reported.candidates
    assert any("deadline" in line for line in reported.lines)
    node, score, parts = reported.candidates[0]
    assert node.startswith("machine")
    assert score == pytest.approx(sum(part for _, part in parts))


@pytest.mark.slow
def test_bad_specifications_are_refused(tmp_path: Path) -> None:
    for wrong, field in (
        (spec("drf"), "--policies"),
        (spec(load=float("nan")), "--load"),
        (spec(traces=tmp_path), "--traces"),
        (spec(hopless=1.0), "knob"),
        (spec("edf-best-fit", margin=1.0), "knob"),
        (spec(margin=float("inf")), "margin"),
    ):
        with pytest.raises(InvalidInput, match=field):
            Dag().check(wrong)
    for task in ("12", "x.1", "99999999.0", "0.99999", "-1.0"):
        with pytest.raises(InvalidInput, match="TASK"):
            Dag().explain(spec(load=0.05), task)


def write(folder: Path, tasks: list[str]) -> Path:
    for name, lines in (
        (
            workload.JOBS_FOLDER + "/batch_task.csv",
            ["task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem", *tasks],
        ),
        (
            workload.HISTOGRAMS_FOLDER + "/histograms.csv",
            [
                "quantity,condition,left_open,right_closed,count",
                "task_num,,0,1,50",
                "task_num,,1,2,30",
                "task_num,,2,3,20",
            ],
        ),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def test_the_loader_counts_what_it_leaves_out_and_reweights(tmp_path: Path) -> None:
    good = [
        f"{name},2,j_{j},1,Terminated,100,{100 + d},100,0.3" for j in range(3) for name, d in (("M1", 10), ("R2_1", 20))
    ]
    triple = [f"{name},1,j_t,1,Terminated,100,105,50,0.2" for name in ("M1", "M2", "R3_1_2")]
    bad = [
        "M1,1,j_w,1,Waiting,0,0,100,0.3",
        "R2_1,1,j_w,1,Terminated,100,110,100,0.3",  # its parent was dropped
        "M1,1,j_z,1,Terminated,100,100,100,0.3",
        "R2_1,1,j_z,1,Terminated,100,110,100,0.3",
        "M1,1,j_long,1,Terminated,100,90000,100,0.3",
        "R2_1,1,j_long,1,Terminated,100,110,100,0.3",
    ]
    pool = workload.load_pool(write(tmp_path, good + triple + bad))
    reported = "\n".join(pool.notes)
    assert "never started" in reported
    assert "left out 1 jobs: waits for a task the job does not have" in reported
    assert "1 tasks that ended in the second they began" in reported
    assert "longer than 3600 s alone" in reported
    tasks = np.diff(pool.graph.start)
    # 30 of 100 jobs have two tasks; of the five such jobs one is too long, and so is one of the seven lone tasks
    left = 50 * 6 / 7 + 30 * 4 / 5 + 20
    assert pool.weight[tasks == 1].sum() == pytest.approx(50 * 6 / 7 / left)
    assert pool.weight[tasks == 2].sum() == pytest.approx(30 * 4 / 5 / left)
    assert pool.weight[tasks == 3].sum() == pytest.approx(20 / left)


def test_the_halves_of_the_jobs_are_disjoint_and_complete(tmp_path: Path) -> None:
    """Told apart by the number of pods, which is different for each job; one-task jobs stay with the job they were
    cut from.
    """
    jobs = [
        f"{name},{j + 1},j_{j},1,Terminated,100,110,100,0.3"
        for j in range(40)
        for name in ("M1", "R2_1", "R3_2", "R4_3")
    ] + [f"{name},{j + 1},j_{j},1,Terminated,100,110,100,0.3" for j in range(40, 60) for name in ("M1", "R2_1")]
    folder = write(tmp_path, jobs)
    pods = {part: set(workload.load_pool(folder, part).graph.pods.tolist()) for part in JobPart}
    assert pods[JobPart.ALL] == set(range(1, 61))
    assert pods[JobPart.TUNING] | pods[JobPart.HELD_OUT] == pods[JobPart.ALL]
    assert not pods[JobPart.TUNING] & pods[JobPart.HELD_OUT]
    assert {n - 1 for n in pods[JobPart.HELD_OUT]} == {j for j in range(60) if part_of(f"j_{j}") == JobPart.HELD_OUT}
    pool = workload.load_pool(folder, JobPart.HELD_OUT)
    tasks = np.diff(pool.graph.start)
    assert pool.weight[tasks == 1].sum() == pytest.approx(0.5)  # the weights are those of the half alone
    assert any(note.startswith("only the held-out half") for note in pool.notes)


def test_the_half_of_a_job_never_changes() -> None:
    """Results are reported on these halves, so the division is fixed for good."""
    named = {name: part_of(name) for name in ("j_1", "j_2", "j_1001388", "synthetic-0")}
    assert named == {
        "j_1": JobPart.TUNING,
        "j_2": JobPart.HELD_OUT,
        "j_1001388": JobPart.TUNING,
        "synthetic-0": JobPart.TUNING,
    }
    assert part_named("dag") == JobPart.ALL
    assert part_named("dag:held-out") == JobPart.HELD_OUT


@pytest.mark.parametrize("workload_name", ["dag:", "dag:other", "dag:held-out:x"])
def test_an_unknown_half_is_refused(workload_name: str) -> None:
    with pytest.raises(InvalidInput, match="held-out"):
        Dag().check(replace(spec(), workload=workload_name))


def test_a_half_without_jobs_is_refused(tmp_path: Path) -> None:
    name = next(f"j_{j}" for j in range(100) if part_of(f"j_{j}") == JobPart.TUNING)
    folder = write(tmp_path, [f"M1,1,{name},1,Terminated,100,110,100,0.3"])
    with pytest.raises(InvalidInput, match="all 1 are in the other half"):
        workload.load_pool(folder, JobPart.HELD_OUT)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, ["M1,1,j_1,1,Terminated,100,110,100,0.3"])
    (folder / workload.JOBS_FOLDER / "batch_task.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nx,1,2,3,a\n")
    with pytest.raises(InvalidInput, match="batch_task"):
        workload.load_pool(folder)


@real
@pytest.mark.slow
def test_ours_misses_less_than_edf_on_real_jobs() -> None:
    """Two seeds prove nothing, but a policy that stops shedding or ordering by path fails here."""
    late = {
        policy: [Dag().run(spec(policy, TRACES, seed)).measures.violation for seed in (0, 1)]
        for policy in ("edf-best-fit", "cotenant")
    }
    assert all(value > 0 for value in late["edf-best-fit"])
    assert np.mean(late["cotenant"]) < np.mean(late["edf-best-fit"])
