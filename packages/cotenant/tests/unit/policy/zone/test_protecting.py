"""Services that wait for memory or disk are protected beyond the CPU: on trial as any change, until they are calm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneSetting
from cotenant.model.zones.state import PutRows, Verify
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ChangeRows, GroupReading, GroupResources, Stay, ZoneReading
from cotenant.policy.zone.canary import judge
from cotenant.policy.zone.deciding import Memory, ZoneConfig, decide
from cotenant.policy.zone.protecting import IO_WEIGHT, protected

ROWS = {"web": ZoneRow(ZoneClass.SERVICE), "batch": ZoneRow(ZoneClass.BATCH)}
MIB = 1 << 20


def reading(memory: float = 0.0, io: float = 0.0, batch: float = 0.5, late: int = 0) -> ZoneReading:
    return ZoneReading(
        1.0,
        (
            GroupReading("web", ZoneClass.SERVICE, late=late, resources=GroupResources(memory, io, 300 * MIB)),
            GroupReading(
                "batch", ZoneClass.BATCH, cpu_us=round(batch * 1e6), resources=GroupResources(0.9, 0.9, 900 * MIB)
            ),
        ),
    )


@pytest.mark.parametrize(
    ("seen", "low", "weight"),
    [
        (reading(memory=0.3), 300 * MIB, 0),
        (reading(io=0.3), 0, IO_WEIGHT),
        (reading(0.3, 0.4), 300 * MIB, IO_WEIGHT),
    ],
)
def test_only_what_a_service_waits_for_is_raised(seen: ZoneReading, low: int, weight: int) -> None:
    found = protected(seen, ROWS, 0.1)
    assert found is not None
    assert dict(found[0]) == {"web": replace(ROWS["web"], memory_low_bytes=low, io_weight=weight)}
    assert protected(seen, {**ROWS, **dict(found[0])}, 0.1) is None  # one step, and never batch
    assert protected(reading(0.05, 0.05), ROWS, 0.1) is None


def test_waits_alone_change_no_scheduler_and_late_dispatches_still_do() -> None:
    setting, config = ZoneSetting(Backend.WEIGHTS), ZoneConfig()
    first, memory = decide(reading(memory=0.3), setting, ROWS, ROWS, USUAL_MODES, config, Memory())
    assert isinstance(first, ChangeRows)
    assert first.reason.rule == "zone-protect"
    rows = {**ROWS, **dict(first.rows)}
    second, memory = decide(reading(memory=0.3), setting, rows, ROWS, USUAL_MODES, config, memory)
    assert isinstance(second, Stay)
    assert "are protected" in second.reason.text
    assert memory.pressed
    third, _ = decide(reading(memory=0.06), setting, rows, ROWS, USUAL_MODES, config, memory)
    assert isinstance(third, Stay)  # not calm yet: above half of the limit
    late, _ = decide(reading(memory=0.3, late=50), setting, rows, ROWS, USUAL_MODES, config, memory)
    assert "nothing left" in late.reason.text


def test_a_trial_that_brings_no_less_waiting_and_costs_batch_is_undone() -> None:
    kept, reason = judge(reading(memory=0.4), reading(memory=0.1, batch=0.2), 2.0)
    assert kept, reason
    assert "waited 40 % for memory or disk before, 10 % after" in reason.text
    kept, reason = judge(reading(memory=0.4), reading(memory=0.4, batch=0.2), 2.0)
    assert not kept
    assert "no better for services" in reason.text
    kept, reason = judge(reading(memory=0.1), reading(memory=0.4), 2.0)
    assert not kept
    assert "worse" in reason.text


def test_a_zone_protects_tries_proves_and_gives_back() -> None:
    zone = Zone(
        "z",
        ROWS,
        (ZoneSetting(Backend.WEIGHTS),),
        config=ZoneConfig(calm_s=3.0),
        limits=ZoneLimits(canary_s=1.0, dwell_s=1.0),
    )
    now_s = 0.0
    zone.start(now_s)
    assert isinstance(zone.attached(now_s)[0], Verify)
    zone.verified(now_s, True)
    asked: list[dict[str, ZoneRow]] = []
    # calm, then a service that waits until it is protected, then a calm one
    for at in range(1, 30):
        now_s = float(at)
        has = zone.rows["web"].memory_low_bytes
        waits = 0.4 if 5 <= at < 8 and not has else 0.02
        for instruction in zone.measured(now_s, reading(memory=waits)):
            assert isinstance(instruction, PutRows)
            asked.append(dict(instruction.rows))
        zone.validate()
    assert [rows["web"].memory_low_bytes for rows in asked] == [300 * MIB, 0]
    changes = [change for change in zone.history if change.reason.rule in ("zone-protect", "zone-rows")]
    assert [change.kept for change in changes] == [True, True]
    assert "2 % after" in changes[0].outcome
