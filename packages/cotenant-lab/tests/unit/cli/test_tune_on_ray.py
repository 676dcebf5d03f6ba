"""`cotenant lab tune --on`: the trials and the judgement of this machine, continued after an interrupt."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.servers.fake_ray import FakeRay

from cotenant.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fake_workloads")]

SEARCH = (
    *("lab", "tune", "--workload", "fake", "--policy", "cotenant", "--knob", "packing_weight=0:1", "--load", "0.9"),
    *("--trials", "12", "--seeds", "100-102", "--held-out", "20-25", "--json"),
)


@pytest.fixture
def address() -> Iterator[str]:
    pytest.importorskip("optuna")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ray://127.0.0.1:{server.getsockname()[1]}"


def tune(*arguments: object) -> int:
    return main([str(value) for value in (*SEARCH, *arguments)])


def test_trials_and_judgement_are_those_of_this_machine(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = FakeRay(cpus=3)
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert tune("--on", address, "--out", tmp_path / "there") == 0
    there = json.loads(capsys.readouterr().out)
    assert not ray.connected
    assert tune("--jobs", 1, "--out", tmp_path / "here") == 0
    here = json.loads(capsys.readouterr().out)
    assert f"--on {address}" in there.pop("command")
    assert "--on" not in here.pop("command")
    assert there == here
    assert f"{address}: 2 nodes, 3 CPUs" in (tmp_path / "there" / "report.html").read_text()


def test_an_interrupted_search_continues_on_the_cluster(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(FakeRay):
        fetched = 0

        def get(self, reference: int) -> object:
            self.fetched += 1
            if self.fetched == 10:
                raise KeyboardInterrupt
            return super().get(reference)

    monkeypatch.setitem(sys.modules, "ray", ray := Interrupted())
    assert tune("--on", address, "--out", tmp_path) == 130
    assert f"--on {address}" in capsys.readouterr().err
    assert not ray.connected
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.json")}
    assert len(stored) >= 8
    assert tune("--on", address, "--out", tmp_path) == 0
    assert all(path.stat().st_mtime_ns == at for path, at in stored.items())  # none was done again
    continued = json.loads(capsys.readouterr().out)
    assert tune("--jobs", 1, "--out", tmp_path / "here") == 0
    here = json.loads(capsys.readouterr().out)
    assert [continued[part] for part in ("trials", "recommended")] == [here[part] for part in ("trials", "recommended")]


def test_a_bad_address_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    monkeypatch.setitem(sys.modules, "ray", FakeRay())
    assert tune("--on", "head:10001", "--out", tmp_path / "out") == 2
    assert capsys.readouterr().err.startswith("cotenant: --on: head:10001: expected ")
    assert not (tmp_path / "out").exists()
