"""Counted work tells a square from a line."""

from __future__ import annotations

from tests.fakes.work import Counted, is_linear, work


def numbers(size: int) -> list[Counted]:
    return [Counted(at) for at in range(size)]


def test_once_over_its_input_is_linear() -> None:
    assert is_linear(lambda size: work(lambda: [name.upper() for name in numbers(size)]), 100)
    assert is_linear(lambda size: work(lambda: dict.fromkeys(numbers(size))), 100)


def test_a_loop_in_a_loop_is_not() -> None:
    def pairs(names: list[Counted]) -> int:
        found = 0
        for _ in names:
            for _ in names:
                found += 1
        return found

    assert not is_linear(lambda size: work(lambda: pairs(numbers(size))), 100)


def test_a_search_of_a_list_in_a_loop_is_not() -> None:
    def found(names: list[Counted]) -> list[bool]:
        return [Counted(name + "x") in names for name in names]

    assert not is_linear(lambda size: work(lambda: found(numbers(size))), 100)


def test_finalizers_of_garbage_are_not_counted() -> None:
    class Finalized:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            self.cycle = None

    def lists() -> int:
        return work(lambda: [[] for _ in range(5000)])  # as many as start a collection

    alone = lists()
    for _ in range(100):
        Finalized()
    assert lists() == alone
