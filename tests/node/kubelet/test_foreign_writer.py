"""A writer that puts everything back to its own values each minute, as systemd does for a kubelet (Koordinator
1734), on plain groups; and one with a new value.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.kubelet.limits import InForce
from tests.node.kubelet.forked import ForkedAgent

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(layout: CgroupLayout, group: str) -> Path:
    """The best-effort group's in the CPU tree."""
    if layout.version("cpu") != 1:
        pytest.skip("the writer's files are those of cgroup v1")
    return Path(layout.by_controller["cpu"].path, group.rpartition("/")[0], "be")


@pytest.fixture
def agent(groups: Groups, group: str, folder: Path) -> Iterator[ForkedAgent]:
    top = group.rpartition("/")[0]
    for name in ("web", "be/j1"):
        groups.make(f"{top}/{name}")
    place = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    place.chmod(0o1777)
    made = ForkedAgent(
        place,
        top,
        "--single",
        best_effort_group=f"{top}/be",
        groups=[
            {"group": f"{top}/web", "name": "shop/web", "qos": "LS", "requests": {"cpu": "500m", "memory": "64Mi"}},
            {"group": f"{top}/be/j1", "name": "jobs/j1", "qos": "BE"},
        ],
        policies={"best_effort_cpu": {"suppress": {"form": "cfsQuota", "threshold_percent": 60}}},
    )
    try:
        made.start()
        yield made
    finally:
        made.kill()
        shutil.rmtree(place)


def stands(folder: Path) -> bool:
    return int((folder / "cpu.cfs_quota_us").read_text()) > 0 and (folder / "cpu.idle").read_text().strip() == "1"


def test_limits_are_in_force_beside_a_writer_each_minute(agent: ForkedAgent, folder: Path) -> None:
    agent.until(lambda: stands(folder))
    held = InForce(lambda: stands(folder), agent.ticks)
    for _ in range(10):
        for file, value in (("cpu.idle", "0"), ("cpu.shares", "2"), ("cpu.cfs_quota_us", "-1")):
            (folder / file).write_text(value)
        held.after("everything put back", 60)
    assert held.share >= 0.99, held.gaps


def test_a_new_value_of_another_writer_stays(agent: ForkedAgent, folder: Path) -> None:
    agent.until(lambda: stands(folder))

    def stays() -> bool:
        (folder / "cpu.cfs_quota_us").write_text("7000")
        until = agent.ticks() + 5
        agent.until(lambda: agent.ticks() >= until)
        return (folder / "cpu.cfs_quota_us").read_text() == "7000\n"

    assert any(stays() for _ in range(3))  # between a reading of ours and our write nobody can be seen
