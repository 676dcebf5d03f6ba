"""Every knob of this machine, written, read back and restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.node.knob_contract import KnobContract

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups


class TestKnobsOfThisMachine(KnobContract):
    @pytest.fixture
    def knobs(self, layout: CgroupLayout) -> Iterator[CgroupKnobs]:
        with CgroupKnobs(layout) as knobs:
            yield knobs

    @pytest.fixture
    def device(self) -> str:
        for disk in sorted(Path("/sys/block").iterdir()):
            if (disk / "device").exists():
                return (disk / "dev").read_text().strip()
        pytest.skip("no disk to limit")

    @pytest.fixture
    def vanish(self, groups: Groups, group: str) -> Callable[[], None]:
        return lambda: groups.remove(group)
