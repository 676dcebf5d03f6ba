"""The run-queue probe in this kernel, over the test's own groups that share one CPU. Skipped where the object is
not built or not accepted.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually

from cotenant.drivers.cgroup.counters import CgroupReader
from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout, Hierarchy
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.ebpf.cost import costs, timed
from cotenant.drivers.ebpf.delays import ProbeDelays
from cotenant.drivers.ebpf.runqueue import RunQueue
from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.run_queue import GroupWaits, RunQueueReading

pytestmark = pytest.mark.slow

# Works when told to, says when it is done, and then waits to be killed.
WORKER = """
import os, sys, threading, time
cpu, threads, bursts, work_s, rest_s = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), *map(float, sys.argv[4:6])
os.sched_setaffinity(0, {cpu})
def work():
    for _ in range(bursts):
        until = time.thread_time() + work_s
        while time.thread_time() < until:
            pass
        if rest_s:
            time.sleep(rest_s)
print("ready", flush=True)
sys.stdin.readline()
others = [threading.Thread(target=work) for _ in range(threads - 1)]
for other in others:
    other.start()
work()
for other in others:
    other.join()
print("done", flush=True)
sys.stdin.readline()
"""
FOR_EVER = 1_000_000_000
MOST_WEIGHT = "10000"


class Worker:
    """One process in a group, bound to one CPU; rests until `begin`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._proc = Path(f"/proc/{process.pid}")
        self._rest("ready")

    def begin(self) -> Worker:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self

    def finish(self) -> None:
        """Returns when it has done all its bursts and rests again."""
        self._rest("done")

    def _rest(self, word: str) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"{word}\n"
        eventually("it sleeps", lambda: (self._proc / "stat").read_text().rpartition(")")[2].split()[0] == "S")

    def waited_us(self) -> int:
        """What the scheduler counted of its first thread."""
        return int((self._proc / "schedstat").read_text().split()[1]) // 1000


class Plant:
    """Two groups, and what runs in them on the last CPU. Other programs may run there too, so nothing is said of
    how long a wait is; together the groups have far more weight than those, so that who runs while the victim waits is
    the hog also on a busy machine.
    """

    def __init__(self, groups: Groups, top: str, started: ExitStack) -> None:
        self.groups = groups
        self.victim, self.hog = f"{top}/victim", f"{top}/hog"
        self.cpu = max(os.sched_getaffinity(0))
        self._started = started
        for group in (self.victim, self.hog):
            groups.make(group)
        with CgroupKnobs(groups.layout) as knobs:
            if knobs.supported(Knob.CPU_WEIGHT) is None:
                knobs.write(KnobTarget(top.partition("/")[0], Knob.CPU_WEIGHT), MOST_WEIGHT)

    def worker(
        self, group: str, threads: int = 1, bursts: int = 60, work_s: float = 0.002, rest_s: float = 0.004
    ) -> Worker:
        words = [str(word) for word in (self.cpu, threads, bursts, work_s, rest_s)]
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._started.callback(process.wait)
        self._started.callback(process.kill)
        self.groups.move(process.pid, group)
        return Worker(process)

    def burn(self) -> None:
        """Something in the hog's group that never rests."""
        self.worker(self.hog, bursts=FOR_EVER, rest_s=0).begin()

    def work(self, group: str) -> None:
        """Some bursts in a group, until they are done."""
        self.worker(group).begin().finish()


@pytest.fixture
def plant(groups: Groups, group: str) -> Iterator[Plant]:
    with ExitStack() as started:
        yield Plant(groups, group, started)


@pytest.fixture
def tree(layout: CgroupLayout) -> Hierarchy:
    hierarchy = layout.by_controller.get("cpu") or layout.unified
    assert hierarchy is not None
    return hierarchy


@pytest.fixture
def load(tree: Hierarchy) -> Iterator[Callable[..., RunQueue]]:
    with ExitStack() as loaded:

        def probe(**given: bool) -> RunQueue:
            try:
                return loaded.enter_context(RunQueue(tree.path, tree.version, **given))
            except Unsupported as error:
                pytest.skip(str(error))

        yield probe


def of(reading: RunQueueReading, group: str) -> GroupWaits:
    found = reading.waits_of(group)
    assert found is not None
    return found


def shares(reading: RunQueueReading, victim: str) -> dict[object, int]:
    return {entry.culprit: entry.ran_us for entry in reading.blame if entry.victim == victim}


def test_waits_match_the_schedulers_count_and_are_fully_attributed(plant: Plant, load: Callable[..., RunQueue]) -> None:
    probe = load()
    plant.burn()
    worker = plant.worker(plant.victim)
    before_us = worker.waited_us()
    probe.watch({plant.victim: None})
    worker.begin().finish()
    reading = probe.read()
    seen = of(reading, plant.victim)
    # the scheduler adds some of a wait when the task goes to rest, which the probe sees at its next turn
    assert seen.waits.sum_us == pytest.approx(worker.waited_us() - before_us, abs=15_000)
    assert seen.waits.sum_us > 20_000
    assert seen.waits.count == sum(seen.waits.buckets) >= 60
    assert seen.throttled_us == 0
    blame = shares(reading, plant.victim)
    assert sum(blame.values()) == pytest.approx(seen.waits.sum_us, abs=len(blame) + 1)
    assert blame[plant.hog] > 0
    assert reading.unattributed_us == 0


def test_time_throttled_by_its_own_quota_is_neither_wait_nor_blame(
    plant: Plant, load: Callable[..., RunQueue], layout: CgroupLayout, groups: Groups
) -> None:
    probe = load()
    plant.burn()
    worker = plant.worker(plant.victim, bursts=10, rest_s=0)
    probe.watch({plant.victim: None})
    with CgroupKnobs(layout) as knobs, closing(CgroupReader(layout)) as counters:
        # not before it has read its program: a group is throttled, too, while its task waits for a disk
        knobs.write(KnobTarget(plant.victim, Knob.CPU_MAX), "1000 100000")
        worker.begin().finish()
        reading = probe.read()
        (kernel,) = counters.read((plant.victim,))
    seen = of(reading, plant.victim)
    assert kernel.throttled_us is not None
    # 20 ms of work, a millisecond every 100 ms
    assert seen.throttled_us > 500_000
    assert seen.throttled_us == pytest.approx(kernel.throttled_us, rel=0.25)
    blame = shares(reading, plant.victim)
    assert sum(blame.values()) == pytest.approx(seen.waits.sum_us, abs=len(blame) + 1)


def test_a_group_that_waits_for_its_own_threads_is_its_own_culprit(plant: Plant, load: Callable[..., RunQueue]) -> None:
    probe = load()
    probe.watch({plant.victim: None})
    plant.worker(plant.victim, rest_s=0).begin().finish()
    assert plant.victim not in shares(probe.read(), plant.victim)
    plant.worker(plant.victim, threads=3, rest_s=0).begin().finish()
    assert shares(probe.read(), plant.victim)[plant.victim] > 0


def test_a_late_wait_is_reported_at_once(plant: Plant, load: Callable[..., RunQueue]) -> None:
    probe = load()
    probe.watch({plant.victim: 1000, plant.hog: None})
    plant.burn()
    assert not select.select([probe], [], [], 0)[0]
    worker = plant.worker(plant.victim).begin()
    assert select.select([probe], [], [], 60)[0]
    first = probe.late()
    worker.finish()
    told = (*first, *probe.late())
    assert first
    assert {late.victim for late in told} == {plant.victim}
    # The kernel compares nanoseconds; a wait of 1,000,001 ns is late and says 1000 us.
    assert [late for late in told if not (late.wait_us >= 1000 and late.culprit_us <= late.wait_us)] == []
    assert (plant.hog, plant.cpu) in {(late.culprit, late.cpu) for late in told}
    assert of(probe.read(), plant.victim).late >= len(told)
    assert not select.select([probe], [], [], 0)[0]


def test_only_groups_that_are_watched_are_counted(plant: Plant, load: Callable[..., RunQueue]) -> None:
    probe = load()
    assert probe.read().groups == ()
    probe.watch({plant.hog: None, f"{plant.victim}/missing": None})
    plant.burn()
    plant.work(plant.victim)
    assert [entry.group for entry in probe.read().groups] == [plant.hog]
    probe.watch({})
    assert probe.read().groups == ()
    assert probe.read().blame == ()


def test_with_everyone_watched_no_group_has_to_be_named(plant: Plant, load: Callable[..., RunQueue]) -> None:
    probe = load(everyone=True)
    plant.burn()
    plant.work(plant.victim)
    assert of(probe.read(), plant.victim).waits.count >= 60
    assert of(probe.read(), plant.hog).waits.count > 0


def test_a_group_keeps_the_counters_of_removed_children(
    plant: Plant, load: Callable[..., RunQueue], groups: Groups
) -> None:
    probe = load()
    part = f"{plant.victim}/part"
    groups.make(part)
    probe.watch({plant.victim: None, part: None})
    plant.burn()
    plant.work(part)
    before = probe.read()
    assert of(before, plant.victim) == GroupWaits(plant.victim, of(before, part).waits, 0, 0)
    assert shares(before, plant.victim) == shares(before, part)
    groups.kill(part)
    groups.remove(part)
    assert of(probe.read(), plant.victim).waits.count >= of(before, plant.victim).waits.count
    probe.watch({plant.victim: None})
    after = probe.read()
    assert [entry.group for entry in after.groups] == [plant.victim]
    assert of(after, plant.victim).waits.count >= of(before, plant.victim).waits.count
    assert sum(shares(after, plant.victim).values()) >= sum(shares(before, plant.victim).values())


def test_the_run_delay_source_counts_from_the_first_request(plant: Plant, load: Callable[..., RunQueue]) -> None:
    delays = ProbeDelays(load())
    asked = (plant.victim, "no/such/group")
    assert delays.read(asked, 0) == {plant.victim: 0}
    plant.burn()
    plant.work(plant.victim)
    after = delays.read(asked, 0)
    assert after.keys() == {plant.victim}
    assert delays.reading is not None
    assert after[plant.victim] == of(delays.reading, plant.victim).waits.sum_us > 0
    assert delays.gaps() == ()
    assert ProbeDelays(load(), lambda group: None).read(asked, 0) == {}


def test_its_runs_are_counted_by_the_kernel_and_end_with_it(plant: Plant, load: Callable[..., RunQueue]) -> None:
    probe = load()
    with timed():
        plant.work(plant.victim)
        found = {cost.name: cost for cost in costs(probe)}
    assert found["on_switch"].runs >= 60
    assert found["on_switch"].run_ns > 0
    (descriptor, *_) = (fd for _, fd in probe.programs())
    probe.close()
    probe.close()
    with pytest.raises(OSError, match=f"fdinfo/{descriptor}"):
        open(f"/proc/self/fdinfo/{descriptor}").close()
    with pytest.raises((Permanent, ValueError)):
        probe.read()
