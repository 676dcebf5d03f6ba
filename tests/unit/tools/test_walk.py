"""How far a plain pod, a measurement and a request go: the figures may fall, and must not rise unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.walk import measurement, pod, request
from tools.walk.recorder import PACKAGE, Walk, recording, room_of

import cotenant.model.resources
from cotenant.model.resources import Amounts

MAX_FILES, MAX_ROOMS, MAX_CHANGES = 46, 14, 67  # 60, and 7 where the loop turns once more before the bind is sent


@pytest.fixture(scope="module")
def way() -> Walk:
    return pod.walk()


@pytest.mark.slow
def test_a_plain_pod_passes_few_files_and_rooms(way: Walk) -> None:
    assert len(way.files) <= MAX_FILES, "\n".join(way.files)
    assert len(way.rooms) <= MAX_ROOMS, "\n".join(way.rooms)
    assert way.changes <= MAX_CHANGES


@pytest.mark.slow
def test_a_plain_pod_meets_no_plugin_and_no_rule(way: Walk) -> None:
    assert way.files[0] == "drivers/kube/cache/reflector.py"
    assert "engine/cycle/judging.py" in way.files
    assert [file for file in way.files if file.startswith(("engine/plugins", "engine/rules"))] == []


@pytest.mark.slow
def test_a_measurement_passes_few_files_and_rooms() -> None:
    way = measurement.walk()
    assert "policy/nodeqos/cpu/best_effort.py" in way.files
    assert "services/knobs/executor.py" in way.files
    assert len(way.files) <= 59, "\n".join(way.files)
    assert len(way.rooms) <= 15, "\n".join(way.rooms)
    assert way.changes <= 152


@pytest.mark.slow
def test_a_request_passes_few_files_and_rooms() -> None:
    way = request.walk()
    assert way.files[0].startswith("drivers/http/")
    assert "engine/traces/objectives.py" in way.files
    assert way.files[-1].startswith("services/")
    assert len(way.files) <= 36, "\n".join(way.files)
    assert len(way.rooms) <= 8, "\n".join(way.rooms)
    assert way.changes <= 62


def test_a_walk_counts_calls_of_ours_by_file_and_room() -> None:
    walk = Walk()
    with recording(walk):
        Amounts.of({"cpu": 1}).get("cpu")
        Path("x").name  # noqa: B018
    assert set(walk.steps) == {cotenant.model.resources.__file__.removeprefix(PACKAGE)}
    assert (walk.rooms, walk.changes) == (["model"], 0)


def test_a_change_of_room_is_a_step_into_another_folder() -> None:
    walk = Walk(["a/x.py", "a/y.py", "b/z.py", "a/x.py", "a/x.py"])
    assert (walk.files, walk.rooms, walk.changes) == (["a/x.py", "a/y.py", "b/z.py"], ["a", "b"], 2)
    assert walk.path() == [("a/x.py", 1), ("a/y.py", 1), ("b/z.py", 1), ("a/x.py", 2)]
    assert room_of("a/b/c.py") == "a/b"
