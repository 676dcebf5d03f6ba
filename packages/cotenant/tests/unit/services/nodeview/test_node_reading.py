"""A look at a node now: the busiest groups first, each gap once, and nothing left open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees

from cotenant.services.nodeview import node_reading
from cotenant.services.nodeview.capabilities import capabilities
from cotenant.services.nodeview.node_reading import NodeLooker


@pytest.fixture
def layout(tmp_path: Path) -> Any:
    return CgroupTrees(tmp_path / "cgroup", "v1").layout


def open_below(folder: Path) -> list[str]:
    """Files of this folder that this process has open."""
    found = []
    for file in Path("/proc/self/fd").iterdir():
        try:
            path = file.readlink()
        except OSError:
            continue  # the listing's own, or another thread's
        if path.is_relative_to(folder):
            found.append(str(path))
    return sorted(found)


def test_an_interval_is_the_time_between_two_looks(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = [5_000_000_000]
    monkeypatch.setattr(node_reading, "monotonic_ns", lambda: now_ns[0])
    with NodeLooker(layout) as looker:
        assert looker.interval() is not None
        assert looker.interval() is None  # no time has passed
        now_ns[0] += 1_500_000_000
        found = looker.interval()
    assert found is not None
    assert found.interval_us == 1_500_000
    assert len({gap.what for gap in found.gaps}) == len(found.gaps)
    assert "accelerators" in {gap.what for gap in found.gaps} or found.gpus


def test_the_busiest_groups_come_first(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with NodeLooker(layout) as looker:
        uses = {
            name: SimpleNamespace(group=name, cpu_m=cpu) for name, cpu in (("b", 5), ("a", 5), ("c", None), ("d", 9))
        }
        rates = SimpleNamespace(groups=uses, interval_us=1, host=None)
        monkeypatch.setattr(looker, "_rates", SimpleNamespace(advance=lambda sample: rates))
        found = looker.interval()
    assert found is not None
    assert [use.group for use in found.groups] == ["d", "a", "b", "c"]


def test_looking_and_asking_what_is_possible_leave_no_file_open(layout: Any, tmp_path: Path) -> None:
    capabilities(layout, tmp_path / "hook")
    with NodeLooker(layout) as looker:
        assert looker.interval() is not None
        assert open_below(tmp_path)
    assert open_below(tmp_path) == []
