"""The page of versions has nothing but what runs have recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.recording import Part, Recorder, cgroup
from tools.matrix import NOT_RUN, Run, merged, page, read

RUN = Run("kube-apiserver", "1.36.2", "6.12.1-a", "v2", "x86_64", 10, 0, "2026-01-02")


def cells(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    return [cell.strip() for row in rows for cell in row.strip("|").split("|")]


def test_the_page_is_made_of_the_records() -> None:
    assert Path("docs/matrix.md").read_text() == page(read()), "make docs"


def test_what_was_never_run_says_so_and_only_a_run_says_more() -> None:
    empty = page(())
    assert "passed" not in "".join(cells(empty))
    assert cells(empty).count(NOT_RUN) == 9 * 6 + 2 * 2
    one = page((RUN,))
    assert cells(one).count("10 passed (1.36.2, 2026-01-02)") == 1
    row = next(line for line in one.splitlines() if line.startswith("| 1.36 "))
    assert row == f"| 1.36 | 10 passed (1.36.2, 2026-01-02) | {' | '.join([NOT_RUN] * 5)} |"
    assert "| 6.12, v2 |" in one


def test_failures_and_later_runs_are_shown() -> None:
    later = Run("kube-apiserver", "1.36.2", "6.12.9-b", "v2", "x86_64", 8, 2, "2026-02-02")
    other = Run("kube-apiserver", "1.36.0", "6.12.1-a", "v2", "x86_64", 1, 0, "2025-02-02")
    text = page((RUN, later, other))
    assert "| 1 passed (1.36.0, 2025-02-02); 8 passed, 2 failed (1.36.2, 2026-02-02) |" in text


def test_a_run_replaces_that_of_the_same_place() -> None:
    text = merged("[]", [RUN])
    again = Run("kube-apiserver", "1.36.2", "6.12.1-a", "v2", "x86_64", 11, 0, "2026-03-03")
    other = Run("kubelet", "1.36.2", "6.12.1-a", "v2", "x86_64", 1, 0, "2026-03-03")
    found = json.loads(merged(text, [again, other]))
    assert [(entry["part"], entry["passed"]) for entry in found] == [("kube-apiserver", 11), ("kubelet", 1)]


def report(case: str, when: str, outcome: str) -> pytest.TestReport:
    return pytest.TestReport(case, ("", 0, ""), {}, outcome, None, when)  # type: ignore[arg-type]


def test_only_cases_that_met_a_part_are_recorded(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    part = Part("thing", re.compile("^tests/thing/"), lambda: "1.2.3")
    absent = Part("gone", re.compile("^tests/thing/"), lambda: "")
    unmet = Part("unmet", re.compile("^tests/unmet/"), lambda: "1.0")
    recorder = Recorder(file, (part, absent, unmet))
    for case, when, outcome in (
        ("tests/thing/a", "setup", "passed"),
        ("tests/thing/a", "call", "passed"),
        ("tests/thing/b", "call", "failed"),
        ("tests/thing/c", "call", "passed"),
        ("tests/thing/c", "teardown", "failed"),
        ("tests/thing/d", "setup", "skipped"),
        ("tests/other/e", "call", "passed"),
        ("tests/unmet/f", "setup", "skipped"),
    ):
        recorder.pytest_runtest_logreport(report(case, when, outcome))
    recorder.pytest_sessionfinish()
    (found,) = json.loads(file.read_text())
    assert (found["part"], found["version"], found["passed"], found["failed"]) == ("thing", "1.2.3", 1, 2)


def test_nothing_is_written_where_nothing_was_met(tmp_path: Path) -> None:
    file = tmp_path / "runs.json"
    Recorder(file, ()).pytest_sessionfinish()
    assert not file.exists()


def test_the_hierarchy_of_groups_is_told_apart(tmp_path: Path) -> None:
    assert cgroup(tmp_path) == "v1"
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.procs").touch()
    assert cgroup(tmp_path) == "v1 and v2"
    (tmp_path / "cgroup.controllers").touch()
    assert cgroup(tmp_path) == "v2"
