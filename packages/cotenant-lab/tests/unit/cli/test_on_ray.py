"""`cotenant lab compare --on`: the cluster in the experiment's folder and in the command that continues, and
nothing written for a bad address.
"""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.fake_ray import FakeRay

from cotenant.cli.main import main

pytestmark = pytest.mark.usefixtures("fake_workloads")

FAKE = ("lab", "compare", "--workload", "fake", "--seeds", "2", "--policies", "cotenant,random")


@pytest.fixture
def address() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ray://127.0.0.1:{server.getsockname()[1]}"


def run(*arguments: object) -> int:
    return main([str(value) for value in (*FAKE, *arguments)])


@pytest.mark.slow
def test_results_are_those_of_this_machine_and_the_report_names_the_cluster(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = FakeRay(cpus=3)
    monkeypatch.setitem(sys.modules, "ray", ray)
    there, here = tmp_path / "there", tmp_path / "here"
    assert run("--on", address, "--out", there) == 0
    assert run("--jobs", 1, "--out", here) == 0
    assert capsys.readouterr().err == ""
    rows = [json.loads((folder / "results.json").read_text())["rows"] for folder in (there, here)]
    for row in (*rows[0], *rows[1]):
        del row["run_s"], row["run_s_ci"]
    assert rows[0] == rows[1]
    origin = json.loads((there / "experiment.json").read_text())["provenance"]
    assert (origin["cluster"], origin["jobs"]) == (f"{address}: 2 nodes, 3 CPUs", 3)
    assert f"--on {address}" in origin["command"]
    assert f"{address}: 2 nodes, 3 CPUs" in (there / "report.html").read_text()
    assert not ray.connected


def test_a_cluster_without_cpus_needs_jobs(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = FakeRay(cpus=0)
    monkeypatch.setitem(sys.modules, "ray", ray)
    out = tmp_path / "out"
    assert run("--on", address, "--out", out) == 2
    assert "expected a cluster with CPUs; --jobs" in capsys.readouterr().err
    assert not out.exists()
    assert not ray.connected
    assert run("--on", address, "--out", out, "--jobs", 2) == 0


@pytest.mark.parametrize("address", ["head:10001", "ray://head", "ray://127.0.0.1:1"])
def test_a_bad_address_is_one_line_and_writes_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    out = tmp_path / "out"
    assert run("--on", address, "--out", out) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"cotenant: --on: {address}: expected ")
    assert captured.err.count("\n") == 1
    assert not out.exists()


def test_without_the_library_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert run("--on", "ray://head:10001", "--out", tmp_path / "out") == 2
    assert "pip install 'cotenant-lab[ray]'" in capsys.readouterr().err


@pytest.mark.slow
def test_an_interrupt_prints_the_command_that_continues_on_the_cluster(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(FakeRay):
        fetched = 0

        def get(self, reference: int) -> object:
            self.fetched += 1
            if self.fetched == 3:
                raise KeyboardInterrupt
            return super().get(reference)

    ray = Interrupted()
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert run("--on", address, "--out", tmp_path) == 130
    said = capsys.readouterr().err
    assert "interrupted with 2 of 4 runs stored" in said
    assert f"--on {address}" in said
    assert not ray.connected
    assert run("--on", address, "--out", tmp_path) == 0
    assert "4 runs (2 now, 2 stored before)" in capsys.readouterr().out
