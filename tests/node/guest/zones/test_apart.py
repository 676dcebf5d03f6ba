"""Parties that never run at once: of the machine, and of one cgroup. Both CPUs of the guest count as one core; who ran
beside whom is counted at the context switch and not by the scheduler.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.node.guest.zones.conftest import ROOT, Group

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.ebpf.smt import CoreSharing, SharedCores
from cotenant.drivers.ebpf.sub_scheduler import SubSchedulers
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.drivers.proc.topology import read_topology
from cotenant.model.zones.apart import ApartRule, ApartTable, RuleTime, Within
from cotenant.model.zones.setting import Backend, ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.apart import apart_table
from cotenant.services.zones.backends import RootBackend
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.zone_files import read_definition

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (objects_folder() / "zone_apart.bpf.o").is_file(), reason="the schedulers are not built: make bpf"
    ),
]
CORE = {0: 1, 1: 0}  # as if the CPUs were its threads


def table(within: Within, when: RuleTime = RuleTime.ALWAYS) -> ApartTable:
    """A rule about the parties one and other."""
    return apart_table([ApartRule(("one", "other"), within, when)], read_topology(), {0: 0, 1: 0})


def shared(cores: CoreSharing, seconds: float) -> SharedCores:
    """The class service stands for one party, batch for the other."""
    before = cores.read()
    time.sleep(seconds)
    return cores.read().since(before)


def check_tenants(zone: ZoneSchedulers, one: Group, other: Group) -> None:
    """Both parties run, in turns, and never at once; under `latency` they do."""
    zone.maps.put(one.id, ZoneRow(ZoneClass.BATCH, party="one"))
    zone.maps.put(other.id, ZoneRow(ZoneClass.BATCH, party="other"))
    with CoreSharing(CORE) as cores, one.burning(2), other.burning(2):
        cores.put(one.id, ZoneClass.SERVICE)
        cores.put(other.id, ZoneClass.BATCH)
        zone.attach(ZoneMode.LATENCY)
        time.sleep(0.1)
        mixed = shared(cores, 0.4)
        zone.switch(ZoneMode.APART)
        time.sleep(0.1)
        apart = shared(cores, 0.8)
    assert mixed.beside_ns > 0.2 * mixed.service_ns > 0, mixed
    assert apart.beside_ns < 0.1 * apart.service_ns, apart
    assert apart.service_ns > 0.2 * 0.8e9 < apart.batch_ns, apart
    assert zone.verify(), zone.maps.last_exit()


MODES = [ZoneMode.LATENCY, ZoneMode.APART]


def test_tenants_never_run_at_once(groups, second_cpu):
    with ZoneSchedulers("tenants", MODES, apart=table(Within.MACHINE)) as zone:
        check_tenants(zone, *groups)
        zone.remove()


def test_tenants_within_one_cgroup_never_run_at_once(groups, second_cpu):
    if not sched_ext.has_sub_schedulers():
        pytest.skip("Linux 7.3 or later")
    home = Group("let")
    home.set("cgroup.subtree_control", "+cpu")
    with SubSchedulers("tenants", home.id, MODES, apart=table(Within.CACHE)) as zone:
        check_tenants(zone, Group("let/one"), Group("let/other"))
        zone.remove()
    (ROOT / "let" / "cgroup.subtree_control").write_text("-cpu")


def test_batch_gives_way_to_a_service_and_is_not_starved(groups, second_cpu):
    service, batch = groups
    with ZoneSchedulers("gives-way", [ZoneMode.APART], apart=table(Within.CACHE), starved_ms=100) as zone:
        zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE, party="one"))
        zone.maps.put(batch.id, ZoneRow(ZoneClass.BATCH, party="other"))
        zone.attach(ZoneMode.APART)
        with CoreSharing(CORE) as cores, batch.burning(2):
            cores.put(service.id, ZoneClass.SERVICE)
            cores.put(batch.id, ZoneClass.BATCH)
            time.sleep(0.1)
            before = zone.maps.counts()["overdue"]
            with service.burning():
                time.sleep(0.1)
                found = shared(cores, 1.0)
            assert found.service_ns > 0.6 * 1.0e9, found
            assert 0.01 * 1.0e9 < found.batch_ns < 0.4 * found.service_ns, found
            assert found.beside_ns < 0.05 * found.service_ns, found
            assert zone.maps.counts()["overdue"] - before >= 2
            alone = shared(cores, 0.3)
            assert alone.batch_ns > 0.3 * 0.3e9, "it runs again once the service has ended"
        assert zone.verify(), zone.maps.last_exit()
        zone.remove()


def test_a_rule_for_late_services_holds_from_the_first_late_dispatch(groups, second_cpu):
    service, batch = groups
    with ZoneSchedulers("late", [ZoneMode.APART], apart=table(Within.MACHINE, RuleTime.LATE)) as zone:
        zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE, party="one"))
        zone.maps.put(batch.id, ZoneRow(ZoneClass.BATCH, party="other"))
        zone.attach(ZoneMode.APART)
        with CoreSharing(CORE) as cores, batch.burning(2), service.burning():
            cores.put(service.id, ZoneClass.SERVICE)
            cores.put(batch.id, ZoneClass.BATCH)
            time.sleep(0.1)
            calm = shared(cores, 0.3)
            # every wait of a microsecond is late now
            zone.maps.put(service.id, ZoneRow(ZoneClass.SERVICE, late_us=1, party="one"))
            with service.run(lambda: time.sleep(0.05)):
                time.sleep(0.2)
            pressed = shared(cores, 0.3)
        assert calm.beside_ns > 0.5 * calm.service_ns > 0, calm
        assert pressed.beside_ns < 0.1 * pressed.service_ns, pressed
        zone.remove()


ZONE = """
zone: tenants
backend: root
groups:
  - {group: service, kind: batch, party: one}
  - {group: batch, kind: batch, party: other}
apart:
  - {parties: [one, other], within: machine}
period_ms: 500
"""


def test_a_zone_of_rules_runs_apart_from_its_start_and_nothing_else(groups, second_cpu, tmp_path):
    one, other = groups
    (tmp_path / "zone.yaml").write_text(ZONE)
    definition = read_definition(tmp_path / "zone.yaml")
    backend = RootBackend("tenants", definition.modes, ROOT, apart=table(Within.MACHINE))
    stop, found, began = asyncio.Event(), list[SharedCores](), time.monotonic()
    with ExitStack() as load:
        reader = load.enter_context(CgroupReader(detect()))
        cores = load.enter_context(CoreSharing(CORE))
        cores.put(one.id, ZoneClass.SERVICE)
        cores.put(other.id, ZoneClass.BATCH)
        load.enter_context(one.burning(2))
        load.enter_context(other.burning(2))

        def used() -> dict[str, int]:
            return {entry.group: entry.cpu_us or 0 for entry in reader.read(["service", "batch"])}

        runner = ZoneRunner(definition.machine(root=True), {Backend.ROOT: backend}, used)

        def look() -> None:
            if time.monotonic() - began > 2 and backend.runs(runner.zone.setting):
                found.append(shared(cores, 0.8))
                stop.set()

        asyncio.run(runner.run(stop, definition.period_ms / 1000, 60, look))
    assert runner.zone.setting.mode is ZoneMode.APART
    (apart,) = found
    assert apart.beside_ns < 0.1 * apart.service_ns, apart
    assert apart.service_ns > 0.2 * 0.8e9 < apart.batch_ns, apart
    assert not Path("/sys/fs/bpf/cotenant-zone-tenants").exists()
