"""Attribution over this machine's groups: repeated samples of every method, nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.node.open_files import descriptors

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant_lab.experiments.loads.windowed_service import line
from cotenant_lab.experiments.site.site import now_us
from cotenant_lab.experiments.studies.culprit_watch import METHODS, CulpritWatch, WindowFile

pytestmark = pytest.mark.slow


def test_every_method_sees_the_same_samples_and_idle_groups_are_no_trouble(
    layout: CgroupLayout, groups: Groups, group: str, tmp_path: Path
) -> None:
    service, batch = f"{group}/service", [f"{group}/batch-{number}" for number in range(2)]
    for name in (service, *batch):
        groups.make(name)
    windows = tmp_path / "windows"
    windows.write_text(line(now_us(), 500_000, [1000] * 50, 6000) + "\n")
    before = descriptors()
    with CulpritWatch(layout, service, batch, 6000, WindowFile(windows)) as watch:
        assert watch.methods.keys() == METHODS.keys()
        assert watch.sample(ask=True) is None
        for _ in range(3):
            state = watch.sample(ask=True)
            assert state is not None
        assert [entry.pod.group for entry in state.pods] == [service, *batch]
        assert state.pods[0].health is not None
        assert (state.blame is None) == bool(watch.why_no_probe)
        assert all(len(method.history.samples) == 3 for method in watch.methods.values())
        assert all(method.named is None for method in watch.methods.values())
    assert descriptors() == before
