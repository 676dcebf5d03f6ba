"""Gangs that name one another: which must be satisfied together, and which are evaluated together."""

from __future__ import annotations

from cotenant.model.cluster.labels import NO_LABELS
from cotenant.model.groups.gang import GangNotes
from cotenant.policy.placement.gangs.bundles import MAX_NAMED, MAX_REACHED, bundle, reach
from cotenant.policy.placement.gangs.spec import from_pod

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


def test_of_a_long_row_the_nearest_count() -> None:
    row = {f"g{i:03}": (f"g{i + 1:03}",) for i in range(500)}
    assert reach("g000", row) == {f"g{i:03}" for i in range(MAX_REACHED)}
    assert reach("g490", row) == {f"g{i:03}" for i in range(490, 501)}


def test_a_gang_names_so_many_others_and_says_what_does_not_count() -> None:
    def spec_of(count: int) -> tuple[tuple[str, ...], str]:
        notes = GangNotes("g1", min_available=1, groups=tuple(f"ns/g{i}" for i in range(count)))
        spec, messages = from_pod("ns/g1", NO_LABELS, notes)
        assert spec is not None
        return spec.groups, " ".join(messages)

    assert spec_of(MAX_NAMED) == (tuple(f"ns/g{i}" for i in range(MAX_NAMED)), "")
    groups, said = spec_of(MAX_NAMED + 100)
    assert len(groups) == MAX_NAMED
    assert "ns/g1" in groups
    assert said == f"it names {MAX_NAMED + 100} gangs to be placed together: the first {MAX_NAMED} count"
