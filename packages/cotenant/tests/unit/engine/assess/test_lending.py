from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import numpy as np
import pytest

from cotenant.engine.assess.lending import LentDay, LentHistory, RecordedNodes, replay
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.facts import Policy
from cotenant.policy.overcommit.hysteresis import HysteresisBand, to_write
from cotenant.policy.overcommit.peak import (
    MeasuredPodUse,
    PeakSettings,
    calibrated,
    new_history,
    new_pool,
    observe,
    peak_amount,
)

STEP_S = 900.0
DAY = 96
MONDAY_S = 1_700_438_400.0  # 2023-11-20 00:00 UTC


def recorded(use: np.ndarray, capacity: float = 10_000.0) -> RecordedNodes:
    count = len(use)
    return RecordedNodes(MONDAY_S, STEP_S, use.astype(np.float32), np.full(count, 8000.0), np.full(count, capacity))


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


def by_hand(
    use: np.ndarray, capacity: np.ndarray, start_s: float, step_s: float, reclaim_pct: int
) -> dict[date, list[int]]:
    """Of each day what `LentDay` says, in its order, node by node and step by step."""
    days: dict[date, list[int]] = {}
    hours: dict[tuple[int, int], bool] = {}  # of a node: whether it was squeezed in any step
    for node, limit in enumerate(capacity.astype(int)):
        stands: int | None = None
        for step, used in enumerate(use[node]):
            now_s = start_s + step * step_s
            if np.isnan(used):
                continue
            if stands is not None:
                short = min(stands, max(0, int(used) + stands - limit))
                hour = (node, int(now_s // 3600))
                hours[hour] = hours.get(hour, False) or short > 0
                if now_s >= start_s + 86_400:
                    sums = days.setdefault(datetime.fromtimestamp(now_s, UTC).date(), [0] * 7)
                    touched = stands if short else 0
                    for i, amount in enumerate((stands, short, limit, 0, 0, touched, int(used > limit))):
                        sums[i] += amount
            stands = max(0, limit - limit * (100 - reclaim_pct) // 100 - int(used))
    for (_, number), is_broken in hours.items():
        if (number + 1) * 3600 > start_s + 86_400:
            sums = days.setdefault(datetime.fromtimestamp(number * 3600, UTC).date(), [0] * 7)
            sums[3], sums[4] = sums[3] + 1, sums[4] + is_broken
    return days


@pytest.mark.parametrize(
    ("seed", "start_s", "step_s", "reclaim_pct"),
    [(1, MONDAY_S, 900.0, 60), (2, MONDAY_S + 36_000, 900.0, 80), (3, MONDAY_S + 1_234, 1_500.0, 30)],
)
def test_every_day_adds_up_node_by_node(seed: int, start_s: float, step_s: float, reclaim_pct: int) -> None:
    rng = np.random.default_rng(seed)
    capacity = np.array([10_000.0, 4_000.0, 7_000.0, 1_000.0])
    use = np.rint(rng.random((4, 260)) * capacity[:, None] * rng.choice([0.4, 0.9, 1.2], (4, 260)))
    use[rng.random(use.shape) < 0.15] = np.nan
    use[1, 100:140] = np.nan
    history = RecordedNodes(start_s, step_s, use.astype(np.float32), capacity, capacity)
    found = replay(history, Policy.USAGE, reclaim_pct=reclaim_pct)
    days = by_hand(use, capacity, start_s, step_s, reclaim_pct)
    told = {
        day.day: [day.lent, day.squeezed, day.capacity, day.node_hours, day.broken, day.touched, day.overused]
        for day in found.days
    }
    assert told == days
    lent, squeezed, whole, hours, broken, *_ = (sum(column) for column in zip(*days.values(), strict=True))
    assert found.nodes == 4
    assert found.lent_share == pytest.approx(lent / whole)
    assert found.squeezed_share == pytest.approx(squeezed / lent)
    assert found.broken_share == pytest.approx(broken / hours)
    default = replay(history, Policy.USAGE)
    assert (default == found) is (reclaim_pct == 60)


def test_a_day_has_the_shares_of_what_it_lent() -> None:
    day = LentDay(date(2023, 11, 21), 0.5, 0.125, 1.0, 1, 1, 0.25, 3)
    assert (day.squeezed_share, day.touched_share) == (0.25, 0.5)
    nothing = LentDay(date(2023, 11, 21), 0.0, 0.0, 1.0, 1, 0)
    assert (nothing.squeezed_share, nothing.touched_share, nothing.touched, nothing.overused) == (0, 0, 0, 0)
    empty = LentHistory(Policy.USAGE, (nothing,), 1)
    assert (empty.lent_share, empty.squeezed_share, empty.broken_share) == (0, 0, 0)
    assert LentHistory(Policy.USAGE, (day, day), 1).lent_share == 0.5


def peak_by_hand(
    use: np.ndarray, requested: int, capacity: int, settings: PeakSettings, band: HysteresisBand
) -> list[tuple[int, int]]:
    """What stands at each known step, and what of it is squeezed: one node, of the forms that the manager runs."""
    pool, history = new_pool(settings, 3600 / STEP_S), new_history(settings)
    stands: int | None = None
    found: list[tuple[int, int]] = []
    seen = over = False
    for step, used in enumerate(use):
        now_s = MONDAY_S + step * STEP_S
        if step and step % 4 == 0:
            pool, seen, over = calibrated(pool, int(over), int(seen), settings), False, False
        if np.isnan(used):
            continue
        if stands is not None:
            short = min(stands, max(0, int(used) + stands - capacity))
            seen, over = True, over or short > 0
            found.append((stands if step >= DAY else 0, short if step >= DAY else 0))
        pods = {"all": MeasuredPodUse(PriorityClass.PROD, requested, int(used))}
        history, pool = observe(history, pool, pods, capacity, settings, now_s)
        computed = peak_amount("batch-cpu", history, pool, pods, capacity, 0, settings).value
        stands = to_write(computed, stands, capacity, band)
    return found


@pytest.mark.parametrize("requested", [8000.0, float("nan")])
def test_the_peak_policy_of_one_node_is_the_managers_own(requested: float) -> None:
    rng = np.random.default_rng(4)
    use = np.rint(4000 + 2500 * np.sin(np.arange(2 * DAY + 30) / 15) + 1500 * rng.random(2 * DAY + 30))
    use[rng.random(len(use)) < 0.1] = np.nan
    settings, band = PeakSettings(risk=0.1, warm_samples=10.0), HysteresisBand(0.01, 0.05)
    history = RecordedNodes(MONDAY_S, STEP_S, use[None].astype(np.float32), np.array([requested]), np.array([9_000.0]))
    found = replay(history, Policy.PEAK, settings, band=band)
    request = 9_000 if np.isnan(requested) else 8_000
    steps = peak_by_hand(use, request, 9_000, settings, band)
    assert sum(day.lent for day in found.days) == sum(stood for stood, _ in steps)
    assert sum(day.squeezed for day in found.days) == sum(short for _, short in steps) > 0
    assert found == replay(history, settings=settings, band=band)


def test_the_peak_policy_is_the_managers_own() -> None:
    """Against the plain form that the manager runs, node by node."""
    rng = np.random.default_rng(6)
    nodes, steps = 5, 4 * DAY
    level = 4000 + 1500 * np.sin(np.arange(steps) * 2 * np.pi / DAY + rng.random((nodes, 1)) * 6)
    use = np.clip(level + rng.normal(0, 400, (nodes, steps)), 100, 9900)
    use[2, 150:170] = np.nan
    settings, band = PeakSettings(), HysteresisBand()
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
        of = {
            n: {"all": MeasuredPodUse(PriorityClass.PROD, 8000, round(float(np.float32(use[n, step]))))} for n in known
        }
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
    for name in ("requested", "capacity"):
        with pytest.raises(InvalidInput, match=f"{name}: 3: expected one for each of 2 nodes"):
            replace(whole, **{name: np.ones(3)})
    with pytest.raises(InvalidInput, match="step"):
        replace(whole, step_s=0.0)
