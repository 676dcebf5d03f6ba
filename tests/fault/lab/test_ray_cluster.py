"""A real Ray cluster of two workers on this machine, for comparisons and searches: figures to the bit, a killed worker,
a lost node, an interrupt.

Skipped where Ray is not installed: CI does not install the extra `ray` (300 MB).
`packages/cotenant-lab/tests/unit/test_ray_cluster.py` has the contract against a double. Ray replaces loopback by the
machine's own address.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench.ray import LocalRay, identical, local_ray
from tests.fakes.waiting import eventually, patience

from cotenant_lab import experiment
from cotenant_lab.contract import RunSpec
from cotenant_lab.experiment import ExperimentPlan
from cotenant_lab.ray_cluster import connect

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'cotenant-lab[ray]'"),
    pytest.mark.usefixtures("fake_workloads"),
]

ROOT = Path(__file__).parents[3]
# A process that was started in the background ignores SIGINT, and so do its children.
COTENANT = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from cotenant.cli.main "
    "import main; sys.exit(main())"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of the workers and of commands: the workload `fake`, whose policy `dies` kills its process until the marker
    exists.
    """
    marker = tmp_path_factory.mktemp("marker") / "marker"
    return os.environ | {
        "COTENANT_SCENARIOS": "tests.fakes.processes.fake_scenarios",
        "PYTHONPATH": str(ROOT),
        "FAKE_MARKER": str(marker),
    }


@pytest.fixture(scope="module")
def cluster(environment: dict[str, str]) -> Iterator[LocalRay]:
    with local_ray(2, environment) as started:
        yield started


def plan(*policies: str, seeds: int) -> ExperimentPlan:
    return ExperimentPlan(RunSpec("fake", "", 0, 0.0), policies, tuple(range(seeds)), (0.77,))


def test_figures_are_equal_to_the_bit_and_a_killed_worker_costs_its_run_only(
    tmp_path: Path, cluster: LocalRay, environment: dict[str, str]
) -> None:
    here = experiment.run(plan("cotenant", "random", seeds=3), tmp_path / "here", jobs=1)
    connected = connect(cluster.address)
    try:
        wanted = plan("cotenant", "dies", "random", seeds=3)
        there = experiment.run(wanted, tmp_path / "there", connected.cpus, perform=connected.perform)
        assert [failure.spec.policy for failure in there.failures] == ["dies"] * 3
        assert all("its worker was lost 2 times" in failure.error for failure in there.failures)
        assert all(map(identical, here.records, there.records))
        assert len(there.records) == 6
        Path(environment["FAKE_MARKER"]).touch()
        again = experiment.run(wanted, tmp_path / "there", connected.cpus, perform=connected.perform)
        assert (again.reused, len(again.records), again.failures) == (6, 9, ())
    finally:
        connected.close()


def test_an_interrupted_comparison_continues_and_a_lost_node_costs_nothing(
    tmp_path: Path, cluster: LocalRay, environment: dict[str, str]
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", COTENANT, "lab", "compare", "--workload", "fake", "--on", cluster.address]
    command += ["--policies", "cotenant,random", "--seeds", "100", "--out", str(out)]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _stored(out, 3, first)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=patience(60))
    assert first.returncode == 130, said
    assert "the same command continues" in said
    kept = len(list(out.glob("runs/*.json")))
    assert 3 <= kept < 200
    second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _stored(out, kept + 3, second)
    cluster.kill_node(0)
    printed, said = second.communicate(timeout=patience(300))
    assert (second.returncode, said) == (0, "")
    assert "200 runs" in printed
    assert len(list(out.glob("runs/*.json"))) == 200


def test_an_interrupted_search_continues_over_a_lost_node_with_the_trials_of_this_machine(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    pytest.importorskip("optuna")
    search = [sys.executable, "-c", COTENANT, "lab", "tune", "--workload", "fake", "--policy", "cotenant", "--json"]
    search += ["--knob", "packing_weight=0:1", "--load", "0.9", "--trials", "12"]
    search += ["--seeds", "100-104", "--held-out", "20-24"]
    here = subprocess.run([*search, "--out", str(tmp_path / "here")], env=environment, capture_output=True, check=True)
    out = tmp_path / "there"
    with local_ray(2, environment) as cluster:
        there = [*search, "--out", str(out), "--on", cluster.address]
        first = subprocess.Popen(there, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _stored(out, 30, first)
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=patience(60))
        assert first.returncode == 130, said
        kept = len(list(out.glob("runs/*.json")))
        second = subprocess.Popen(there, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        _stored(out, kept + 3, second)
        cluster.kill_node(0)
        printed, said = second.communicate(timeout=patience(300))
        assert (second.returncode, said) == (0, "")
    found, wanted = json.loads(printed), json.loads(here.stdout)
    assert {**found, "command": ""} == {**wanted, "command": ""}


def _stored(out: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until `count` runs are stored."""
    eventually(
        "runs are stored", lambda: process.poll() is not None or len(list(out.glob("runs/*.json"))) >= count, 120
    )
    assert len(list(out.glob("runs/*.json"))) >= count, process.communicate() if process.poll() is not None else ""
