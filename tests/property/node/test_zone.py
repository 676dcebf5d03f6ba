"""Whatever a zone is told, in whatever order: its states change legally, a canary ends, no change comes within the
dwell time, and only batch whose row says so is reclaimed.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.property.few import examples

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import Backend, ZoneMode, ZoneSetting
from cotenant.model.zones.state import Attach, Detach, PutRows, ReclaimGroups, Verify, ZoneInstruction, ZoneState
from cotenant.model.zones.table import SchedulerExit, ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import GroupReading, GroupResources, ZoneReading
from cotenant.policy.zone.deciding import ZoneConfig

ROWS = {"web": ZoneRow(ZoneClass.SERVICE, late_us=5000), "batch": ZoneRow(ZoneClass.BATCH)}
LADDERS = [
    (
        ZoneSetting(Backend.SUB, ZoneMode.WEIGHTED),
        ZoneSetting(Backend.ROOT, ZoneMode.WEIGHTED),
        ZoneSetting(Backend.WEIGHTS),
    ),
    (ZoneSetting(Backend.ROOT, ZoneMode.LATENCY), ZoneSetting(Backend.WEIGHTS)),
    (ZoneSetting(Backend.ROOT, ZoneMode.THROUGHPUT),),
    (ZoneSetting(Backend.WEIGHTS),),
]
LIMITS = ZoneLimits(canary_s=5, dwell_s=15, ban_s=60)


BATCH_BYTES = 800 << 20


def resources(waits: float | None, size: int) -> GroupResources | None:
    return None if waits is None else GroupResources(waits, 0.0, size)


class ZoneMachine(RuleBasedStateMachine):
    """A zone and a kernel that obeys, refuses, lies and ejects."""

    @initialize(ladder=st.sampled_from(LADDERS))
    def begin(self, ladder: tuple[ZoneSetting, ...]) -> None:
        self.zone = Zone("shop", ROWS, ladder, config=ZoneConfig(calm_s=20), limits=LIMITS)
        self.now = 0.0
        self.changed: float | None = None  # when the zone last changed by its own decision
        self.attached: ZoneSetting | None = None
        self.kernel_rows: dict[str, ZoneRow] = {}
        self.canary_since: float | None = None

    def carry_out(self, instructions: tuple[ZoneInstruction, ...]) -> None:
        for instruction in instructions:
            match instruction:
                case PutRows(rows):
                    self.kernel_rows.update(rows)
                case Attach(setting):
                    self.attached = setting
                case Detach():
                    self.attached = None
                case Verify(setting):
                    assert setting == self.attached
                case ReclaimGroups(steps):
                    for group, amount in steps:
                        row = self.kernel_rows[group]
                        assert row.zone_class is ZoneClass.BATCH
                        assert 0 < amount <= BATCH_BYTES - row.reclaim_to_bytes < BATCH_BYTES
                        assert any(row.memory_low_bytes for row in self.kernel_rows.values())

    @rule(known=st.booleans())
    def start(self, known: bool) -> None:
        if self.zone.state in (ZoneState.DEFINED, ZoneState.FAILED):
            before = ZoneReading(1.0, (GroupReading("web", ZoneClass.SERVICE, 5),)) if known else None
            self.carry_out(self.zone.start(self.now, before))

    @rule(accepts=st.booleans(), runs=st.booleans())
    def kernel_answers(self, accepts: bool, runs: bool) -> None:
        if self.zone.state is not ZoneState.PREPARING:
            return
        if not accepts:
            self.carry_out(self.zone.refused(self.now, "because"))
            return
        self.carry_out(self.zone.attached(self.now))
        self.carry_out(self.zone.verified(self.now, runs))
        self.canary_since = self.now

    @rule(
        late=st.sampled_from([0, 1, 3, 9, 100]),
        seconds=st.sampled_from([1.0, 3.0, 10.0]),
        batch=st.sampled_from([0, 10**6]),
        burn=st.sampled_from([None, 0.1, 3.0]),
        waits=st.sampled_from([None, 0.0, 0.2, 0.4]),
    )
    def measure(self, late: int, seconds: float, batch: int, burn: float | None, waits: float | None) -> None:
        self.now += seconds
        before = self.zone.state
        groups = (
            GroupReading("web", ZoneClass.SERVICE, late, burn=burn, resources=resources(waits, 300 << 20)),
            GroupReading("batch", ZoneClass.BATCH, cpu_us=batch, resources=resources(waits and 0.0, BATCH_BYTES)),
        )
        instructions = self.zone.measured(self.now, ZoneReading(seconds, groups))
        if before is ZoneState.ACTIVE and any(not isinstance(one, ReclaimGroups) for one in instructions):
            assert self.changed is None or self.now - self.changed >= LIMITS.dwell_s
            self.changed = self.now
            self.canary_since = self.now
        if before is ZoneState.CANARY and self.canary_since is not None:
            assert self.zone.state is not ZoneState.CANARY or self.now - self.canary_since < LIMITS.canary_s
        self.carry_out(instructions)

    @rule(number=st.integers(1, 8), eased=st.sampled_from([0.15, 0.4]))
    def service_waits_for_memory(self, number: int, eased: float) -> None:
        self.start(known=False)
        self.kernel_answers(accepts=True, runs=True)
        for _ in range(number):
            reclaimed = any(row.reclaim_to_bytes for row in self.zone.rows.values())
            self.measure(0, 10.0, 10**6, None, eased if reclaimed else 0.4)

    @rule()
    def eject(self) -> None:
        was = self.zone.setting
        running = self.zone.state in (ZoneState.CANARY, ZoneState.ACTIVE) and was.mode is not None
        self.carry_out(self.zone.ejected(self.now, SchedulerExit(1, 1026, "runnable task stall", "spin[7]")))
        if running:
            assert self.zone.setting != was
            assert was in self.zone.banned(self.now)

    @rule(usual=st.sampled_from([ROWS, {}, {"web": ROWS["web"]}, {**ROWS, "new": ROWS["web"]}, {"web": ROWS["batch"]}]))
    def pods_come_and_go(self, usual: dict[str, ZoneRow]) -> None:
        state, setting = self.zone.state, self.zone.setting
        instructions = self.zone.members(usual)
        if instructions:
            self.kernel_rows = {}
        self.carry_out(instructions)
        assert self.zone.rows.keys() == usual.keys()
        assert (self.zone.state, self.zone.setting) == (state, setting)

    @rule(mode=st.sampled_from(list(ZoneMode)))
    def user_switches(self, mode: ZoneMode) -> None:
        if self.zone.state is ZoneState.ACTIVE and self.zone.setting.mode is not None:
            instructions = self.zone.request(self.now, ZoneSetting(self.zone.setting.backend, mode))
            self.carry_out(instructions)
            if instructions:
                self.changed = self.now

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "zone"):
            return
        self.zone.validate()
        if self.zone.state is not ZoneState.DEFINED:
            assert self.kernel_rows == self.zone.rows
        if self.zone.state in (ZoneState.PREPARING, ZoneState.CANARY, ZoneState.ACTIVE):
            assert self.attached == self.zone.setting
        if self.zone.state is ZoneState.FAILED:
            assert self.attached is None

    def teardown(self) -> None:
        if hasattr(self, "zone"):
            self.carry_out(self.zone.destroy())
            assert self.attached is None


TestZone = pytest.mark.slow(ZoneMachine.TestCase)
TestZone.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
