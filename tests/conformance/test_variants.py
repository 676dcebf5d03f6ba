"""Adapters against changed cases: what a case says is read or refused by name, whatever it is and wherever it stands.

The cases are those of `COTENANT_CONFORMANCE`, one of each kind, each with one change: a key that nobody knows, a field
set to null, left out, or of another value, or of the value that it has in another case. An adapter that passed over a
field would let a case assert something else than its file says; one that ends with an error of its own would not say
what it cannot read.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.reading import Unreadable, no_matter, one_of, plain, recorded, switches, unread
from tests.conformance.test_conformance import FOLDER, Case, compare, load_kinds, read_cases

KINDS = load_kinds(Path(__file__).with_name("kinds"))
MIXED = 60  # cases of a kind
# Mappings whose keys are the files' own vocabulary. Those of others are names of resources, labels, or a document's.
STRUCTURES = (
    *("allocated", "args", "assigned", "assigned_pods", "child", "children", "config", "devices", "existing", "gates"),
    *("gang", "gangs", "jobs", "marks", "metrics", "node", "node_configs", "node_metric", "nodes", "parent", "pod"),
    *("pods", "pools", "previous", "processors", "profiles", "query", "quota", "quotas", "reservation", "source"),
    *("spec", "steps", "strategy", "targets", "thresholds", "topology", "window_avg", "workload"),
)
DOCUMENTS = {("colocation_disabled", "config"), ("strategy_valid", "strategy"), ("node_prepare", "node")}

Place = tuple[str | int, ...]


def _cases() -> Iterator[Any]:
    """The first case of every kind."""
    found: dict[str, Case] = {}
    for path in sorted(FOLDER.glob("*.json")) if FOLDER.is_dir() else ():
        for case in read_cases(path):
            if case.kind in KINDS:
                found.setdefault(case.kind, case)
    if not found:
        skip = pytest.mark.skip(reason="no conformance cases; name their folder in COTENANT_CONFORMANCE")
        yield pytest.param(None, marks=skip, id="no-cases")
    for kind, case in found.items():
        yield pytest.param(case, id=kind)


CASES = list(_cases())


def _places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Every key of every mapping; of a list, those of its first entry."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield (*path, key)
            yield from _places(entry, (*path, key))
    elif isinstance(value, list) and value:
        if isinstance(value[0], dict):
            yield (*path, 0)
        yield from _places(value[0], (*path, 0))


def _is_structure(kind: str, path: Place) -> bool:
    name = [key for key in path if isinstance(key, str)][-1]
    below_document = any((kind, key) in DOCUMENTS for key in path) or "patch" in path or "object" in path
    return name in STRUCTURES and not below_document


def _changed(case: Case, path: Place, value: Any = None, *, left_out: bool = False) -> Case:
    given = copy.deepcopy(case.given)
    into: Any = given
    for key in path[:-1]:
        into = into[key]
    into[path[-1]] = value
    if left_out:
        del into[path[-1]]
    return case._replace(given=given)


def _another(case: Case, path: Place) -> Any:
    """Another value of the same type."""
    value: Any = case.given
    for key in path:
        value = value[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 7
    return "a word" if isinstance(value, str) else [] if isinstance(value, list) else {}


def _complaint(case: Case) -> str:
    """What the runner says of a case; empty = it holds. Any error but a failed case ends the test."""
    try:
        compare(case, KINDS[case.kind])
    except AssertionError as error:
        return str(error) or "an assertion of the adapter"
    return ""


@pytest.mark.parametrize("case", CASES)
def test_a_key_that_nobody_knows_is_named(case: Case) -> None:
    for path in ((), *_places(case.given)):
        if isinstance(_at(case.given, path), dict) and (not path or _is_structure(case.kind, path)):
            assert "unheard_of" in _complaint(_changed(case, (*path, "unheard_of"), 1)), path


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_whatever_a_field_is_the_case_holds_or_fails_with_its_name(case: Case) -> None:
    for path in _places(case.given):
        for said in (
            _complaint(_changed(case, path)),
            _complaint(_changed(case, path, left_out=True)),
            _complaint(_changed(case, path, _another(case, path))),
        ):
            assert not said or said.startswith((f"{case.file}::{case.name}", "an assertion")), said


def _at(value: Any, path: Place) -> Any:
    for key in path:
        value = value[key]
    return value


def _siblings() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for path in sorted(FOLDER.glob("*.json")) if FOLDER.is_dir() else ():
        for case in read_cases(path):
            if case.kind in KINDS:
                found.setdefault(case.kind, []).append(case)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_case_with_values_of_its_siblings_leaves_nothing_unread(case: Case) -> None:
    """Another answer is another branch of the adapter; each reads all keys that cases of its kind have."""
    draw, siblings = random.Random(case.kind), _siblings()[case.kind]
    seen: dict[Place, list[Any]] = {}
    for sibling in siblings:
        for path in _places(sibling.given):
            seen.setdefault(path, []).append(_at(sibling.given, path))
    for _ in range(MIXED):
        mixed = draw.choice(siblings)
        path = draw.choice(list(_places(mixed.given)) or [()])
        if path:
            mixed = _changed(mixed, path, draw.choice([*seen[path], None]))
        said = _complaint(mixed)
        assert ": not read: " not in said, f"{said}\n{path}: {_at(mixed.given, path)!r}"


GIVEN = {"name": "a", "pod": {"qos": "LS", "uses": [{"cpu": 1}, {"cpu": 2}]}, "gates": {"new_rule": True}, "none": None}


def test_only_what_was_read_counts_as_read() -> None:
    given = recorded(GIVEN)
    assert unread(given) == ["name", "pod", "gates", "none"]
    assert given["name"] == "a"
    assert "none" in given  # to look whether a key is there is not to read it
    assert given["pod"]["uses"][0]["cpu"] == 1
    assert unread(given) == ["pod.qos", "pod.uses[1].cpu", "gates", "none"]


def test_null_and_absent_are_not_set() -> None:
    given = recorded(GIVEN)
    assert given["none"] is given["absent"] is None
    assert given.get("none", 3) == given.get("absent", 3) == 3
    assert given.get("none", {})["key"] is None, "nor are the keys of a map that is not set"
    assert given.get("absent", given) is given
    assert unread(given) == ["name", "pod", "gates"]


def test_a_document_is_read_as_a_whole_and_what_plays_no_part_is_named() -> None:
    given = recorded(GIVEN)
    assert plain(given["pod"]) == GIVEN["pod"]
    no_matter(given, "name", "none")
    assert unread(given) == ["gates"]
    assert dict(**given["gates"]) == {"new_rule": True}
    assert unread(given) == []


def test_words_and_gates_that_are_not_known_are_refused() -> None:
    given = recorded(GIVEN)
    with pytest.raises(Unreadable, match="name is 'a', not one of b, c"):
        one_of(given, "name", ("b", "c"))
    with pytest.raises(Unreadable, match="the gate 'new_rule' is not one of old_rule"):
        switches(given["gates"], "old_rule")
    assert switches(given["gates"], "new_rule", "old_rule") == {"new_rule": True, "old_rule": False}
