from __future__ import annotations

import pytest

from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.errors import InvalidInput

IN, NOT_IN, EXISTS, ABSENT, GT, LT = SelectorOperator


def test_labels_are_sorted_unique_text() -> None:
    assert Labels((("b", "2"), ("a", "1"))) == Labels.of({"a": "1", "b": "2"})
    assert Labels.of({"a": "1"}).get("a") == "1"
    assert Labels.of({"a": "1"}).get("b") is None
    with pytest.raises(InvalidInput, match="each key once"):
        Labels((("a", "1"), ("a", "2")))
    with pytest.raises(InvalidInput, match="quote numbers"):
        Labels.of({"a": 1})  # type: ignore[dict-item]


def test_a_node_selector_asks_for_every_pair() -> None:
    node = Labels.of({"disk": "ssd", "zone": "a"})
    assert node.contains(Labels.of({"disk": "ssd"}))
    assert node.contains(Labels())
    assert not node.contains(Labels.of({"disk": "ssd", "zone": "b"}))


def test_long_lists_are_looked_up_as_short_ones_are() -> None:
    many = Labels.of({f"k{i}": f"v{i}" for i in range(100)})
    assert [many.get(key) for key in ("k0", "k42", "k99", "k", "k100", "a", "z")] == ["v0", "v42", "v99", *[None] * 4]
    assert many.contains(Labels.of({"k7": "v7"}))
    assert not many.contains(Labels.of({"k7": "v8"}))
    assert not Labels.of({"k7": "v7"}).contains(many)
    values = tuple(f"v{i}" for i in range(100))
    assert [Requirement("k", IN, values).holds_for(value) for value in ("v0", "v99", "w", None)] == [
        True,
        True,
        False,
        False,
    ]
    assert [Requirement("k", NOT_IN, values).holds_for(value) for value in ("v0", "v99", "w", None)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("operator", "values", "matching", "other"),
    [
        (IN, ("a", "b"), ["a", "b"], ["c", "", None]),
        (NOT_IN, ("a", "b"), ["c", "", None], ["a", "b"]),
        (EXISTS, (), ["a", ""], [None]),
        (ABSENT, (), [None], ["a", ""]),
        (
            GT,
            ("4",),
            ["5", "+05", "9223372036854775807"],
            ["4", "3", "-9", "x", "", "5.5", "9223372036854775808", None],
        ),
        (LT, ("4",), ["3", "-9"], ["4", "5", "x", "", None]),
    ],
)
def test_every_operator(
    operator: SelectorOperator, values: tuple[str, ...], matching: list[str], other: list[str]
) -> None:
    requirement = Requirement("key", operator, values)
    assert all(requirement.holds_for(value) for value in matching)
    assert not any(requirement.holds_for(value) for value in other)
    assert requirement.matches(Labels()) == (None in matching)


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        (IN, ()),
        (NOT_IN, ()),
        (EXISTS, ("a",)),
        (ABSENT, ("a",)),
        (GT, ()),
        (GT, ("1", "2")),
        (LT, ("1.5",)),
        (GT, ("9" * 30,)),
    ],
)
def test_expressions_that_mean_nothing_are_refused(operator: SelectorOperator, values: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="expression on 'key'"):
        Requirement("key", operator, values)


def test_selectors_over_pods() -> None:
    selector = LabelSelector.of({"app": "web"}, [Requirement("tier", NOT_IN, ("canary",))])
    assert selector.matches(Labels.of({"app": "web"}))
    assert not selector.matches(Labels.of({"app": "web", "tier": "canary"}))
    assert LabelSelector().matches(Labels())
    with pytest.raises(InvalidInput):
        LabelSelector((Requirement("key", GT, ("1",)),))
