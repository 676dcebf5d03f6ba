"""How settings reach the kernel: which knobs are leased for rows, and which rows the kernel's maps get for groups."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest

from cotenant.drivers.ebpf.zone_scheduler import ZoneSchedulers
from cotenant.model.errors import Permanent, Transient
from cotenant.model.machine.knob import GiveBack, Knob, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.run_queue import GroupWaits, RunQueueReading, WaitHistogram
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.table import LateDispatch, SchedulerExit, ZoneClass, ZoneRow
from cotenant.services.zones.backends import RootBackend, SubBackend, WeightsBackend

WEIGHTS = ZoneSetting(Backend.WEIGHTS)
LATENCY, WEIGHTED = (ZoneSetting(Backend.ROOT, mode) for mode in (ZoneMode.LATENCY, ZoneMode.WEIGHTED))
BATCH, SERVICE = ZoneRow(ZoneClass.BATCH), ZoneRow(ZoneClass.SERVICE, weight=300, late_us=5000)
IDLE_OF_BATCH, WEIGHT_OF_WEB = KnobTarget("batch", Knob.CPU_IDLE), KnobTarget("web", Knob.CPU_WEIGHT)


@dataclass
class Leases:
    """A keeper. `answers`: states other than held."""

    held: dict[KnobTarget, str] = field(default_factory=dict)
    answers: dict[KnobTarget, tuple[LeaseState, str]] = field(default_factory=dict)
    asked: list[SetKnob] = field(default_factory=list)
    returned: list[list[KnobTarget]] = field(default_factory=list)

    async def hold(self, wanted: Sequence[SetKnob]) -> Sequence[LeaseAnswer]:
        self.asked = list(wanted)
        found = [LeaseAnswer(wish.target, *self.answers.get(wish.target, (LeaseState.HELD, ""))) for wish in wanted]
        self.held |= {
            wish.target: wish.value
            for wish, answer in zip(wanted, found, strict=True)
            if answer.state is LeaseState.HELD
        }
        return found

    async def give_back(self, requests: Sequence[GiveBack]) -> Sequence[LeaseAnswer]:
        self.returned.append([request.target for request in requests])
        for request in requests:
            self.held.pop(request.target, None)
        return [LeaseAnswer(request.target, LeaseState.RESTORED) for request in requests]


@dataclass
class Waits:
    watched: dict[str, int | None] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)

    def watch(self, groups: Mapping[str, int | None]) -> None:
        self.watched = dict(groups)

    def read(self) -> RunQueueReading:
        groups = tuple(GroupWaits(group, WaitHistogram(), late=number) for group, number in self.late.items())
        return RunQueueReading(0, groups)


def test_batch_is_idle_and_services_have_their_rows_weight() -> None:
    leases = Leases()
    backend = WeightsBackend(leases)
    backend.put({"web": SERVICE, "batch": BATCH, "plain": ZoneRow(ZoneClass.SERVICE), "os": ZoneRow(ZoneClass.SYSTEM)})
    assert not backend.runs(WEIGHTS)
    asyncio.run(backend.attach(WEIGHTS))
    assert leases.held == {IDLE_OF_BATCH: "1", WEIGHT_OF_WEB: "300"}
    assert {wish.lasts_us for wish in leases.asked} == {30_000_000}
    assert backend.runs(WEIGHTS)
    assert not backend.runs(LATENCY)


def test_a_zone_whose_rows_want_no_knob_runs_at_once() -> None:
    assert WeightsBackend(Leases()).runs(WEIGHTS)


def test_what_rows_no_longer_want_is_given_back_once() -> None:
    leases = Leases()
    backend = WeightsBackend(leases)
    backend.put({"web": SERVICE, "batch": BATCH})
    asyncio.run(backend.attach(WEIGHTS))
    backend.put({"web": SERVICE})
    asyncio.run(backend.refresh())
    asyncio.run(backend.refresh())
    assert leases.returned == [[IDLE_OF_BATCH]]
    assert leases.held == {WEIGHT_OF_WEB: "300"}
    asyncio.run(backend.detach())
    assert leases.returned[1:] == [[WEIGHT_OF_WEB]]
    asyncio.run(backend.detach())
    assert len(leases.returned) == 2
    assert not leases.held


@pytest.mark.parametrize(
    ("state", "detail", "said"),
    [(LeaseState.REFUSED, "no such knob", "no such knob"), (LeaseState.YIELDED, "", "yielded")],
)
def test_one_refusal_gives_everything_back(state: LeaseState, detail: str, said: str) -> None:
    leases = Leases(answers={WEIGHT_OF_WEB: (state, detail)})
    backend = WeightsBackend(leases)
    backend.put({"web": SERVICE, "batch": BATCH})
    with pytest.raises(Permanent, match=f"web.*: {said}"):
        asyncio.run(backend.attach(WEIGHTS))
    assert leases.returned == [[IDLE_OF_BATCH]]
    assert not backend.runs(WEIGHTS)


def test_a_group_that_is_gone_is_no_refusal() -> None:
    leases = Leases(answers={IDLE_OF_BATCH: (LeaseState.GONE, "")})
    backend = WeightsBackend(leases)
    backend.put({"web": SERVICE, "batch": BATCH})
    asyncio.run(backend.attach(WEIGHTS))
    assert backend.runs(WEIGHTS)
    assert leases.returned == []


def test_late_waits_are_those_since_the_last_reading() -> None:
    waits = Waits()
    backend = WeightsBackend(Leases(), waits)
    backend.put({"web": SERVICE, "batch": BATCH})
    assert waits.watched == {"web": 5000}
    waits.late = {"web": 3, "other": 9}
    assert backend.late() == {"web": (3, 0)}
    waits.late = {"web": 8}
    assert backend.late() == {"web": (5, 0)}
    waits.late = {"web": 2}  # it counts anew
    assert backend.late() == {"web": (0, 0)}
    waits.late = {"web": 4}
    assert backend.late() == {"web": (2, 0)}
    assert WeightsBackend(Leases()).late() is None


# ---- kernel schedulers


class Maps:
    def __init__(self) -> None:
        self.rows: dict[int, ZoneRow] = {}
        self.writes: list[int] = []
        self.waiting: tuple[LateDispatch, ...] = ()
        self.exit: SchedulerExit | None = None

    def put(self, number: int, row: ZoneRow) -> None:
        self.writes.append(number)
        self.rows[number] = row

    def drop(self, number: int) -> None:
        del self.rows[number]

    def late(self) -> tuple[LateDispatch, ...]:
        found, self.waiting = self.waiting, ()
        return found

    def fileno(self) -> int:
        return 77

    def last_exit(self) -> SchedulerExit | None:
        return self.exit


class Schedulers:
    """`is_there`: what the kernel says when it is asked."""

    def __init__(self) -> None:
        self.maps = Maps()
        self.attached: ZoneMode | None = None
        self.is_there = True
        self.removed = 0
        self.rows_at_switch: list[int] = []

    def switch(self, mode: ZoneMode) -> None:
        self.rows_at_switch.append(len(self.maps.rows))
        self.attached = mode

    def verify(self) -> bool:
        return self.is_there

    def remove(self) -> None:
        self.removed += 1


class Loaded(RootBackend):
    """A root back end on schedulers in memory."""

    def __init__(self, tree: Path) -> None:
        super().__init__("shop", (ZoneMode.LATENCY, ZoneMode.WEIGHTED), tree)
        self.made: list[Schedulers] = []

    def _load(self) -> ZoneSchedulers:
        self.made.append(Schedulers())
        return cast(ZoneSchedulers, self.made[-1])


def number(path: Path) -> int:
    return path.stat().st_ino


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for group in ("web/a", "web/b", "batch"):
        (tmp_path / group).mkdir(parents=True)
    return tmp_path


def of_web(tree: Path) -> set[int]:
    return {number(tree / group) for group in ("web", "web/a", "web/b")}


def test_all_groups_below_a_row_have_it_before_the_scheduler_runs(tree: Path) -> None:
    backend = Loaded(tree)
    backend.put({"web": SERVICE, "batch": BATCH, "missing": BATCH})
    assert not backend.runs(LATENCY)
    assert backend.events() is None
    assert backend.last_exit() is None
    assert backend.late() == {}
    asyncio.run(backend.attach(LATENCY))
    (made,) = backend.made
    assert made.maps.rows == dict.fromkeys(of_web(tree), SERVICE) | {number(tree / "batch"): BATCH}
    assert made.rows_at_switch == [4]
    assert backend.runs(LATENCY)
    assert not backend.runs(WEIGHTED)
    made.is_there = False
    assert not backend.runs(LATENCY)


def test_another_mode_switches_the_loaded_schedulers(tree: Path) -> None:
    backend = Loaded(tree)
    asyncio.run(backend.attach(LATENCY))
    asyncio.run(backend.attach(WEIGHTED))
    (made,) = backend.made
    assert made.attached is ZoneMode.WEIGHTED
    assert backend.runs(WEIGHTED)


def test_a_setting_without_a_mode_is_none_of_a_kernel_scheduler(tree: Path) -> None:
    backend = Loaded(tree)
    with pytest.raises(Permanent, match="weights is not a setting of a kernel scheduler"):
        asyncio.run(backend.attach(WEIGHTS))
    assert backend.made == []


def test_only_rows_that_changed_are_written(tree: Path) -> None:
    backend = Loaded(tree)
    backend.put({"web": SERVICE, "batch": BATCH})
    asyncio.run(backend.attach(LATENCY))
    maps = backend.made[0].maps
    maps.writes.clear()
    heavier = replace(BATCH, weight=5)
    backend.put({"web": SERVICE, "batch": heavier})
    assert maps.writes == [number(tree / "batch")]
    assert maps.rows[number(tree / "batch")] == heavier
    asyncio.run(backend.refresh())
    assert len(maps.writes) == 1


def test_groups_that_come_and_go_are_followed(tree: Path) -> None:
    backend = Loaded(tree)
    backend.put({"web": SERVICE, "batch": BATCH})
    asyncio.run(backend.attach(LATENCY))
    maps, gone = backend.made[0].maps, number(tree / "web/a")
    (tree / "web/c").mkdir()
    (tree / "web/a").rename(tree / "elsewhere")  # its number stays in use, so that no new group has it
    backend.put({"web": SERVICE, "batch": BATCH})
    assert gone in maps.rows  # groups below are looked for by a refresh
    asyncio.run(backend.refresh())
    assert gone not in maps.rows
    assert maps.rows[number(tree / "web/c")] == SERVICE
    backend.put({"web": SERVICE})  # other groups are looked for at once
    assert number(tree / "batch") not in maps.rows
    assert set(maps.rows) == {number(tree / group) for group in ("web", "web/b", "web/c")}


def late(cgroup: int, waited_us: int, at_us: int) -> LateDispatch:
    return LateDispatch(at_us, cgroup, waited_us, 1, ZoneClass.SERVICE)


def test_late_dispatches_count_for_the_group_of_the_row(tree: Path) -> None:
    backend = Loaded(tree)
    backend.put({"web": SERVICE, "batch": BATCH})
    asyncio.run(backend.attach(LATENCY))
    below, batch = number(tree / "web/a"), number(tree / "batch")
    assert backend.newest_us == 0
    backend.made[0].maps.waiting = (
        late(below, 7000, 10), late(batch, 50, 11), late(below, 9000, 12), late(below, 8000, 13), late(1, 99_999, 14),
    )  # fmt: skip
    assert backend.late() == {"web": (3, 9000), "batch": (1, 50)}
    assert backend.newest_us == 14
    assert backend.late() == {}
    assert backend.events() is backend
    assert backend.fileno() == 77


def test_detached_it_is_unloaded_once_and_can_be_loaded_again(tree: Path) -> None:
    backend = Loaded(tree)
    backend.put({"web": SERVICE})
    asyncio.run(backend.attach(LATENCY))
    exited = SchedulerExit(1, 2, "stall", "a runnable task stalled")
    backend.made[0].maps.exit = exited
    assert backend.last_exit() == exited
    asyncio.run(backend.detach())
    asyncio.run(backend.detach())
    assert backend.made[0].removed == 1
    assert not backend.runs(LATENCY)
    asyncio.run(backend.refresh())
    asyncio.run(backend.attach(LATENCY))
    assert set(backend.made[1].maps.rows) == of_web(tree)


def test_a_sub_scheduler_needs_its_group(tree: Path) -> None:
    backend = SubBackend("shop", (ZoneMode.LATENCY,), tree, "none")
    with pytest.raises(Transient, match="group none: No such file"):
        asyncio.run(backend.attach(ZoneSetting(Backend.SUB, ZoneMode.LATENCY)))
