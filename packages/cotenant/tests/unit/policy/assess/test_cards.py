"""Cards that are used and that could be shared, and a day's energy, against sums by hand."""

from __future__ import annotations

from math import nan

import pytest

from cotenant.model.assess.meters import NOT_ASKED, CardUse, CardUses
from cotenant.policy.assess.cards import energy_a_day, shareable_cards, used_cards

QUIET = (20.0, 30.0)
BUSY = (20.0, 90.0)


def card(name: str, p99: tuple[float, ...], node: str = "a", memory: float | None = None, pod: str = "") -> CardUse:
    return CardUse(node, name, (10.0, 30.0), p99, memory, pod)


def uses(*cards: CardUse, names_pods: bool = False) -> CardUses:
    return CardUses(cards, "a test", "", names_pods)


def test_without_a_source_there_is_no_figure() -> None:
    for figure in (used_cards("gpu", CardUses()), shareable_cards("gpu", CardUses(), {})):
        assert figure.value is None
        assert figure.why == NOT_ASKED


def test_used_is_the_mean_of_the_days_sums() -> None:
    two = used_cards("gpu", uses(card("1", QUIET), card("2", QUIET)))
    assert (two.value, two.low) == (pytest.approx(0.4), None)
    assert "2 days are known" in two.interval
    days = (10.0, 20.0, nan, 60.0)
    three = used_cards("gpu", uses(CardUse("a", "1", days, days), CardUse("a", "2", days, days)))
    assert (three.value, three.low, three.high) == (pytest.approx(0.6), pytest.approx(0.2), pytest.approx(1.2))
    nothing = used_cards("gpu", uses(CardUse("a", "1", (nan,), (nan,))))
    assert nothing.value is None


@pytest.mark.parametrize(
    ("cards", "whole", "low", "high"),
    [
        ([card("1", QUIET), card("2", BUSY)], {"a": 2}, 1, 1),  # all are allocated
        ([card("1", QUIET), card("2", BUSY)], {"a": 1}, 0, 1),  # the quiet one may be the free one
        ([card("1", QUIET), card("2", QUIET)], {"a": 1}, 1, 1),
        ([card("1", QUIET), card("2", QUIET)], {}, 0, 0),
        ([card("1", QUIET, memory=80.0)], {"a": 1}, 0, 0),  # its memory is full
        ([card("1", (nan, nan))], {"a": 1}, 0, 0),  # nothing is known of it
        ([card("1", QUIET), card("2", QUIET, "b")], {"a": 1, "b": 1}, 2, 2),
    ],
)
def test_which_quiet_cards_are_allocated_may_be_a_range(
    cards: list[CardUse], whole: dict[str, int], low: int, high: int
) -> None:
    found = shareable_cards("gpu", uses(*cards), whole)
    assert (found.value, found.low, found.high) == (low, low, high)


def test_where_pods_are_named_it_is_a_count() -> None:
    found = shareable_cards("gpu", uses(card("1", QUIET, pod="s/p"), card("2", QUIET), names_pods=True), {})
    assert (found.value, found.low) == (1, None)


def test_energy_is_in_kwh_and_of_days_that_are_known() -> None:
    assert energy_a_day([]) is None
    assert energy_a_day([(nan, nan)]) is None
    assert energy_a_day([(3.6e6, nan, 7.2e6), (3.6e6, nan, nan)]) == (2.0, 2.0, 2.0, 2)
