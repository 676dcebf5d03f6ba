from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.assess.history import Float32
from cotenant.model.errors import InvalidInput
from cotenant.policy.assess.emptying import RecordedPods, try_emptying
from cotenant.policy.assess.predictor import OneByOne, Past, flat
from cotenant.policy.assess.rivals import LastDayPeak, Requests
from cotenant.policy.assess.rows import quantiles


class Highest(OneByOne):
    """What was used at most."""

    name = "highest"

    def below(self, past: Past, horizon: int, risk: float) -> Float32:
        return flat(quantiles(past.use, 1.0), horizon)


def recorded(pods: np.ndarray, on: list[int], nodes: int = 3, capacity: float = 10.0, **more: object) -> RecordedPods:
    """Pods on nodes that nothing else runs on; they request 5 each."""
    total = np.zeros((nodes, pods.shape[1]))
    for use, node in zip(pods, on, strict=True):
        total[node] += np.nan_to_num(use)
    given = {"movable": np.ones(len(pods), np.bool_), "requested": np.full(len(pods), 5.0)} | more
    return RecordedPods(
        total.astype(np.float32),
        pods.astype(np.float32),
        np.array(on, np.int64),
        capacity=np.full(nodes, capacity),
        step_s=3600.0,
        **given,  # type: ignore[arg-type]
    )


def steady(*amounts: float, steps: int = 96) -> np.ndarray:
    return np.repeat(np.array(amounts, np.float64)[:, None], steps, axis=1)


def test_without_growth_nothing_is_squeezed() -> None:
    (found,) = try_emptying(recorded(steady(2, 4, 6), [0, 1, 2]), (Highest(),))
    assert (found.nodes, found.moved) == ((0,), 1)  # 2 beside the 4; the node that took it in stays
    assert (found.squeezed_pct, found.overflowed) == (0.0, 0)
    (by_requests,) = try_emptying(recorded(steady(2, 4, 6), [0, 1, 2]), (Requests(),))
    assert by_requests.nodes == (0,)


def test_growth_of_the_second_half_squeezes_who_shares_the_node() -> None:
    use = steady(2, 4, 6)
    use[0, 84:] = 7.0  # 7 + 4 > 10 in the last quarter of the second half
    (found,) = try_emptying(recorded(use, [0, 1, 2]), (Highest(),))
    assert found.nodes == (0,)
    assert found.overflowed == 1
    assert found.squeezed_pct == pytest.approx(100 * 2 * 12 / (3 * 48))
    assert found.before_pct == 0.0


def test_a_rule_that_asks_for_more_empties_less() -> None:
    loud = recorded(steady(2, 4, 6), [0, 1, 2], requested=np.array([7.0, 7.0, 7.0]))
    by_requests, by_use = try_emptying(loud, (Requests(), Highest()))
    assert by_requests.nodes == ()
    assert by_use.nodes == (0,)


def test_pods_that_must_stay_keep_their_node() -> None:
    kept = recorded(steady(2, 4, 6), [0, 1, 2], movable=np.array([False, True, True]))
    (found,) = try_emptying(kept, (Highest(),))
    assert 0 not in found.nodes


def test_pods_that_come_later_go_elsewhere() -> None:
    use = steady(2, 4, 6, 3)
    use[3, :60] = np.nan
    (found,) = try_emptying(recorded(use, [0, 1, 2, 0]), (Highest(),))
    assert found.nodes == (0,)
    assert (found.moved, found.overflowed) == (1, 0)
    use[3, 60:] = 9.0
    (found,) = try_emptying(recorded(use, [0, 1, 2, 0]), (Highest(),))
    assert found.overflowed == 1


def test_figures_are_those_of_a_slow_count() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        pods, nodes = int(rng.integers(4, 12)), int(rng.integers(2, 6))
        use = rng.gamma(2.0, 1.0, (pods, 40))
        use[rng.random(use.shape) < 0.1] = np.nan
        on = rng.integers(0, nodes, pods).tolist()
        given = recorded(use, on, nodes)
        (found,) = try_emptying(given, (LastDayPeak(),))
        hit = steps = 0
        for step in range(20, 40):
            total = [float(np.nansum(use[[at for at in range(pods) if on[at] == node], step])) for node in range(nodes)]
            for at in range(pods):
                if not np.isnan(use[at, step]):
                    steps += 1
                    hit += total[on[at]] > 10.0
        assert found.before_pct == pytest.approx(100 * hit / steps)


def test_short_or_lonely_histories_give_nothing_and_bad_ones_are_refused() -> None:
    assert try_emptying(recorded(steady(1, steps=1), [0])) == ()
    assert try_emptying(recorded(steady(1), [0], nodes=1)) == ()
    with pytest.raises(InvalidInput, match="one for each of 1 pods"):
        recorded(steady(1), [0], movable=np.ones(2, np.bool_))
