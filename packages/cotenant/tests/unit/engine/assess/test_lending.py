from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from cotenant.engine.assess.lending import LentDay, Recorded, replay
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.hysteresis import Band, to_write
from cotenant.policy.overcommit.peak import (
    PeakSettings,
    PodUse,
    calibrated,
    new_history,
    new_pool,
    observe,
    peak_amount,
)

STEP_S = 900.0
DAY = 96
MONDAY_S = 1_700_438_400.0  # 2023-11-20 00:00 UTC


def recorded(use: np.ndarray, capacity: float = 10_000.0) -> Recorded:
    count = len(use)
    return Recorded(MONDAY_S, STEP_S, use.astype(np.float32), np.full(count, 8000.0), np.full(count, capacity))


def test_the_formula_by_hand() -> None:
    use = np.full((1, 3 * DAY), 2000.0)
    use[0, DAY + 10] = 9000.0  # Tuesday 02:30: 4000 stand beside it
    found = replay(recorded(use), Policy.USAGE)
    tuesday, wednesday = found.days
    assert (tuesday.day, wednesday.day) == (date(2023, 11, 21), date(2023, 11, 22))
    # 4000 at all steps of the day, but for the one after the jump, when nothing was lent
    assert (tuesday.lent, tuesday.squeezed) == (4000 * (DAY - 1), 3000)
    assert (tuesday.node_hours, tuesday.broken) == (24, 1)
    assert (wednesday.squeezed, wednesday.broken, wednesday.capacity) == (0, 0, 10_000 * DAY)
    assert found.broken_share == pytest.approx(1 / 48)
    assert (tuesday.touched, tuesday.overused) == (4000, 0)
    assert tuesday.told() == (
        "Had you lent this on Tuesday, 1.1 % of batch pod minutes would have been squeezed, and no service: 0.79 % of "
        "the lent core-hours, in 1 of 24 node-hours."
    )
    use[0, 2 * DAY + 5] = 10_500.0
    assert "services at 1 node-steps by their own use" in replay(recorded(use), Policy.USAGE).days[1].told()


@pytest.mark.slow
def test_the_peak_policy_is_the_managers_own() -> None:
    """Against the plain form that the manager runs, node by node."""
    rng = np.random.default_rng(6)
    nodes, steps = 5, 4 * DAY
    level = 4000 + 1500 * np.sin(np.arange(steps) * 2 * np.pi / DAY + rng.random((nodes, 1)) * 6)
    use = np.clip(level + rng.normal(0, 400, (nodes, steps)), 100, 9900)
    use[2, 150:170] = np.nan
    settings, band = PeakSettings(), Band()
    pool = new_pool(settings, 3600 / STEP_S)
    histories = [new_history(settings) for _ in range(nodes)]
    stands: list[int | None] = [None] * nodes
    lent = squeezed = 0.0
    hours = broken = 0
    judged: dict[int, tuple[set[int], set[int]]] = {}
    for step in range(steps):
        now_s = MONDAY_S + step * STEP_S
        hour = int(now_s // 3600)
        if step and hour not in judged:
            seen, over = judged[hour - 1]
            pool = calibrated(pool, len(over), len(seen), settings)
            if hour * 3600 > MONDAY_S + 86_400:
                hours, broken = hours + len(seen), broken + len(over)
        seen, over = judged.setdefault(hour, (set(), set()))
        known = [n for n in range(nodes) if not np.isnan(use[n, step])]
        of = {n: {"all": PodUse(PriorityClass.PROD, 8000, round(float(np.float32(use[n, step]))))} for n in known}
        for n in known:
            present = stands[n]
            if present is not None:
                short = min(present, max(0, (of[n]["all"].use or 0) + present - 10_000))
                seen.add(n)
                if short:
                    over.add(n)
                if step >= DAY:
                    lent, squeezed = lent + present, squeezed + short
        for n in known:
            histories[n], pool = observe(histories[n], pool, of[n], 10_000, settings, now_s)
        for n in known:
            amount = peak_amount("batch-cpu", histories[n], pool, of[n], 10_000, 0, settings)
            stands[n] = to_write(amount.value, stands[n], 10_000, band)
    found = replay(recorded(use), Policy.PEAK, settings, band=band)
    assert sum(day.lent for day in found.days) == pytest.approx(lent, rel=1e-3)
    assert sum(day.squeezed for day in found.days) == pytest.approx(squeezed, rel=0.05, abs=50)
    assert abs(sum(day.broken for day in found.days) - broken) <= 1
    assert sum(day.node_hours for day in found.days) == hours + len(judged[max(judged)][0])


def test_nodes_without_capacity_or_use_are_left_out() -> None:
    use = np.full((4, 2 * DAY), 1000.0)
    use[1] = np.nan
    some = replace(recorded(use), capacity=np.array([10_000.0, 10_000.0, 0.0, np.nan]))
    assert replay(some, Policy.USAGE).nodes == 1
    nothing = replay(replace(some, capacity=np.zeros(4)), Policy.PEAK)
    assert (nothing.days, nothing.nodes) == ((), 0)
    assert np.isnan(nothing.lent_share)
    assert np.isnan(nothing.broken_share)


def test_an_empty_day_has_no_share() -> None:
    assert LentDay(date(2023, 11, 21), 0.0, 0.0, 1.0, 1, 0).squeezed_share == 0.0


def test_what_cannot_be_replayed_is_refused() -> None:
    whole = recorded(np.ones((2, 4)))
    with pytest.raises(InvalidInput, match="peak or usage"):
        replay(whole, Policy.REQUEST)
    with pytest.raises(InvalidInput, match="requested"):
        replace(whole, requested=np.ones(3))
    with pytest.raises(InvalidInput, match="step"):
        replace(whole, step_s=0.0)
