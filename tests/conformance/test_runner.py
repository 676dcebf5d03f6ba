"""The runner itself: a wrong expectation fails, a new file or case is found, and skips are reported once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.waiting import patience
from tools.tree import ROOT, python_path

_TEST = Path(__file__).with_name("test_conformance.py")
_POD = {"qos": "LSR", "priority": 9500, "priority_class": "prod", "sub_priority": None, "requests": {"cpu_m": 1000}}


def _case(name: str, allowed: bool, **pod: object) -> dict[str, object]:
    given = {"operation": "create", "new": {**_POD, **pod}, "old": None, "skip_sub_priority_check": False}
    return {"name": name, "kind": "admission", "input": given, "expect": {"allowed": allowed}}


def _write(folder: Path, name: str, *cases: dict[str, object]) -> None:
    (folder / name).write_text(json.dumps({"source": "made up", "cases": list(cases)}))


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-vv", "-rs", str(_TEST)]
    environment = os.environ | {"COTENANT_CONFORMANCE": str(folder), "PYTHONPATH": python_path()}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=patience(120), check=False
    )


@pytest.mark.slow
def test_right_and_wrong_expectations_in_unregistered_files(tmp_path: Path) -> None:
    _write(tmp_path, "brand_new.json", _case("whole", True), _case("half", False, requests={"cpu_m": 500}))
    _write(tmp_path, "another.json", _case("claims-too-much", True, priority=5500, priority_class="batch"))
    done = _run(tmp_path)
    assert done.returncode == 1
    assert "[brand_new.json::whole] PASSED" in done.stdout
    assert "[brand_new.json::half] PASSED" in done.stdout
    assert "[another.json::claims-too-much] FAILED" in done.stdout
    assert "allowed: expected True, got False" in done.stdout


@pytest.mark.slow
def test_a_kind_without_a_function_is_skipped_once_with_its_count(tmp_path: Path) -> None:
    strange = [{"name": f"n{i}", "kind": "teleport", "input": {}, "expect": {"ok": True}} for i in range(7)]
    _write(tmp_path, "a.json", _case("whole", True), *strange)
    _write(tmp_path, "b.json", *strange)
    (tmp_path / "shared_data.json").write_text('{"machines": {}}')
    done = _run(tmp_path)
    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout
    assert "no function for the kind 'teleport' yet: 14 cases in a.json, b.json" in done.stdout


@pytest.mark.slow
def test_broken_files_fail_instead_of_being_skipped(tmp_path: Path) -> None:
    (tmp_path / "torn.json").write_text('{"cases": [')
    _write(tmp_path, "twice.json", _case("same", True), _case("same", True))
    unasserted = _case("unasserted", True)
    unasserted["expect"] = {"allowed": True, "reason_code": 7}
    _write(tmp_path, "unasserted.json", unasserted)
    done = _run(tmp_path)
    assert "3 failed" in done.stdout
    assert "the name 'same' comes twice" in done.stdout
    assert "nothing was compared with 'reason_code'" in done.stdout


@pytest.mark.slow
def test_an_absent_folder_is_one_skip_with_a_message(tmp_path: Path) -> None:
    done = _run(tmp_path / "nowhere")
    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert "name their folder in COTENANT_CONFORMANCE" in done.stdout
