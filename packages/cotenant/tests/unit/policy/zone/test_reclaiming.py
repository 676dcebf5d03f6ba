"""Batch's memory is reclaimed for a service that waits although it is protected, in bounded steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.zones.setting import USUAL_MODES, Backend, ZoneSetting
from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.model.zones.zone_reading import ChangeRows, GroupReading, GroupResources, Stay, ZoneReading
from cotenant.policy.zone.canary import judge_reclaim
from cotenant.policy.zone.deciding import Memory, ZoneConfig, decide
from cotenant.policy.zone.reclaiming import HARD_STALL, LEAST_BYTES, next_step, taken_from_batch

MIB = 1 << 20
WEB = ZoneRow(ZoneClass.SERVICE)
KEPT = replace(WEB, memory_low_bytes=300 * MIB)
BATCH = ZoneRow(ZoneClass.BATCH)


def reading(web: float = 0.4, batch: float = 0.0, batch_bytes: int = 800 * MIB) -> ZoneReading:
    """Shares of time in which the service and batch wait for memory."""
    return ZoneReading(
        1.0,
        (
            GroupReading("web", ZoneClass.SERVICE, resources=GroupResources(web, 0.0, 300 * MIB)),
            GroupReading("batch", ZoneClass.BATCH, resources=GroupResources(batch, 0.0, batch_bytes)),
        ),
    )


@pytest.mark.parametrize(
    ("seen", "web", "reclaimed"),
    [
        (reading(), KEPT, 400 * MIB),
        (reading(), WEB, None),  # protection comes first
        (reading(web=0.05), KEPT, None),
        (reading(batch=HARD_STALL + 0.01), KEPT, None),  # it waits for its own
        (reading(batch_bytes=LEAST_BYTES - 4096), KEPT, None),
    ],
)
def test_batch_gives_up_half_for_a_protected_service_that_waits(
    seen: ZoneReading, web: ZoneRow, reclaimed: int | None
) -> None:
    found = taken_from_batch(seen, {"web": web, "batch": BATCH}, 0.1)
    assert (None if found is None else dict(found[0])) == (
        None if reclaimed is None else {"batch": replace(BATCH, reclaim_to_bytes=reclaimed)}
    )
    if found is not None:
        assert found[1].text == "web waits for memory, protected: reclaimed in steps: batch down to 400 MiB"
        assert taken_from_batch(seen, {"web": web, **dict(found[0])}, 0.1) is None  # once


def test_a_decision_protects_first_and_then_reclaims_unless_that_is_banned() -> None:
    setting, config = ZoneSetting(Backend.WEIGHTS), ZoneConfig()
    rows = {"web": WEB, "batch": BATCH}
    first, memory = decide(reading(), setting, rows, rows, USUAL_MODES, config, Memory())
    assert isinstance(first, ChangeRows)
    assert dict(first.rows) == {"web": KEPT}
    held = {**rows, **dict(first.rows)}
    second, _ = decide(reading(), setting, held, rows, USUAL_MODES, config, memory)
    assert isinstance(second, ChangeRows)
    assert (second.reason.rule, [group for group, _ in second.rows]) == ("zone-reclaim", ["batch"])
    banned, _ = decide(reading(), setting, held, rows, USUAL_MODES, config, memory, reclaims=False)
    assert isinstance(banned, Stay)


@pytest.mark.parametrize(
    ("bytes_now", "stall", "seconds", "step"),
    [
        (800 * MIB, 0.0, 1.0, 50 * MIB),  # an eighth of 400 MiB
        (800 * MIB, 0.0, 0.5, 25 * MIB),
        (800 * MIB, 0.0, 60.0, 250 * MIB),  # a long reading is no reason for a leap
        (410 * MIB, 0.0, 1.0, 10 * MIB),  # to the bound, not below it
        (400 * MIB, 0.0, 1.0, 0),
        (390 * MIB, 0.0, 1.0, 0),
        (800 * MIB, HARD_STALL + 0.01, 1.0, 0),
        (800 * MIB, HARD_STALL, 1.0, 50 * MIB),
    ],
)
def test_a_step_is_bounded_and_waits_while_batch_does(bytes_now: int, stall: float, seconds: float, step: int) -> None:
    row = replace(BATCH, reclaim_to_bytes=400 * MIB)
    assert next_step(row, GroupResources(stall, 0.0, bytes_now), seconds) == step
    assert next_step(BATCH, GroupResources(stall, 0.0, bytes_now), seconds) == 0


def test_reclaim_goes_on_only_where_services_wait_less() -> None:
    assert judge_reclaim(reading(web=0.4), reading(web=0.1))[0]
    kept, reason = judge_reclaim(reading(web=0.4), reading(web=0.37))
    assert not kept
    assert reason.text == (
        "batch gave up memory and services wait as before: services waited 40 % for memory before, 37 % after"
    )
