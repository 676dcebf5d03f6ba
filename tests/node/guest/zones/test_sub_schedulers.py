"""Two zones beside each other, each with a scheduler of its own cgroup (Linux 7.3)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually
from tests.node.guest.zones.conftest import ROOT, Group

from cotenant.drivers.ebpf import sched_ext
from cotenant.drivers.ebpf.libbpf import objects_folder
from cotenant.drivers.ebpf.sub_scheduler import PARENT, SubSchedulers
from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.model.machine.knob import GiveBack, KnobLease, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.zones.setting import Backend, ZoneMode
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.services.zones.backends import RootBackend, SubBackend, WeightsBackend, can_load_sub
from cotenant.services.zones.definition import BackendChoice, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.runner import ZoneRunner

pytestmark = pytest.mark.skipif(
    not (objects_folder() / "zone_parent.bpf.o").is_file(), reason="the schedulers are not built: make bpf"
)


class Unbounded(SubBackend):
    """A scheduler that lets batch starve beside a service that never sleeps."""

    def _load(self) -> ZoneSchedulers:
        number = os.stat(self._tree / self._group).st_ino
        return SubSchedulers(self._name, number, self._modes, starved_ms=60_000)


class AgreeingKeeper:
    """Says that it holds what it is asked for."""

    async def hold(self, changes: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        return tuple(LeaseAnswer(change.target, LeaseState.HELD) for change in changes)

    async def give_back(self, changes: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        return ()

    async def leases(self) -> tuple[KnobLease, ...]:
        return ()


@contextmanager
def real_time() -> Iterator[None]:
    """This process before the groups' tasks, which are not: what it loads meanwhile takes a quarter of the time."""
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def test_a_broken_zone_is_ejected_alone_and_descends_the_ladder_while_the_other_goes_on(groups):
    if not sched_ext.has_sub_schedulers():
        pytest.skip("Linux 7.3 or later")
    assert can_load_sub()
    ids = {}
    for name in ("one", "two"):
        ids[name] = Group(name).id
        (ROOT / name / "cgroup.subtree_control").write_text("+cpu")
    first, second, starved = Group("one/service"), Group("two/service"), Group("two/batch")
    definition = ZoneDefinition(
        "two",
        (ZoneGroup("two/service", GroupClass.SERVICE), ZoneGroup("two/batch", GroupClass.BATCH)),
        backend=BackendChoice.AUTO,
        start=ZoneMode.LATENCY,
        modes=(ZoneMode.LATENCY,),
    )
    assert definition.common_group == "two"
    backends = {
        Backend.SUB: Unbounded("two", definition.modes, ROOT, definition.common_group),
        Backend.ROOT: RootBackend("two", definition.modes, ROOT),
        Backend.WEIGHTS: WeightsBackend(AgreeingKeeper()),
    }
    broken = ZoneRunner(definition.machine(root=True, sub=True), backends, dict)
    side_by_side, stop, load = [], asyncio.Event(), ExitStack()

    def look() -> None:
        if not side_by_side:  # loaded, on a quiet CPU
            load.enter_context(second.burning())
            load.enter_context(starved.burning())
        side_by_side.append(sched_ext.sub_schedulers())
        if broken.zone.setting.backend is Backend.WEIGHTS:
            stop.set()

    with SubSchedulers("one", ids["one"], [ZoneMode.LATENCY]) as good:
        good.maps.put(first.id, ZoneRow(ZoneClass.SERVICE))
        good.attach(ZoneMode.LATENCY)
        start, before, own = time.perf_counter(), first.used_s(), time.process_time()
        with real_time(), load, first.burning():
            asyncio.run(broken.run(stop, 0.25, 12, look))
            took, got = time.perf_counter() - start, first.used_s() - before
            took -= time.process_time() - own  # of loading, in real time
            # zone one was there all the time, with its turns
            assert good.verify(), good.maps.last_exit()
            assert sched_ext.read_state().runs(PARENT)
            assert got > 0.3 * took, (got, took)
            batch = starved.used_s()
            time.sleep(0.3)
            assert starved.used_s() > batch, "the parent runs the tasks of the broken zone"
        assert dict.fromkeys(ids.values(), ZoneMode.LATENCY.shown) in side_by_side
        history = list(broken.zone.history)
        assert [entry.what for entry in history[:3]] == [
            f"setting {s}" for s in ("sub/latency", "root/latency", "weights")
        ]
        assert "failed to run for" in history[1].reason.text, history
        assert "root/latency was refused" in history[2].reason.text, history
        good.switch(ZoneMode.LATENCY)
        assert good.verify()
        assert sched_ext.sub_schedulers() == {ids["one"]: ZoneMode.LATENCY.shown}
        good.remove()
    # The kernel disables the parent in the background once its last link is gone.
    eventually("the parent is disabled", lambda: sched_ext.read_state().name is None)
    assert not Path("/sys/fs/bpf/cotenant-parent").exists()
