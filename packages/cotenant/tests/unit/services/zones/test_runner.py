"""The loop of a zone against back ends in memory, and the weights back end against a keeper in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fakes.node.fake_node import FakeKeeper
from tests.fakes.waiting import patience

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, KnobTarget, LeaseAnswer, SetKnob
from cotenant.model.machine.run_queue import GroupWaits, RunQueueReading, WaitHistogram
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import ZoneChange, ZoneState
from cotenant.model.zones.table import SchedulerExit, ZoneClass, ZoneRow
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.zones.agent_view import ZoneAgentView, burns_of, members_of
from cotenant.services.zones.backends import LateEvents, WeightsBackend
from cotenant.services.zones.definition import ClassRule, ZoneApplication, ZoneDefinition
from cotenant.services.zones.groups import GroupClass, ZoneGroup
from cotenant.services.zones.runner import ZoneRunner
from cotenant.services.zones.state_file import read_state, read_states, state_of, write_state

ROWS = {"web": ZoneRow(ZoneClass.SERVICE, weight=500, late_us=5000), "batch": ZoneRow(ZoneClass.BATCH)}
ROOT = ZoneSetting(Backend.ROOT, ZoneMode.THROUGHPUT)
STALL = SchedulerExit(9, 1026, "runnable task stall", "spin[71] failed to run for 5.07s")


@dataclass
class MemoryBackend:
    """A kernel with schedulers. `late_in`: late dispatches of web in a second, by mode."""

    late_in: dict[ZoneMode | None, int] = field(default_factory=dict)
    refuses: bool = False
    lies: bool = False
    running: ZoneSetting | None = None
    rows: dict[str, ZoneRow] = field(default_factory=dict)
    exit: SchedulerExit | None = None
    arriving: LateEvents | None = None

    async def attach(self, setting: ZoneSetting) -> None:
        if self.refuses:
            raise Unsupported("a kernel scheduler", "another kernel")
        self.running = None if self.lies else setting

    def runs(self, setting: ZoneSetting) -> bool:
        return self.running == setting

    def put(self, rows: Mapping[str, ZoneRow]) -> None:
        self.rows = dict(rows)

    async def refresh(self) -> None:
        pass

    def late(self) -> dict[str, tuple[int, int]]:
        mode = self.running.mode if self.running else None
        return {"web": (self.late_in.get(mode, 0), 9000)}

    def events(self) -> LateEvents | None:
        return self.arriving

    def last_exit(self) -> SchedulerExit | None:
        return self.exit

    async def detach(self) -> None:
        self.running = None


@dataclass
class MemoryKeeper:
    """The keeper's interface over `FakeKeeper`."""

    fake: FakeKeeper = field(default_factory=FakeKeeper)

    async def hold(self, wanted: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        return tuple(self.fake.hold(wanted, 0))

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        return tuple(self.fake.give_back(requests))

    async def leases(self) -> tuple[KnobLease, ...]:
        return ()


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def make(root: MemoryBackend, keeper: MemoryKeeper | None = None) -> tuple[ZoneRunner, Clock, list[ZoneChange]]:
    clock, seen = Clock(), list[ZoneChange]()
    zone = Zone("shop", ROWS, (ROOT, ZoneSetting(Backend.WEIGHTS)), config=ZoneConfig(), limits=ZoneLimits(2, 3, 100))
    backends = {Backend.ROOT: root, Backend.WEIGHTS: WeightsBackend(keeper or MemoryKeeper())}
    runner = ZoneRunner(zone, backends, lambda: {"web": 0, "batch": 0}, seen.append, clock)
    return runner, clock, seen


def steps(runner: ZoneRunner, clock: Clock, number: int) -> None:
    async def run() -> None:
        if runner.zone.state is ZoneState.DEFINED:
            await runner.start()
        for _ in range(number):
            clock.now_s += 1
            await runner.step()
            runner.zone.validate()

    asyncio.run(run())


def test_late_dispatches_lead_to_another_scheduler_and_each_change_is_reported_once() -> None:
    kernel = MemoryBackend({ZoneMode.THROUGHPUT: 40, ZoneMode.LATENCY: 0})
    runner, clock, seen = make(kernel)
    steps(runner, clock, 12)
    assert kernel.running == ZoneSetting(Backend.ROOT, ZoneMode.LATENCY)
    assert kernel.rows == ROWS
    assert [(change.what, change.kept) for change in seen] == [
        ("setting root/throughput", True),
        ("setting root/latency", True),
    ]
    assert seen[1].outcome == "kept: 40.00 late dispatches a second before, 0.00 after"


@dataclass
class Pipe:
    """Late dispatches that a test announces."""

    ends: tuple[int, int] = field(default_factory=os.pipe)
    newest_us: int = 5

    def fileno(self) -> int:
        return self.ends[0]


def test_late_dispatches_change_rows_before_the_period_is_over() -> None:
    arriving, log = Pipe(), list[str]()

    class Kernel(MemoryBackend):
        def late(self) -> dict[str, tuple[int, int]]:
            found = len(os.read(arriving.fileno(), 100)) if waiting else 0
            waiting.clear()
            return {"web": (found, 9000)}

    waiting: list[bool] = []
    kernel = Kernel(arriving=arriving)
    zone = Zone(
        "shop",
        ROWS,
        (ZoneSetting(Backend.ROOT, ZoneMode.WEIGHTED),),
        config=ZoneConfig(),
        limits=ZoneLimits(0.01, 0.01, 100),
    )
    runner = ZoneRunner(zone, {Backend.ROOT: kernel}, dict, log=log.append)

    async def main() -> None:
        await runner.start()
        while zone.state is not ZoneState.ACTIVE:
            await asyncio.sleep(0.02)
            await runner.step()
        stop = asyncio.Event()
        running = asyncio.create_task(runner._wait(stop, 600, watch=True))
        await asyncio.sleep(0)
        waiting.append(True)
        os.write(arriving.ends[1], b"1" * 90)
        async with asyncio.timeout(patience(60)):
            assert await running
        assert kernel.rows["web"].weight == 1600
        await runner._report()

    asyncio.run(main())
    before = zone.history[-1].before
    assert before is not None
    assert before.groups[0].late == 90
    assert log[-1].endswith("ms after a late dispatch")
    for end in arriving.ends:
        os.close(end)


def test_a_scheduler_that_was_unloaded_is_not_looked_at_again() -> None:
    arriving = Pipe()
    runner, clock, _ = make(MemoryBackend(arriving=arriving))
    steps(runner, clock, 6)
    looks: list[int] = []

    class Unloaded(MemoryBackend):
        def late(self) -> dict[str, tuple[int, int]]:
            looks.append(1)
            return {}

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(arriving.fileno(), runner._came, Unloaded(), arriving.fileno(), asyncio.Event())
        os.write(arriving.ends[1], b"1")
        async with asyncio.timeout(patience(60)):
            while not looks:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not loop.remove_reader(arriving.fileno())

    asyncio.run(main())
    assert looks == [1]


def test_a_wait_ends_with_its_period_or_with_a_stop() -> None:
    runner, _, _ = make(MemoryBackend(arriving=Pipe()))

    async def main() -> None:
        stop = asyncio.Event()
        assert not await runner._wait(stop, 0.001, watch=True)  # not active: nothing is watched
        stop.set()
        assert not await runner._wait(stop, 600, watch=True)

    asyncio.run(main())


@pytest.mark.parametrize("kernel", [MemoryBackend(refuses=True), MemoryBackend(lies=True)])
def test_a_kernel_that_refuses_or_does_not_run_it_leaves_weights(kernel: MemoryBackend) -> None:
    keeper = MemoryKeeper()
    runner, clock, _ = make(kernel, keeper)
    steps(runner, clock, 4)
    assert (runner.zone.state, str(runner.zone.setting)) == (ZoneState.ACTIVE, "weights")
    assert keeper.fake.held == {KnobTarget("web", Knob.CPU_WEIGHT): "500", KnobTarget("batch", Knob.CPU_IDLE): "1"}
    asyncio.run(runner.stop())
    assert keeper.fake.held == {}


def test_an_ejected_scheduler_is_noticed_and_explained() -> None:
    kernel = MemoryBackend()
    runner, clock, _ = make(kernel)
    steps(runner, clock, 4)
    kernel.running, kernel.exit = None, STALL
    steps(runner, clock, 1)
    assert str(runner.zone.setting) == "weights"
    assert "spin[71] failed to run for 5.07s" in runner.zone.history[-1].reason.text


def test_a_keeper_that_refuses_ends_at_the_fair_class_until_the_ban_ends() -> None:
    keeper = MemoryKeeper(FakeKeeper(refuses=lambda entry: "outside of the roots"))
    runner, clock, _ = make(MemoryBackend(refuses=True), keeper)
    steps(runner, clock, 4)
    assert runner.zone.state is ZoneState.FAILED
    assert "outside of the roots" in runner.zone.history[-1].reason.text
    keeper.fake.refuses = lambda entry: ""
    clock.now_s += 99
    steps(runner, clock, 4)
    assert runner.zone.state is ZoneState.ACTIVE


def test_the_loop_detaches_whatever_ends_it() -> None:
    kernel = MemoryBackend()
    runner, _, _ = make(kernel)

    def fail() -> None:
        raise Permanent("disk full")

    with pytest.raises(Permanent):
        asyncio.run(runner.run(asyncio.Event(), 0.001, None, fail))
    assert kernel.running is None
    assert runner.zone.state is ZoneState.GONE


def test_weights_count_late_waits_where_there_is_a_probe() -> None:
    class Probe:
        late = 0

        def watch(self, groups: Mapping[str, int | None]) -> None:
            assert groups == {"web": 5000}

        def read(self) -> RunQueueReading:
            waits = tuple(GroupWaits(group, WaitHistogram(), 0, self.late) for group in ("web", "web/pod"))
            return RunQueueReading(0, waits, (), 0, 0)

    probe = Probe()
    backend = WeightsBackend(MemoryKeeper(), probe)
    backend.put(ROWS)
    probe.late = 7
    assert backend.late() == {"web": (7, 0)}
    probe.late = 9
    assert backend.late() == {"web": (2, 0)}
    assert WeightsBackend(MemoryKeeper()).late() is None


def test_states_are_files_that_outlive_the_process(tmp_path: Path) -> None:
    runner, clock, _ = make(MemoryBackend())
    steps(runner, clock, 4)
    write_state(tmp_path, state_of(runner.zone, clock(), 1e9, runner.last))
    (tmp_path / "broken.json").write_text("{")
    (state,) = read_states(tmp_path)
    assert (state["zone"], state["setting"], state["running"]) == ("shop", "root/throughput", True)
    assert state["history"][0]["at"] == 1e9 - 4
    write_state(tmp_path, {**state, "pid": 2**22 + os.getpid()})
    assert not read_state(tmp_path, "shop")["running"]
    with pytest.raises(InvalidInput, match="zones are shop"):
        read_state(tmp_path, "other")


def test_burn_rates_switch_the_scheduler_without_late_dispatches() -> None:
    kernel = MemoryBackend()
    runner, clock, _ = make(kernel)

    async def burns() -> dict[str, float]:
        return {"web": 3.0 if kernel.running == ROOT else 0.2}

    runner.burns = burns
    steps(runner, clock, 8)
    assert kernel.running == ZoneSetting(Backend.ROOT, ZoneMode.LATENCY)
    change = runner.zone.history[-1]
    assert change.kept
    assert "burn rate 3.00 before, 0.20 after" in change.outcome


def test_a_silent_agent_leaves_late_dispatches(caplog: pytest.LogCaptureFixture) -> None:
    kernel = MemoryBackend({ZoneMode.THROUGHPUT: 40, ZoneMode.LATENCY: 0})
    runner, clock, _ = make(kernel)
    definition = ZoneDefinition("shop", (ZoneGroup("web", GroupClass.SERVICE),))
    runner.burns = ZoneAgentView("unix:/nowhere/agent.sock", definition, lambda group: True).burns
    steps(runner, clock, 8)
    assert kernel.running == ZoneSetting(Backend.ROOT, ZoneMode.LATENCY)
    assert caplog.text.count("no burn rates") == 1


def test_burn_rates_of_a_group_are_the_highest_fresh_ones_of_its_pods() -> None:
    def pod(group: str, *signals: tuple[int, int, int]) -> dict[str, object]:
        fields = ("requests", "bad", "age_us")
        return {
            "group": group,
            "signals": [{"budget_ppm": 10_000, **dict(zip(fields, signal, strict=True))} for signal in signals],
        }

    state = {
        "pods": [
            pod("web/one", (1000, 20, 0), (1000, 10, 0)),
            pod("web/two", (1000, 50, 6_000_000), (0, 0, 0)),
            pod("webs", (1000, 900, 0)),
            pod("db", (1000, 5, 1_000_000)),
            pod("batch"),
        ]
    }
    assert burns_of(state, ["web", "db", "batch"]) == {"web": 2.0, "db": 0.5}
    assert burns_of({}, ["web"]) == {}


def test_members_are_the_listed_groups_and_those_of_selected_pods_that_exist() -> None:
    definition = ZoneDefinition(
        "shop",
        (ZoneGroup("listed", GroupClass.BATCH),),
        (ZoneApplication("shop", {"app": "web"}), ZoneApplication("jobs")),
        (ClassRule(GroupClass.SERVICE, {"tier": "front"}, late_ms=5), ClassRule(GroupClass.BATCH)),
    )
    pods = [
        {"pod": "shop/web-1", "group": "kubepods/web-1", "labels": {"app": "web", "tier": "front"}},
        {"pod": "shop/db-1", "group": "kubepods/db-1", "labels": {"app": "db"}},
        {"pod": "jobs/j", "group": "kubepods/j"},
        {"pod": "jobs/gone", "group": "kubepods/gone"},
        {"pod": "jobs/inside", "group": "listed/inside"},
    ]
    rows = members_of({"pods": pods}, definition, lambda group: not group.endswith("gone"))
    assert rows == {
        "listed": ZoneRow(ZoneClass.BATCH),
        "kubepods/web-1": ZoneRow(ZoneClass.SERVICE, late_us=5000),
        "kubepods/j": ZoneRow(ZoneClass.BATCH),
    }


def test_pods_that_come_and_go_get_and_lose_their_weights() -> None:
    keeper, lines = MemoryKeeper(), list[str]()
    runner, clock, _ = make(MemoryBackend(refuses=True), keeper)
    found: dict[str, ZoneRow] | None = dict(ROWS)

    async def members() -> dict[str, ZoneRow] | None:
        return found

    runner.members, runner.log = members, lines.append
    steps(runner, clock, 4)
    found = {"new": ROWS["batch"]}
    steps(runner, clock, 2)
    assert keeper.fake.held == {KnobTarget("new", Knob.CPU_IDLE): "1"}
    found = None  # the agent is away
    steps(runner, clock, 2)
    assert keeper.fake.held == {KnobTarget("new", Knob.CPU_IDLE): "1"}
    found = {}
    steps(runner, clock, 2)
    assert keeper.fake.held == {}
    assert runner.zone.state is ZoneState.ACTIVE
    assert "group new: batch, found by its labels" in lines
    assert "group web is gone" in lines
