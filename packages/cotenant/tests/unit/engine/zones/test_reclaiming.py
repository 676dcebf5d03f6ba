"""A zone reclaims batch's memory over time: after protection, on trial, and no longer than it helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from cotenant.engine.zones.reclaiming import MAX_VAIN
from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import Backend, ZoneSetting
from cotenant.model.zones.state import PutRows, ReclaimGroups, Verify, ZoneChange
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, GroupResources, ZoneReading
from cotenant.policy.zone.deciding import ZoneConfig

MIB = 1 << 20
ROWS = {"web": ZoneRow(ZoneClass.SERVICE), "batch": ZoneRow(ZoneClass.BATCH)}


class Machine:
    """A zone on a machine that is short of memory: `waits` is the service's share of time by batch's bytes; `gives`:
    whether the kernel finds pages that batch does not use.
    """

    def __init__(self, waits: Callable[[int], float], *, gives: bool = True, batch_waits: float = 0.0) -> None:
        self.zone = Zone(
            "z",
            ROWS,
            (ZoneSetting(Backend.WEIGHTS),),
            config=ZoneConfig(calm_s=5.0),
            limits=ZoneLimits(canary_s=3.0, dwell_s=2.0, ban_s=20.0),
        )
        self.waits, self.gives, self.batch_waits = waits, gives, batch_waits
        self.bytes, self.service_bytes = 800 * MIB, 300 * MIB
        self.now_s = 0.0
        self.steps: list[tuple[float, int]] = []
        self.zone.start(0.0)
        assert isinstance(self.zone.attached(0.0)[0], Verify)
        self.zone.verified(0.0, True)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            web = GroupResources(self.waits(self.bytes), 0.0, self.service_bytes)
            batch = GroupResources(self.batch_waits, 0.0, self.bytes)
            groups = (
                GroupReading("web", ZoneClass.SERVICE, resources=web),
                GroupReading("batch", ZoneClass.BATCH, cpu_us=500_000, resources=batch),
            )
            for instruction in self.zone.measured(self.now_s, ZoneReading(1.0, groups)):
                if isinstance(instruction, ReclaimGroups):
                    ((group, amount),) = instruction.steps
                    assert group == "batch"
                    self.steps.append((self.now_s, amount))
                    self.bytes -= amount if self.gives else 0
                else:
                    assert isinstance(instruction, PutRows)
            self.zone.validate()

    def changes(self, rule: str) -> list[ZoneChange]:
        return [change for change in self.zone.history if change.reason.rule == rule]


def test_memory_of_batch_is_reclaimed_until_the_service_waits_no_more() -> None:
    machine = Machine(lambda batch: 0.4 if batch > 700 * MIB else 0.02)
    machine.run(40)
    (protected,), (reclaimed,) = machine.changes("zone-protect"), machine.changes("zone-reclaim")
    assert protected.at_s < reclaimed.at_s
    assert reclaimed.kept
    assert "40 % for memory before" in reclaimed.outcome
    # two steps were enough
    assert [amount for _, amount in machine.steps] == [50 * MIB, 50 * MIB]
    assert machine.bytes == 700 * MIB
    assert machine.zone.rows == ROWS  # given back once the zone is calm
    assert not machine.zone.reclaiming.series


def test_it_ends_at_half_of_what_batch_had() -> None:
    machine = Machine(lambda batch: max(0.15, batch / (2000 * MIB)))  # less with less, and never calm
    machine.run(60)
    assert machine.bytes == 400 * MIB
    assert sum(amount for _, amount in machine.steps) == 400 * MIB
    assert [change.kept for change in machine.changes("zone-reclaim")] == [True]


def test_reclaim_that_does_not_help_is_undone_and_tried_again_ever_later() -> None:
    machine = Machine(lambda batch: 0.4)
    machine.run(200)
    tries = machine.changes("zone-reclaim")
    assert len(tries) >= 3
    assert not any(change.kept for change in tries)
    assert "services wait as before" in tries[0].outcome
    pauses = [second.at_s - first.at_s for first, second in pairwise(tries)]
    assert pauses[0] >= 20
    assert pauses[1] >= 40
    # a trial costs batch four steps of an eighth of a half at most
    began = [change.at_s for change in tries]
    assert len([at for at, _ in machine.steps if at < began[1]]) <= 4
    assert machine.zone.rows["batch"] == ROWS["batch"]


def test_batch_that_uses_its_memory_is_let_alone_after_a_few_steps() -> None:
    machine = Machine(lambda batch: 0.4 if not machine.steps else 0.2, gives=False)
    machine.run(40)
    assert [change.kept for change in machine.changes("zone-reclaim")] == [True]
    assert len(machine.steps) == MAX_VAIN
    assert machine.zone.reclaiming.series["batch"].is_over


def test_batch_that_waits_for_memory_itself_gives_up_nothing() -> None:
    machine = Machine(lambda batch: 0.4, batch_waits=0.5)
    machine.run(40)
    assert not machine.steps
    assert not machine.changes("zone-reclaim")


def test_a_reading_before_its_time_reclaims_nothing() -> None:
    machine = Machine(lambda batch: 0.4)
    machine.run(7)
    assert machine.zone.rows["web"].memory_low_bytes
    groups = (
        GroupReading("web", ZoneClass.SERVICE, late=50, resources=GroupResources(0.4, 0.0, 300 * MIB)),
        GroupReading("batch", ZoneClass.BATCH, resources=GroupResources(0.0, 0.0, 800 * MIB)),
    )
    asked = machine.zone.measured(machine.now_s + 0.1, ZoneReading(1.0, groups), early=True)
    assert not any(isinstance(instruction, ReclaimGroups) for instruction in asked)
    assert not machine.changes("zone-reclaim")


def test_a_service_that_grows_has_room_before_it_waits_again() -> None:
    """As on a kernel: it waits where it grows by more than there is room for."""

    def share(waits: bool, batch: int) -> float:
        return 0.2 if waits else 0.0

    room, waited, seen = 100 * MIB, list[bool](), 0
    machine = Machine(lambda batch: 0.0)
    for second in range(40):
        room += sum(amount for _, amount in machine.steps[seen:])
        seen = len(machine.steps)
        grows = 20 * MIB if second < 16 else 0
        waited.append(grows > room)
        room, machine.service_bytes = max(0, room - grows), machine.service_bytes + grows
        machine.waits = partial(share, waited[-1])
        machine.run(1)
    (change,) = machine.changes("zone-reclaim")
    assert change.kept
    began = round(change.at_s)
    assert any(waited[:began])
    assert not any(waited[began:])
    assert machine.steps[-1][0] <= 17  # and no more once it does not grow
