"""kill -9 of a keeper at every step of its work, on real cgroups: afterwards every setting of every group is
restored byte for byte.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.dying_keeper import KeeperAtWork, all_lease_states

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.machine.knob import Knob, KnobTarget, LeaseState

LIVELY = (
    "stat",
    "usage",
    "procs",
    "tasks",
    "threads",
    "failcnt",
    "pressure",
    "events",
    "current",
    "peak",
    "io_service",
    "io_serviced",
)


@pytest.fixture
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def top(groups: Groups, group: str) -> str:
    """Groups with settings of their own, none at its default."""
    top = group.rpartition("/")[0]
    for name in ("a", "a/x", "b"):
        groups.make(f"{top}/{name}")
    with CgroupKnobs(groups.layout) as knobs:
        for name, knob, value in (
            ("a", Knob.CPU_MAX, "80000 100000"),
            ("a", Knob.CPU_BURST, "20000"),
            ("a/x", Knob.CPU_MAX, "40000 100000"),
            ("b", Knob.CPU_WEIGHT, "50"),
            ("b", Knob.MEMORY_MAX, "536870912"),
        ):
            if knobs.supported(knob) is None:
                knobs.write(KnobTarget(f"{top}/{name}", knob), value)
    return top


def settings(layout: CgroupLayout, top: str) -> dict[str, bytes]:
    """Every file of these groups that can be written and read and is no measurement."""
    found: dict[str, bytes] = {}
    for hierarchy in layout.hierarchies:
        for path in sorted(Path(hierarchy.path, top).rglob("*")):
            mode = path.stat().st_mode
            if not path.is_file() or not mode & 0o200 or not mode & 0o400 or any(word in path.name for word in LIVELY):
                continue
            try:
                found[str(path)] = path.read_bytes()
            except OSError:
                continue  # there, but not for reading in this group
    return found


@pytest.mark.slow
def test_killed_at_any_step_every_setting_is_restored(layout: CgroupLayout, top: str, state: Path) -> None:
    before = settings(layout, top)
    assert len(before) > 20
    turned = died = 0
    while True:
        keeper = KeeperAtWork(layout, CgroupTree, state / f"{died}", top)
        if not keeper.dies(all_lease_states(top), died, after=False):
            break
        turned += settings(layout, top) != before
        answers = keeper.restore_all()
        assert settings(layout, top) == before, f"killed at step {died}"
        assert {answer.state for answer in answers} <= {LeaseState.RESTORED}
        died += 1
    assert died > 60
    assert turned > died / 3
    keeper.restore_all()
    assert settings(layout, top) == before
