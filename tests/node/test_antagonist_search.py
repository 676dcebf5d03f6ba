"""The search for antagonists over this machine's groups: repeated samples, nothing left behind."""

from __future__ import annotations

import pytest
from tests.fakes.node.open_files import descriptors

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant_lab.experiments.studies.antagonist_search import BLAME, RUN_DELAY, STALL, AntagonistSearch

pytestmark = pytest.mark.slow


def test_each_method_uses_the_same_samples_and_everything_is_closed(
    layout: CgroupLayout, groups: Groups, group: str
) -> None:
    service, batch = f"{group}/service", [f"{group}/batch-{number}" for number in range(2)]
    for entry in (service, *batch):
        groups.make(entry)
    before = descriptors()
    with AntagonistSearch(layout, service, batch) as watch:
        assert {RUN_DELAY, STALL} <= watch.methods.keys()
        assert (BLAME in watch.methods) == (not watch.why_no_probe)
        assert watch.sample() == {}
        assert set(watch.sample()) == {service, *batch}
        assert all(watch.first(name) is None for name in watch.methods)
        assert all(way.capped is None for way in watch.methods.values())
    assert descriptors() == before
