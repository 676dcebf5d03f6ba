"""How fast a number of replicas may change, by tables and against every past that a short window can have."""

from __future__ import annotations

from itertools import product

import pytest

from cotenant_local.controllers.views.autoscaling import Behavior, ScalingPolicy, ScalingRules
from cotenant_local.controllers.workloads.scaling_pace import At, ScalingHistory, paced

NOW_S = 10_000.0
AT_ONCE = ScalingRules(0, "Max", (ScalingPolicy("Percent", 100, 15),))


def after(current: int, wanted: int, behavior: Behavior, history: ScalingHistory | None = None, most: int = 100) -> int:
    history = history or ScalingHistory()
    history.recommend(NOW_S, wanted)
    return paced(current, wanted, (1, most), behavior, history, NOW_S).replicas


@pytest.mark.parametrize(
    ("current", "wanted", "found"), [(1, 50, 5), (4, 50, 8), (10, 50, 20), (10, 15, 15), (90, 500, 100)]
)
def test_by_default_it_grows_by_four_or_to_the_double(current: int, wanted: int, found: int) -> None:
    assert after(current, wanted, Behavior()) == found


def test_by_default_it_shrinks_to_the_largest_of_five_minutes() -> None:
    history = ScalingHistory([At(NOW_S - 301, 90), At(NOW_S - 299, 30), At(NOW_S - 10, 20)])
    found = paced(50, 10, (1, 100), Behavior(), history, NOW_S)
    assert (found.replicas, found.able[0]) == (30, "ScaleDownStabilized")
    assert after(50, 10, Behavior(), ScalingHistory([At(NOW_S - 301, 90)])) == 10


def test_what_changed_within_the_period_counts_against_the_next_change() -> None:
    rules = ScalingRules(0, "Max", (ScalingPolicy("Pods", 4, 60),))
    grown = ScalingHistory(changes=[At(NOW_S - 61, 10), At(NOW_S - 30, 3)])
    assert after(10, 50, Behavior(scale_up=rules), grown) == 11
    shrunk = ScalingHistory(changes=[At(NOW_S - 30, -3)])
    assert after(10, 1, Behavior(scale_down=rules), shrunk) == 9
    assert after(10, 50, Behavior(scale_up=rules), ScalingHistory(changes=[At(NOW_S - 30, 9)])) == 10  # never backwards


@pytest.mark.parametrize(("select", "up", "down"), [("Max", 15, 5), ("Min", 12, 8), ("Disabled", 10, 10)])
def test_of_several_policies_one_is_chosen(select: str, up: int, down: int) -> None:
    rules = ScalingRules(0, select, (ScalingPolicy("Pods", 2, 60), ScalingPolicy("Percent", 50, 60)))
    assert (after(10, 99, Behavior(scale_up=rules)), after(10, 1, Behavior(scale_down=rules))) == (up, down)


def test_what_holds_it_back_is_said() -> None:
    history = ScalingHistory()
    said = [
        paced(current, wanted, bounds, behavior, history, NOW_S).limited[0]
        for current, wanted, bounds, behavior in (
            (5, 6, (1, 10), Behavior()),
            (9, 30, (1, 10), Behavior()),
            (1, 30, (1, 100), Behavior()),
            (5, 1, (3, 10), Behavior(scale_down=AT_ONCE)),
            (5, 1, (1, 10), Behavior(scale_down=ScalingRules(0, "Max", (ScalingPolicy("Pods", 1, 60),)))),
        )
    ]
    assert said == ["", "TooManyReplicas", "ScaleUpLimit", "TooFewReplicas", "ScaleDownLimit"]


def test_windows_against_every_short_past() -> None:
    """It grows to what all of the upward window asked for, and shrinks to what none of the downward one passed."""
    free = ScalingRules(60, "Max", (ScalingPolicy("Pods", 1000, 15),))
    behavior = Behavior(free, ScalingRules(120, "Max", (ScalingPolicy("Pods", 1000, 15),)))
    ages = (0.0, 59.0, 60.0, 119.0, 120.0)
    for current, *past in product((2, 5), *[(1, 2, 4, 7)] * len(ages)):
        history = ScalingHistory([At(NOW_S - age, replicas) for age, replicas in zip(ages, past, strict=True)])
        wanted = past[0]
        found = paced(current, wanted, (1, 100), behavior, history, NOW_S).replicas
        low, high = min(past[:2]), max(past[:4])
        expected = low if current < low else high if current > high else current
        assert found == expected


def test_a_history_is_bounded_to_the_widest_window() -> None:
    history = ScalingHistory()
    for second in range(0, 8000, 100):
        history.recommend(float(second), 1)
        history.changed(float(second), 1)
    assert len(history.recommended) == len(history.changes) == 36
