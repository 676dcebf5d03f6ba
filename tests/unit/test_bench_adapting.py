"""What knowing the law is worth: chosen on one table, reported on another."""

from __future__ import annotations

from bench.adapting import chosen, worth

LAWS, POINTS = ("calm", "rough"), ("a", "b")
TUNING = {("calm", "a"): [1.0, 1.0], ("calm", "b"): [2.0, 2.0], ("rough", "a"): [9.0, 9.0], ("rough", "b"): [4.0, 4.0]}


def test_the_fixed_point_is_the_best_over_all_laws_and_told_ones_are_the_best_of_each() -> None:
    assert chosen(TUNING, POINTS, LAWS) == "b"
    fixed, told, by_law, over_all = worth(TUNING, TUNING, POINTS, LAWS)
    assert (fixed, told) == ("b", {"calm": "a", "rough": "b"})
    assert (by_law["calm"].mean, by_law["rough"].mean) == (1.0, 0.0)
    assert over_all.mean == 0.5


def test_what_was_chosen_may_lose_on_other_seeds() -> None:
    reported = {**TUNING, ("calm", "a"): [3.0, 3.0]}
    _, told, by_law, _ = worth(TUNING, reported, POINTS, LAWS)
    assert told["calm"] == "a"
    assert by_law["calm"].mean == -1.0


def test_of_equal_points_the_first_is_taken() -> None:
    assert chosen({("calm", "a"): [1.0], ("calm", "b"): [1.0]}, POINTS, ("calm",)) == "a"
