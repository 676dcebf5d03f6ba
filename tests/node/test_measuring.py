"""Counters, run delay and pressure of a real busy group."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator

import pytest
from tests.fakes.waiting import eventually, patience
from tests.node.burning import burning

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.schedstat import RunDelayReader
from cotenant.drivers.cgroup.sensor import NodeSensor
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.proc.host import HostReader
from cotenant.drivers.proc.topology import read_topology
from cotenant.drivers.psi.triggers import HOST, PressureFiles, PressureResource, TriggerEvent
from cotenant.model.errors import Unsupported
from cotenant.model.machine.counters import GroupCounters, NodeSample
from cotenant.model.machine.knob import Knob, KnobTarget

LONGEST_S = 20.0


@pytest.fixture
def sensor(layout: CgroupLayout) -> Iterator[NodeSensor]:
    with CgroupReader(layout) as reader:
        host, delays = HostReader(), RunDelayReader(layout)
        yield NodeSensor(reader, host, lambda: time.monotonic_ns() // 1000, time.time, delays)
        host.close()
        delays.close()


def until(sensor: NodeSensor, group: str, met: Callable[[GroupCounters], bool]) -> NodeSample:
    """The first sample that meets a condition."""

    def found() -> NodeSample | None:
        sample = sensor.sample([group])
        return sample if met(sample.groups[0]) else None

    sample = eventually("the group's counters", found, LONGEST_S)
    assert sample is not None
    return sample


def test_an_idle_group_and_the_machine(sensor: NodeSensor, group: str) -> None:
    sample = sensor.sample([group, group + "/none"])
    (counters,) = sample.groups
    assert (counters.group, counters.cpu_us, counters.tasks, counters.cpu_m_limit) == (group, 0, 0, None)
    assert None not in (counters.memory_bytes, counters.working_set_bytes, counters.oom_kills, counters.io_read_bytes)
    assert sample.host.cpus == len(read_topology())
    assert 0 < sample.host.memory_available_bytes < sample.host.memory_total_bytes
    assert sample.host.cpu_busy_us > 0


@pytest.mark.slow
def test_throttling_is_counted(sensor: NodeSensor, groups: Groups, group: str, layout: CgroupLayout) -> None:
    with CgroupKnobs(layout) as knobs, burning(groups, group):
        knobs.write(KnobTarget(group, Knob.CPU_MAX), "2000 20000")
        counters = until(sensor, group, lambda now: (now.throttled_periods or 0) >= 5).groups[0]
        assert counters.cpu_m_limit == 100
        assert counters.tasks == 1
        assert counters.periods >= counters.throttled_periods >= 5
        assert counters.throttled_us > 0
        assert counters.cpu_us > 0


@pytest.mark.slow
def test_run_delay_and_pressure_of_a_crowded_group_agree(sensor: NodeSensor, groups: Groups, group: str) -> None:
    """Two that want one CPU: one of them waits at any time, so the group's pressure and the sum of its waits are
    the same time.
    """
    before = sensor.sample([group]).groups[0]
    if before.pressure.cpu is None:
        pytest.skip("no pressure of groups here")
    with burning(groups, group, 2):
        first = until(sensor, group, lambda now: (now.cpu_us or 0) > 100_000).groups[0]
        enough_us = (first.run_delay_us or 0) + 2_000_000  # a wait that is under way is in the pressure alone
        last = until(sensor, group, lambda now: (now.run_delay_us or 0) > enough_us).groups[0]
    assert first.pressure.cpu is not None
    assert last.pressure.cpu is not None
    stalled_us = last.pressure.cpu.some_us - first.pressure.cpu.some_us
    waited_us = last.run_delay_us - first.run_delay_us
    # others want the CPU too: then both wait, which counts once for pressure and twice for run delay
    assert 0.4 * waited_us < stalled_us < 1.3 * waited_us


@pytest.mark.slow
def test_a_recreated_group_is_another(sensor: NodeSensor, groups: Groups, group: str) -> None:
    """Descriptors of the first one answer ENODEV."""
    with burning(groups, group):
        until(sensor, group, lambda now: (now.cpu_us or 0) > 10_000)
    groups.remove(group)
    assert sensor.sample([group]).groups == ()
    groups.make(group)
    assert sensor.sample([group]).groups[0].cpu_us == 0
    groups.remove(group)
    groups.make(group)
    assert sensor.sample([group]).groups[0].cpu_us == 0


def test_hundreds_of_groups_that_appear_at_once(layout: CgroupLayout, groups: Groups, group: str) -> None:
    names = [f"{group}/é \t{number}%s" for number in range(60)]
    for name in names:
        groups.make(name)
    with CgroupReader(layout, max_open=200) as reader:
        assert [entry.group for entry in reader.read(names)] == names
        assert len(groups.children(group)) == 60
        groups.remove(group)
        assert reader.read(names) == ()
        assert reader.gaps() == ()


def test_killing_and_removing(groups: Groups, group: str) -> None:
    inside = f"{group}/in\\side"
    groups.make(inside)
    with burning(groups, inside, 2) as pids:
        assert set(groups.pids(inside)) == set(groups.threads(inside)) == set(pids)
        assert groups.missing(inside) == ()
        groups.kill(group)
        for pid in pids:
            _, status = os.waitpid(pid, 0)
            assert os.WTERMSIG(status) == 9
        groups.remove(group)
    assert not groups.exists(group)
    assert groups.missing(inside) == groups.missing("cotenant-test-never-made")


@pytest.mark.slow
@pytest.mark.parametrize("of_host", [False, True], ids=["group", "host"])
def test_a_trigger_fires_when_tasks_wait(layout: CgroupLayout, groups: Groups, group: str, of_host: bool) -> None:
    files = PressureFiles(layout)
    try:
        trigger = files.trigger(HOST if of_host else group, PressureResource.CPU, 50_000, 1_000_000)
    except Unsupported as error:
        pytest.skip(str(error))
    with trigger, select.epoll() as loop:
        assert trigger.window_us in (1_000_000, 2_000_000)
        # as asyncio waits
        loop.register(trigger.fileno(), select.EPOLLIN)
        with burning(groups, group, 2):
            assert loop.poll(patience(LONGEST_S)) == [(trigger.fileno(), select.EPOLLIN)]
            assert trigger.take() is TriggerEvent.STALLED
        if not of_host:
            groups.remove(group)
            told = TriggerEvent.STALLED
            while told is TriggerEvent.STALLED:
                assert loop.poll(patience(LONGEST_S))
                told = trigger.take()
            assert told is TriggerEvent.GONE
    files.close()
