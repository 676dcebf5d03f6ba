from __future__ import annotations

import pytest

from cotenant.model.zones.table import ZoneClass, ZoneRow
from cotenant.policy.zone.kernel_choice import chosen_kernel

BATCH = ZoneRow(ZoneClass.BATCH)


@pytest.mark.parametrize(
    ("late_us", "built", "preempt", "hz", "why"),
    [
        (0, (1000,), "full", 250, "services: full preemption"),
        (5_000, (1000,), "full", 250, "services: full preemption"),
        (4_999, (1000,), "full", 1000, "late after 4.999 ms, which 250 ticks a second do not keep"),
        (2_000, (1000,), "full", 1000, "late after 2 ms, which 250 ticks a second do not keep"),
        (2_000, (100,), "full", 250, "was not built (`cotenant zone kernel --hz 1000`)"),
    ],
)
def test_services_have_full_preemption_and_strict_ones_the_faster_tick_that_is_there(
    late_us: int, built: tuple[int, ...], preempt: str, hz: int, why: str
) -> None:
    choice = chosen_kernel([BATCH, ZoneRow(ZoneClass.SERVICE, late_us=late_us)], built)
    assert (choice.preempt, choice.hz) == (preempt, hz)
    assert why in choice.reason.text


def test_batch_alone_is_preempted_lazily() -> None:
    assert (chosen_kernel([BATCH], (1000,)).preempt, chosen_kernel([], ()).hz) == ("lazy", 250)
