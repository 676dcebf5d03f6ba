"""Runs on a Ray cluster: the figures of this machine, a lost worker costs its run only, and one line for an address
that does not answer.
"""

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bench.ray import identical
from tests.fakes.servers.fake_ray import FakeRay, NodeDiedError, RayError, RayTaskError, WorkerCrashedError

from cotenant.model.errors import InvalidInput, Permanent
from cotenant_lab import environment as environments
from cotenant_lab import experiment, storage
from cotenant_lab.contract import RunSpec
from cotenant_lab.environment import difference, environment, traces_digest
from cotenant_lab.experiment import ExperimentOutcome, ExperimentPlan, RunProgress, Task
from cotenant_lab.ray_cluster import Assignment, RayCluster, connect, run_assigned

pytestmark = pytest.mark.usefixtures("fake_workloads")

BASE = RunSpec("fake", "", 0, 0.0)
ADDRESS = "ray://head:10001"


def plan(*policies: str, seeds: int = 2) -> ExperimentPlan:
    return ExperimentPlan(BASE, policies or ("cotenant", "random"), tuple(range(seeds)), (0.77,))


def on(ray: FakeRay, wanted: ExperimentPlan, folder: Path, jobs: int = 2) -> ExperimentOutcome:
    return experiment.run(wanted, folder, jobs, perform=RayCluster(ray, ADDRESS, 2).perform)


def timeless(outcome: ExperimentOutcome) -> list[str]:
    return [repr(replace(record.measures, run_s=0.0)) for record in outcome.records]


def test_figures_arrays_and_files_are_those_of_this_machine(tmp_path: Path) -> None:
    here = experiment.run(plan(), tmp_path / "here", jobs=1)
    ray = FakeRay()
    there = on(ray, plan(), tmp_path / "there")
    assert timeless(there) == timeless(here)
    assert [record.path.name for record in there.records] == [record.path.name for record in here.records]
    assert all(map(identical, there.records, here.records))
    assert not identical(there.records[0], there.records[1])
    assert not identical(there.records[0], replace(there.records[0], notes=("another",)))
    assert ray.options == {"num_cpus": 1, "max_retries": 0}


def test_a_comparison_continues_on_the_cluster_and_back(tmp_path: Path) -> None:
    experiment.run(plan(seeds=1), tmp_path, jobs=1)
    ray = FakeRay()
    steps: list[RunProgress] = []
    more = experiment.run(plan(seeds=2), tmp_path, 2, steps.append, RayCluster(ray, ADDRESS, 2).perform)
    assert (more.reused, len(more.records)) == (2, 4)
    assert [(step.done, step.total) for step in steps] == [(3, 4), (4, 4)]
    assert {spec.seed for spec in ray.attempts} == {1}
    assert experiment.run(plan(seeds=3), tmp_path, jobs=1).reused == 4


def test_no_more_runs_are_submitted_at_once_than_jobs(tmp_path: Path) -> None:
    ray = FakeRay()
    assert len(on(ray, plan(seeds=5), tmp_path, jobs=3).records) == 10
    assert ray.max_running == 3


def test_a_lost_worker_costs_its_run_a_second_submission_and_the_others_nothing(tmp_path: Path) -> None:
    ray = FakeRay(
        fault=lambda run, attempt: WorkerCrashedError("gone") if run.spec.seed == 1 and attempt == 1 else None
    )
    outcome = on(ray, plan(seeds=3), tmp_path)
    assert (len(outcome.records), outcome.failures) == (6, ())
    assert sorted(ray.attempts.values()) == [1, 1, 1, 1, 2, 2]


def test_a_run_that_loses_its_worker_twice_is_reported_and_the_same_plan_continues(tmp_path: Path) -> None:
    lost = NodeDiedError("Task failed because its node died.\n\tA long explanation.")
    ray = FakeRay(fault=lambda run, attempt: lost if run.spec.policy == "random" else None)
    outcome = on(ray, plan("random", "cotenant", seeds=2), tmp_path)
    assert [failure.line() for failure in outcome.failures] == [
        f"random, load 0.77, seed {seed}: its worker was lost 2 times: Task failed because its node died."
        for seed in (0, 1)
    ]
    assert len(outcome.records) == 2
    again = on(FakeRay(), plan("random", "cotenant", seeds=2), tmp_path)
    assert (again.reused, len(again.records), again.failures) == (2, 4, ())


def test_a_worker_that_cannot_load_the_package_stops_the_comparison_in_one_line(tmp_path: Path) -> None:
    text = (
        "\x1b[36mray::run_assigned()\x1b[39m (pid=7, ip=192.0.2.7)\n  At least one argument\nModuleNotFoundError: "
        "No module named 'cotenant'"
    )
    ray = FakeRay(fault=lambda run, attempt: RayTaskError(text) if run.spec.seed == 1 else None)
    with pytest.raises(InvalidInput) as caught:
        on(ray, plan("cotenant", seeds=9), tmp_path)
    assert str(caught.value) == (
        f"--on: {ADDRESS}: expected workers whose runs give the same figures; on 192.0.2.7: ModuleNotFoundError: No "
        "module named 'cotenant'"
    )
    assert len(ray.cancelled) == 1
    assert on(FakeRay(), plan("cotenant", seeds=9), tmp_path).reused == 1


def test_another_error_of_ray_is_reported_with_its_text_and_the_run_is_not_repeated(tmp_path: Path) -> None:
    ray = FakeRay(fault=lambda run, attempt: RayError("Local disk is full\nmore") if run.spec.seed == 0 else None)
    outcome = on(ray, plan("cotenant", seeds=2), tmp_path)
    assert [failure.error for failure in outcome.failures] == ["Ray: Local disk is full"]
    assert outcome.failures[0].detail.endswith("more")
    assert set(ray.attempts.values()) == {1}


def test_a_failing_run_is_reported_with_its_traceback_as_on_this_machine(tmp_path: Path) -> None:
    wanted = plan("raises", "absurd", "cotenant", seeds=1)
    here = experiment.run(wanted, tmp_path / "here", jobs=1)
    there = on(FakeRay(), wanted, tmp_path / "there")
    assert [failure.line() for failure in there.failures] == [failure.line() for failure in here.failures]
    assert "Traceback" in there.failures[0].detail


def test_bad_input_found_by_a_worker_arrives_as_itself(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        on(FakeRay(), plan("refuses"), tmp_path)
    assert (caught.value.field, caught.value.expected) == ("machine_meta.csv: line 7", "a number")


def test_a_result_that_cannot_be_stored_is_reported(tmp_path: Path) -> None:
    wanted = plan("cotenant", seeds=2)
    first = storage.run_path(tmp_path, wanted.specs()[0])
    first.mkdir(parents=True)  # a folder stands where the file belongs
    outcome = on(FakeRay(), wanted, tmp_path)
    assert [record.spec.seed for record in outcome.records] == [1]
    assert "expected a file to write to" in outcome.failures[0].error


def test_a_lost_connection_is_one_line_and_what_is_finished_stays(tmp_path: Path) -> None:
    ray = FakeRay()

    def break_off(step: RunProgress) -> None:
        ray.broken = step.done == 3

    with pytest.raises(
        Permanent, match=r"the connection to ray://head:10001 was lost: Client is shutting down\.; .*the same command"
    ):
        experiment.run(plan(seeds=3), tmp_path, 2, break_off, RayCluster(ray, ADDRESS, 2).perform)
    assert ray.cancelled == []  # a call without a connection may start a cluster
    assert on(FakeRay(), plan(seeds=3), tmp_path).reused == 3


def test_an_interrupt_cancels_what_runs_and_keeps_what_is_finished(tmp_path: Path) -> None:
    ray = FakeRay()

    def stop(step: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(plan(seeds=3), tmp_path, 2, stop, RayCluster(ray, ADDRESS, 2).perform)
    assert len(ray.cancelled) == 1
    assert on(FakeRay(), plan(seeds=3), tmp_path).reused == 1


def test_the_workload_s_file_need_not_exist_on_the_worker(tmp_path: Path) -> None:
    spec = replace(BASE, policy="reads", load=0.7, file=Path("/only/on/the/head/mine.yaml"))
    finished = run_assigned(Assignment(spec, environment(), ADDRESS, b"0.25"))
    assert (finished.error, finished.value.spec, finished.value.measures.success) == ("", spec, 0.25)
    own = tmp_path / "mine.yaml"
    own.write_text("0.5")
    outcome = on(FakeRay(), replace(plan("reads", seeds=1), base=replace(BASE, file=own)), tmp_path / "out")
    assert [record.measures.success for record in outcome.records] == [0.5]


def test_an_edit_of_the_workload_s_file_during_the_comparison_changes_no_run_of_it(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("0.5")

    def edit(step: RunProgress) -> None:
        own.write_text("0.25")

    wanted = replace(plan("reads", seeds=3), base=replace(BASE, file=own))
    outcome = experiment.run(wanted, tmp_path / "out", 1, edit, RayCluster(FakeRay(), ADDRESS, 2).perform)
    assert [record.measures.success for record in outcome.records] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"python": "3.9"}, "it has Python"),
        ({"sources": "0123456789abcdef"}, "it has other sources of cotenant"),
        ({"libraries": ("numpy 1.0",)}, "this machine numpy 1.0"),
        ({"arithmetic": "0"}, "elementary functions differ there in the last bits"),
        ({"traces": "9 files, 1 bytes (0)"}, "here 9 files"),
    ],
)
def test_a_worker_whose_figures_could_differ_refuses_the_run(
    tmp_path: Path, changed: dict[str, str | tuple[str, ...]], words: str
) -> None:
    (tmp_path / "table.csv").write_text("1\n")
    spec = replace(BASE, policy="cotenant", load=0.7, traces=tmp_path)
    expected = replace(environment(tmp_path), **changed)  # type: ignore[arg-type]
    finished = run_assigned(Assignment(spec, expected, ADDRESS))
    assert finished.refused is not None
    assert finished.refused.field == "--on"
    assert f"on {socket.gethostname()}: " in finished.error
    assert words in finished.error
    assert "\n" not in finished.error


def test_a_worker_without_the_traces_refuses_a_run_that_reads_them() -> None:
    spec = replace(BASE, policy="cotenant", load=0.7, traces=Path("/no/such/traces"))
    expected = replace(environment(), traces="1 files, 2 bytes (0)")
    assert "there is no folder /no/such/traces" in run_assigned(Assignment(spec, expected, ADDRESS)).error
    assert not run_assigned(Assignment(spec, environment(), ADDRESS)).error  # a workload that reads no traces


def test_equal_environments_do_not_differ(tmp_path: Path) -> None:
    assert difference(environment(tmp_path), environment(tmp_path)) == ""
    (tmp_path / "a.csv").write_text("12")
    before = traces_digest(tmp_path)
    (tmp_path / "a.csv").write_text("123")
    assert before.startswith("1 files, 2 bytes")
    assert traces_digest(tmp_path) != before


def test_arithmetic_is_the_same_twice_in_one_process() -> None:
    first = environments.arithmetic_digest()
    environments.arithmetic_digest.cache_clear()
    assert environments.arithmetic_digest() == first


@pytest.mark.parametrize(
    "address",
    [
        "",
        "head:10001",
        "http://head:10001",
        "ray://",
        "ray://head",
        "ray://head:",
        "ray://:1",
        "ray://head:0",
        "ray://head:65536",
        "ray://head:x",
    ],
)
def test_a_malformed_address_is_refused_before_the_library_is_loaded(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"--on: .*expected ray://HOST:PORT"):
        connect(address, load=pytest.fail)


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ray://127.0.0.1:{server.getsockname()[1]}"


def test_without_the_library_the_extra_is_named() -> None:
    def missing() -> None:
        raise ImportError("No module named 'ray'")

    with pytest.raises(
        InvalidInput, match=r"expected the extra `ray`; install it with: pip install 'cotenant-lab\[ray\]'"
    ):
        connect(ADDRESS, load=missing)


def test_a_port_on_which_nothing_listens_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InvalidInput, match="a Ray cluster that answers within 5 s; Connection refused"):
        connect(f"ray://127.0.0.1:{port}", load=FakeRay)


def test_a_port_that_is_not_ray_s_is_one_line(listener: str) -> None:
    timeout = ConnectionError("ray client connection timeout")
    with pytest.raises(InvalidInput, match=r"a Ray client server; ray client connection timeout; its port is that of"):
        connect(listener, load=lambda: FakeRay(refuses=timeout))


def test_another_version_of_ray_is_one_line_with_both_versions(listener: str) -> None:
    mismatch = RuntimeError("Version mismatch: The cluster has:\n    Ray: 2.40.0\nThis process has:\n    Ray: 2.60.0\n")
    with pytest.raises(InvalidInput) as caught:
        connect(listener, load=lambda: FakeRay(refuses=mismatch))
    assert str(caught.value).endswith("; Version mismatch: The cluster has: Ray: 2.40.0 This process has: Ray: 2.60.0")


def test_a_server_that_never_answers_is_given_up(listener: str) -> None:
    class Silent(FakeRay):
        def init(self, address: str, log_to_driver: bool, logging_level: int) -> None:
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as client:
                client.settimeout(5)
                client.recv(1)

    with pytest.raises(InvalidInput, match=r"a Ray client server that answers within 0\.02 s"):
        connect(listener, load=Silent, connect_s=0.02)


def test_a_connected_cluster_says_its_size_and_disconnects(listener: str) -> None:
    ray = FakeRay(cpus=7)
    cluster = connect(listener, load=lambda: ray)
    assert (cluster.cpus, cluster.nodes, str(cluster)) == (7, 2, f"{listener}: 2 nodes, 7 CPUs")
    assert ray.connected
    cluster.close()
    assert not ray.connected


def test_closing_an_iterator_that_has_not_begun_cancels_nothing(tmp_path: Path) -> None:
    ray = FakeRay()
    runs = RayCluster(ray, ADDRESS, 2).perform([Task(spec, tmp_path / "x.json") for spec in plan().specs()], 2)
    runs.close()  # type: ignore[attr-defined]
    assert (ray.attempts, ray.cancelled) == ({}, [])
