"""The way out of a deadlock of gangs that hold nodes: which one gives its nodes back, and for which."""

from __future__ import annotations

from cotenant.policy.placement.gangs.deadlock import HoldingGang, Way, give_way


def holder(key: str, priority: int = 0, created_s: float = 0.0, stuck: bool = True, needs: str = "") -> HoldingGang:
    return HoldingGang(key, priority, created_s, stuck, frozenset(needs))


def test_the_least_important_gang_yields_to_the_most_important_one() -> None:
    assert give_way([holder("a", 1), holder("b", 3), holder("c", 2)]) == Way("a", "b")


def test_of_equally_important_gangs_the_youngest_yields_to_the_oldest() -> None:
    assert give_way([holder("a", created_s=2.0), holder("b", created_s=3.0), holder("c", created_s=1.0)]) == Way(
        "b", "c"
    )


def test_while_one_gang_may_still_complete_none_yields() -> None:
    assert give_way([holder("a"), holder("b", stuck=False)]) is None


def test_a_gang_that_is_alone_keeps_its_nodes() -> None:
    assert give_way([holder("a")]) is None


def test_a_gang_never_yields_to_one_that_needs_it() -> None:
    chain = [holder("a", 2, needs="ab"), holder("b", 1, needs="b")]
    assert give_way(chain) == Way("a", "b")
    assert give_way([*chain, holder("c", 1, created_s=9.0, needs="c")]) == Way("c", "a")


def test_gangs_that_need_one_another_keep_their_nodes() -> None:
    assert give_way([holder("a", needs="ab"), holder("b", needs="ab")]) is None
