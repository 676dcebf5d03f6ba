"""A zone whose scheduler the kernel's watchdog ends: who starved runs under the fair class, and the zone says so."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from tests.node.guest.zones.conftest import ROOT, Group
from tests.node.guest.zones.test_apart import ZONE, table

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.model.zones.apart import Within
from cotenant.model.zones.setting import Backend, ZoneMode
from cotenant.services.zones.backends import RootBackend
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.zone_files import read_definition

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (objects_folder() / "zone_apart.bpf.o").is_file(), reason="the schedulers are not built: make bpf"
    ),
]


class Unbounded(RootBackend):
    """Rules under which a party may wait for ever behind unlisted tasks."""

    def _load(self) -> ZoneSchedulers:
        return ZoneSchedulers(self._name, self._modes, starved_ms=60_000, apart=self._apart)


def test_a_zone_of_rules_whose_party_starves_ends_on_the_fair_class_and_says_why(groups, tmp_path):
    one, _ = groups
    (tmp_path / "zone.yaml").write_text(ZONE)
    definition = read_definition(tmp_path / "zone.yaml")
    backend = Unbounded("tenants", definition.modes, ROOT, apart=table(Within.MACHINE))
    runner = ZoneRunner(definition.machine(root=True), {Backend.ROOT: backend}, dict)
    stop, seen = asyncio.Event(), list[str | None]()
    with ExitStack() as load:

        def look() -> None:
            seen.append(sched_ext.read_state().name)
            if seen[-1] == ZoneMode.APART.shown and len(set(seen)) == len(seen):
                load.enter_context(Group("unlisted").burning(2))
                load.enter_context(one.burning())
            if runner.zone.setting.backend is Backend.FAIR:
                stop.set()

        asyncio.run(runner.run(stop, definition.period_ms / 1000, 60, look))
        used = one.used_s()
        asyncio.run(asyncio.sleep(0.6))
        assert one.used_s() - used > 0.05, "the fair class runs the party"
    assert ZoneMode.APART.shown in seen
    assert sched_ext.read_state().name is None
    assert runner.zone.setting.backend is Backend.FAIR
    told = [entry.reason.text for entry in runner.zone.history]
    assert any("failed to run for" in text for text in told), told
