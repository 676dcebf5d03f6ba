from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.emptying import PLAN, RIVALS, EmptyingRule, try_emptying
from cotenant.policy.assess.predictor import OneByOne, Past, flat
from cotenant.policy.assess.recorded_pods import RecordedPods, RecordedUse
from cotenant.policy.assess.rivals import LastDayPeak
from cotenant.policy.assess.rows import quantiles


class Highest(OneByOne):
    """What was used at most."""

    name = "highest"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        return flat(quantiles(past.use, 1.0), horizon)


BY_USE = EmptyingRule("highest", False, Highest())
BY_REQUESTS = RIVALS[0]


def used(pods: np.ndarray, on: list[int], nodes: int, capacity: float, requested: np.ndarray) -> RecordedUse:
    """Nothing but these pods runs on the nodes."""
    total = np.zeros((nodes, pods.shape[1]))
    for use, node in zip(pods, on, strict=True):
        total[node] += np.nan_to_num(use)
    return RecordedUse(total.astype(np.float32), pods.astype(np.float32), requested, np.full(nodes, capacity))


def recorded(
    pods: np.ndarray,
    on: list[int],
    nodes: int = 3,
    capacity: float = 10.0,
    requested: float | np.ndarray = 5.0,
    movable: np.ndarray | None = None,
    memory: np.ndarray | None = None,
) -> RecordedPods:
    """Pods on nodes that nothing else runs on, in steps of an hour."""
    asked = np.full(len(pods), requested) if isinstance(requested, float) else requested
    resources = [used(pods, on, nodes, capacity, asked)]
    if memory is not None:
        resources.append(used(memory, on, nodes, capacity, np.zeros(len(pods))))
    can = np.ones(len(pods), np.bool_) if movable is None else movable
    return RecordedPods(tuple(resources), np.array(on, np.int64), can, 3600.0)


def steady(*amounts: float, steps: int = 96) -> np.ndarray:
    return np.repeat(np.array(amounts, np.float64)[:, None], steps, axis=1)


def test_without_growth_nothing_is_squeezed() -> None:
    (found,) = try_emptying(recorded(steady(2, 4, 6), [0, 1, 2]), (BY_USE,))
    assert (found.nodes, found.moved) == ((0,), 1)  # 2 beside the 6; 4 fits nowhere then
    assert (found.squeezed_pct, found.overflowed, found.unplaced) == (0.0, 0, 0)
    assert found.peak_pct == pytest.approx(80.0)
    (by_requests,) = try_emptying(recorded(steady(2, 4, 6), [0, 1, 2]), (BY_REQUESTS,))
    assert by_requests.nodes == (0,)


def test_growth_of_the_second_half_squeezes_who_shares_the_node() -> None:
    use = steady(2, 4, 6)
    use[0, 84:] = 7.0  # 7 + 6 > 10 in the last quarter of the second half
    (found,) = try_emptying(recorded(use, [0, 1, 2]), (BY_USE,))
    assert found.nodes == (0,)
    assert found.overflowed == 1
    assert found.squeezed_pct == pytest.approx(100 * 2 * 12 / (3 * 48))
    assert (found.before_pct, found.days) == (0.0, 2)
    assert found.low_pct == 0.0
    assert found.high_pct == 100.0  # two days that are unlike say nothing
    assert found.peak_pct == pytest.approx(130.0)


def test_days_that_are_alike_give_a_narrow_interval_and_none_without_a_squeeze() -> None:
    use = steady(2, 4, 6, steps=240)
    use[0, 120:][np.arange(120) % 24 < 6] = 7.0
    (found,) = try_emptying(recorded(use, [0, 1, 2]), (BY_USE,))
    assert (found.days, found.low_pct, found.high_pct) == (5, pytest.approx(100 / 6), pytest.approx(100 / 6))
    (calm,) = try_emptying(recorded(steady(2, 4, 6, steps=240), [0, 1, 2]), (BY_USE,))
    assert np.isnan([calm.low_pct, calm.high_pct]).all()


def test_a_rule_that_asks_for_more_empties_less() -> None:
    loud = recorded(steady(2, 4, 6), [0, 1, 2], requested=np.array([7.0, 7.0, 7.0]))
    by_requests, by_use = try_emptying(loud, (BY_REQUESTS, BY_USE))
    assert by_requests.nodes == ()
    assert by_use.nodes == (0,)


def test_the_plan_leaves_alone_what_is_more_than_half_requested_or_would_not_fit_by_use() -> None:
    requested = np.array([4.0, 4.0, 4.0])
    plan, by_requests = try_emptying(recorded(steady(8, 8, 8), [0, 1, 2], requested=requested), (PLAN, BY_REQUESTS))
    assert (plan.nodes, by_requests.nodes) == ((), (0,))  # 8 + 8 are used
    assert by_requests.squeezed_pct == pytest.approx(200 / 3)
    assert try_emptying(recorded(steady(1, 1, 1), [0, 1, 2], requested=requested), (PLAN,))[0].nodes == (0,)
    over_half = np.array([5.1, 4.0, 4.0])
    assert try_emptying(recorded(steady(1, 1, 1), [0, 1, 2], requested=over_half), (PLAN,))[0].nodes == (1,)


def test_memory_refuses_as_cpu_does() -> None:
    full = recorded(steady(1, 1, 1), [0, 1, 2], memory=steady(6, 6, 6))
    assert try_emptying(full, (BY_USE,))[0].nodes == ()
    grows = steady(3, 3, 3)
    grows[0, 84:] = 8.0
    (found,) = try_emptying(recorded(steady(1, 1, 1), [0, 1, 2], memory=grows), (BY_USE,))
    assert (found.nodes, found.overflowed) == ((0, 2), 1)  # 3 times 3 fit on one


def test_pods_that_must_stay_keep_their_node() -> None:
    kept = recorded(steady(2, 4, 6), [0, 1, 2], movable=np.array([False, True, True]))
    (found,) = try_emptying(kept, (BY_USE,))
    assert found.nodes == (1,)


def test_pods_that_come_later_go_elsewhere() -> None:
    use = steady(2, 4, 6, 3)
    use[3, :60] = np.nan
    (found,) = try_emptying(recorded(use, [0, 1, 2, 0], requested=np.array([2.0, 4.0, 6.0, 3.0])), (BY_USE,))
    assert found.nodes == (0,)
    assert (found.moved, found.overflowed, found.unplaced) == (1, 0, 0)
    use[3, 60:] = 9.0
    (found,) = try_emptying(recorded(use, [0, 1, 2, 0], requested=np.array([2.0, 4.0, 6.0, 3.0])), (BY_USE,))
    assert found.overflowed == 1


def test_pods_that_find_no_place_are_counted_and_those_that_leave_make_room() -> None:
    use = steady(5, 5, 1, 5)
    use[3, :60] = np.nan
    given = np.array([5.0, 5.0, 1.0, 5.0])
    (found,) = try_emptying(recorded(use, [0, 1, 0, 0], nodes=2, capacity=11.0, requested=given), (BY_REQUESTS,))
    assert (found.nodes, found.unplaced) == ((1,), 1)  # 5 + 1 + 5 are requested of node 0, and 5 more come
    use[1, 59:] = np.nan  # what was moved has ended by then
    (found,) = try_emptying(recorded(use, [0, 1, 0, 0], nodes=2, capacity=11.0, requested=given), (BY_REQUESTS,))
    assert (found.nodes, found.unplaced) == ((1,), 0)


def test_what_was_over_before_the_second_half_does_not_move() -> None:
    use = steady(2, 4, 6)
    use[0, 40:] = np.nan
    (found,) = try_emptying(recorded(use, [0, 1, 2]), (BY_USE,))
    assert 0 not in found.nodes


def test_figures_are_those_of_a_slow_count() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        pods, nodes = int(rng.integers(4, 12)), int(rng.integers(2, 6))
        use = rng.gamma(2.0, 1.0, (pods, 40))
        use[rng.random(use.shape) < 0.1] = np.nan
        on = rng.integers(0, nodes, pods).tolist()
        given = recorded(use, on, nodes)
        (found,) = try_emptying(given, (EmptyingRule("last day", False, LastDayPeak()),))
        hit = steps = 0
        for step in range(20, 40):
            total = [float(np.nansum(use[[at for at in range(pods) if on[at] == node], step])) for node in range(nodes)]
            for at in range(pods):
                if not np.isnan(use[at, step]):
                    steps += 1
                    hit += total[on[at]] > 10.0
        assert found.before_pct == pytest.approx(100 * hit / steps)
        assert found.steps == steps


def test_short_or_lonely_histories_give_nothing_and_bad_ones_are_refused() -> None:
    assert try_emptying(recorded(steady(1, steps=1), [0])) == ()
    assert try_emptying(recorded(steady(1), [0], nodes=1)) == ()
    with pytest.raises(InvalidInput, match="one for each of 1 pods"):
        recorded(steady(1), [0], movable=np.ones(2, np.bool_))
    with pytest.raises(InvalidInput, match="at least one"):
        RecordedPods((), np.zeros(0, np.int64), np.zeros(0, np.bool_), 1.0)
    with pytest.raises(InvalidInput, match="all resources are of the same"):
        recorded(steady(1, 2), [0, 1], memory=steady(1, 2, steps=95))
