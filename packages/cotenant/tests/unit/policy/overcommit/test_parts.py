"""Parts that the amounts of lending are made of: equal parts of zones, selectors in configurations, and sentences."""

from __future__ import annotations

import pytest

from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, Use
from cotenant.policy.nodeqos.percentages import check_percent
from cotenant.policy.overcommit.nothing_lent import why_nothing
from cotenant.policy.overcommit.selection import json_value, read_selector
from cotenant.policy.overcommit.zones import divided, over_zones


@pytest.mark.parametrize(
    ("by", "part"),
    [(1, Use(10, 7)), (2, Use(5, 4)), (3, Use(4, 3)), (20, Use(1, 1)), (0, Use(10, 7)), (-1, Use(10, 7))],
)
def test_an_equal_part_is_rounded_up(by: int, part: Use) -> None:
    assert divided(Use(10, 7), by) == part


@pytest.mark.parametrize(
    ("allocated", "parts"),
    [
        (None, [Use(5, 4), Use(5, 4)]),
        ((), [Use(5, 4), Use(5, 4)]),
        ((1,), [NO_USE, Use(10, 7)]),
        ((0,), [Use(10, 7), NO_USE]),
        ((0, 1), [Use(5, 4), Use(5, 4)]),
        ((0, 2, -1), [Use(10, 7), NO_USE]),  # others are no zones of this node
        ((2,), [Use(5, 4), Use(5, 4)]),
    ],
)
def test_each_allocated_zone_has_its_part(allocated: tuple[int, ...] | None, parts: list[Use]) -> None:
    assert over_zones(Use(10, 7), 2, allocated) == parts


def text(amount: int) -> str:
    return f"{amount}m"


def test_why_nothing_is_lent_names_the_most_first() -> None:
    terms = [("capacity", 100), ("use of prod and mid pods", -40), ("margin above 60 %", -70), ("system", -10)]
    assert why_nothing(0, terms, text) == (
        "nothing is lent: of 100m, 70m are kept free (margin above 60 %), 40m are used by prod and mid pods, "
        "10m are used by work outside of pods"
    )
    assert "reserved for the system" in why_nothing(-5, [("capacity", 9), ("reserved", -9)], text)
    assert "requested by prod and mid pods" in why_nothing(0, [("c", 9), ("requests of prod and mid pods", -9)], text)
    assert "9m are taken (something)" in why_nothing(0, [("c", 9), ("something", -9)], text)


def test_where_something_is_lent_or_nothing_taken_there_is_no_sentence() -> None:
    assert why_nothing(1, [("capacity", 9), ("system", -8)], text) == ""
    assert why_nothing(0, [("capacity", 0), ("system", 0)], text) == ""


def test_a_selector_is_read_or_absent() -> None:
    assert read_selector(None, "f") is None
    assert read_selector({}, "f") == LabelSelector.of({})
    found = read_selector(
        {
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["x", "y"]},
                {"key": "disk", "operator": "DoesNotExist"},
                {"key": "gpu", "operator": "Exists", "values": None},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
            ],
        },
        "f",
    )
    assert found is not None
    assert Requirement("zone", SelectorOperator.IN, ("x", "y")) in found.requirements
    for labels, matches in (
        ({"a": "b", "zone": "x", "gpu": ""}, True),
        ({"a": "b", "zone": "x", "gpu": "", "disk": ""}, False),
        ({"a": "b", "zone": "z", "gpu": ""}, False),
        ({"zone": "x", "gpu": ""}, False),
    ):
        assert found.matches(Labels.of(labels)) == matches


@pytest.mark.parametrize(
    ("written", "field", "expected"),
    [
        ("text", "f", "a label selector"),
        ({"matchLabels": ["a"]}, "f.matchLabels", "label keys with text values"),
        ({"matchLabels": {"a": "b", "c": 1}}, "f.matchLabels", "label keys with text values"),
        ({"matchExpressions": {"key": "a"}}, "f.matchExpressions", "a list"),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}, "text"]}, "f.matchExpressions[1]", "key, operator"),
        ({"matchExpressions": [{"key": "a", "operator": "Gt"}]}, "f.matchExpressions[0]", "key, operator"),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "f.matchExpressions[0]: ", ""),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "f.matchExpressions[0]: ", ""),
    ],
)
def test_a_selector_that_cannot_be_read_is_refused_with_its_path(written: object, field: str, expected: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_selector(written, "f")
    assert caught.value.field.startswith(field)
    assert caught.value.expected.startswith(expected)


def test_json_is_an_object() -> None:
    assert json_value("f", '{"a": 1}') == {"a": 1}
    for wrong in ("[1]", "{", ""):
        with pytest.raises(InvalidInput):
            json_value("f", wrong)


@pytest.mark.parametrize(
    ("value", "most", "is_right"),
    [
        (3, 9, True),
        (9, 9, True),
        (10, 9, False),
        (2, 9, False),
        (10, None, True),
        (2, None, False),
        (True, None, False),
        (5.0, 9, False),
        (None, 9, False),
    ],
)
def test_percentages_are_whole_numbers_of_a_range(value: object, most: int | None, is_right: bool) -> None:
    if is_right:
        check_percent("share", value, 3, most)
        return
    with pytest.raises(InvalidInput) as caught:
        check_percent("share", value, 3, most)
    assert caught.value.field == "share percent"
    assert caught.value.expected == ("a whole number, 3 or more" if most is None else "a whole number from 3 to 9")
