"""Who goes for a resize in place."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from cotenant.policy.placement.resize_room import ResizeCandidate, resize_victims


def resident(
    name: str, cpu_m: int = 1000, importance: int = 0, memory: int = 0, started_s: float = 1.0
) -> ResizeCandidate:
    return ResizeCandidate(name, cpu_m, memory, importance, started_s)


def anybody(chosen: Sequence[ResizeCandidate]) -> bool:
    return True


def names(short_cpu_m: int, *residents: ResizeCandidate, short_bytes: int = 0) -> set[str]:
    return {one.uid for one in resize_victims(short_cpu_m, short_bytes, residents, anybody)}


def test_the_least_important_goes_and_of_those_the_youngest() -> None:
    assert names(800, resident("a", importance=5), resident("b"), resident("c", started_s=9.0)) == {"c"}
    assert names(800, resident("a"), resident("b", started_s=inf)) == {"b"}


def test_who_is_not_needed_stays_the_most_important_first() -> None:
    small, large = resident("small", 300), resident("large", 2000, importance=1)
    assert names(1500, small, large) == {"large"}


def test_nobody_goes_where_all_together_are_not_enough_or_nothing_is_short() -> None:
    assert names(3000, resident("a"), resident("b")) == set()
    assert names(0, resident("a")) == set()


def test_a_pod_that_frees_nothing_of_what_is_short_stays() -> None:
    assert names(0, resident("cpu", 4000), resident("memory", 0, memory=5), short_bytes=4) == {"memory"}


def test_where_one_may_go_the_larger_is_tried_after_the_least_important() -> None:
    residents = [resident("small", 300), resident("large", 2000, importance=1)]
    found = resize_victims(1500, 0, residents, lambda chosen: len(chosen) <= 1)
    assert [one.uid for one in found] == ["large"]
