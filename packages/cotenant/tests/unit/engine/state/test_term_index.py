"""Terms and pods, looked up by labels: each that may fit is found once, and nothing is left of what was taken out."""

from __future__ import annotations

import pytest

from cotenant.engine.state.term_index import LabelledIndex, NamespacedTerms, TermIndex, take_out
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator

IN, EXISTS, NOT_IN = SelectorOperator.IN, SelectorOperator.EXISTS, SelectorOperator.NOT_IN


def term(*requirements: Requirement) -> PodTerm:
    return PodTerm("zone", LabelSelector(requirements))


APP_X_OR_Y = term(Requirement("app", IN, ("x", "y", "x")))
HAS_TIER = term(Requirement("tier", EXISTS))
NOT_X = term(Requirement("app", NOT_IN, ("x",)))
TERMS = {"app x or y": APP_X_OR_Y, "has tier": HAS_TIER, "not x": NOT_X}


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, ["not x"]),
        ({"app": "x"}, ["not x", "app x or y"]),  # which of them selects is decided later
        ({"app": "y"}, ["not x", "app x or y"]),
        ({"app": "z"}, ["not x"]),
        ({"tier": "x"}, ["not x", "has tier"]),
        ({"app": "x", "tier": "y"}, ["not x", "app x or y", "has tier"]),
    ],
)
def test_a_term_is_found_by_a_label_that_it_needs(labels: dict[str, str], found: list[str]) -> None:
    index = TermIndex[str]()
    assert not index
    for name, one in TERMS.items():
        index.add(one, name)
    assert list(index.candidates(Labels.of(labels))) == found


@pytest.mark.parametrize("name", TERMS)
def test_a_term_alone_makes_an_index_that_is_empty_without_it(name: str) -> None:
    index = TermIndex[str]()
    index.add(TERMS[name], name)
    assert index
    index.add(TERMS[name], "another")
    index.remove(TERMS[name], name)
    assert list(index.candidates(Labels.of({"app": "x", "tier": "y"}))) == ["another"]
    index.remove(TERMS[name], "another")
    assert not index


def test_things_are_found_by_a_needed_label_each_once() -> None:
    index = LabelledIndex[str]()
    assert not index
    things = {"one": {"app": "x"}, "two": {"app": "y", "tier": "x"}, "three": {}}
    for name, labels in things.items():
        index.add(Labels.of(labels), name)
    assert index
    assert list(index) == list(things)
    assert list(index.candidates(None)) == list(things)
    assert list(index.candidates(Requirement("app", EXISTS))) == ["one", "two"]
    assert list(index.candidates(Requirement("app", IN, ("y", "x", "y")))) == ["two", "one"]
    assert list(index.candidates(Requirement("tier", IN, ("y",)))) == []
    assert list(index.candidates(Requirement("zone", EXISTS))) == []
    for name, labels in things.items():
        index.remove(Labels.of(labels), name)
    assert not index
    assert list(index.candidates(Requirement("app", EXISTS))) == []
    assert list(index.candidates(Requirement("app", IN, ("x",)))) == []


def test_terms_are_found_in_their_namespaces() -> None:
    index = NamespacedTerms[str]()
    index.add(NOT_X, ("a", "b"), "two")
    index.add(NOT_X, ("b",), "one")
    index.add(NOT_X, None, "any")
    assert [list(index.candidates(name, Labels())) for name in ("a", "b", "c")] == [
        ["two", "any"],
        ["two", "one", "any"],
        ["any"],
    ]
    index.remove(NOT_X, ("a", "b"), "two")
    assert [list(index.candidates(name, Labels())) for name in ("a", "b")] == [["any"], ["one", "any"]]
    index.remove(NOT_X, None, "any")
    index.remove(NOT_X, ("b",), "one")
    assert list(index.candidates("b", Labels())) == []


def test_a_key_goes_with_its_last_value() -> None:
    index: dict[str, dict[int, None]] = {"a": {1: None, 2: None}}
    take_out(index, "a", 1)
    assert index == {"a": {2: None}}
    take_out(index, "a", 2)
    assert index == {}
