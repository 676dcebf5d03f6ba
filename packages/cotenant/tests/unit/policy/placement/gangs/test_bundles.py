"""Gangs that name one another: which must be satisfied together, and which are evaluated together."""

from __future__ import annotations

from cotenant.policy.placement.gangs.bundles import bundle, reach

LINKS = {"a": ("a", "b"), "b": ("b", "c"), "c": ("c",), "d": ("d", "e"), "e": ("d",)}


def test_links_are_followed_through_other_gangs() -> None:
    assert reach("a", LINKS) == {"a", "b", "c"}
    assert reach("b", LINKS) == {"b", "c"}
    assert reach("alone", LINKS) == {"alone"}


def test_only_gangs_that_reach_each_other_are_evaluated_together() -> None:
    assert bundle("a", LINKS) == ("a",)
    assert bundle("e", LINKS) == ("d", "e")


def test_a_circle_of_three_is_one_bundle() -> None:
    circle = {"a": ("b",), "b": ("c",), "c": ("a",)}
    assert [bundle(key, circle) for key in "abc"] == [("a", "b", "c")] * 3
