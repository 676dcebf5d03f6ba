"""Numbers of objects by expressions in one line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.object_number import MAX_ELEMENTS, MAX_LENGTH, ObjectNumber

LISTED = {"spec": {"jobs": [{"replicas": 2, "size": 3}, {"size": 5}], "map": {"a": {"n": 1}, "b": {"n": 4}}}}


@pytest.mark.parametrize(
    ("text", "obj", "number"),
    [
        ("3", {}, 3),
        ("1 + 2 * 3", {}, 7),
        ("(1 + 2) * 3", {}, 9),
        ("spec.replicas", {"spec": {"replicas": 4}}, 4),
        ("spec.replicas", {"spec": {}}, None),
        ("spec.replicas|1", {"spec": {"replicas": None}}, 1),
        ("spec.replicas|1", {"spec": {"replicas": "4"}}, None),
        ("spec.replicas|1", None, 1),
        ("spec.replicas", {"spec": {"replicas": -4}}, 0),
        ("spec.suspend|0", {"spec": {"suspend": True}}, 1),
        ("spec.jobs[replicas|1 * size]", LISTED, 11),
        ("1 + spec.map[n]", LISTED, 6),
        ("spec.jobs[replicas]", LISTED, None),
        ("spec.absent[replicas]", LISTED, 0),
        ("spec.jobs", LISTED, None),
        ("spec.jobs[replicas?]", LISTED, 1),
        ("spec.jobs? * 2", LISTED, 2),
        ("min(spec.jobs[size], 7)", LISTED, 7),
        ("2 * spec.mode == Halted", {"spec": {"mode": "Halted"}}, 2),
        ("2 * spec.mode != Halted", {"spec": {"mode": "Halted"}}, 0),
        ("spec.mode != Halted", {}, 1),
        ("spec.jobs[replicas?] == 0", LISTED, 0),
        ('2 * metadata.annotations."a.b/c-d"? == 0', {"metadata": {"annotations": {"a.b/c-d": "rack"}}}, 0),
        ('2 * metadata.annotations."a.b/c-d"? == 0', {"metadata": {"annotations": {"a": "rack"}}}, 2),
        ('spec."a.b/c".d', {"spec": {"a.b/c": {"d": 4}}}, 4),
        ("spec.jobs[size]", {"spec": {"jobs": [{"size": 1}] * (MAX_ELEMENTS + 1)}}, None),
    ],
)
def test_a_number(text: str, obj: Any, number: int | None) -> None:
    assert ObjectNumber(text).of(obj) == number


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "a value is missing at the end"),
        ("1 +", "a value is missing at the end"),
        ("1 2", "2 cannot stand there"),
        ("* 2", "* cannot stand there"),
        ("spec.a|b", "a default is a whole number"),
        ("spec[1", "] is missing at the end"),
        ("min(1)", ", is missing before )"),
        ("spec.a == *", "a word or a number"),
        ("a; b", "is none of it"),
        ('"a.b".c', "is none of it"),
        ('spec."a b"', "is none of it"),
        ('spec.""', "is none of it"),
        ("__import__('os')", "is none of it"),
        ("(" * 20 + "1" + ")" * 20, "levels"),
        ("1+" * MAX_LENGTH + "1", "at most"),
    ],
)
def test_text_that_is_none(text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ObjectNumber(text, "replicas")
    assert hint in str(caught.value)


@given(st.text(alphabet='ab.01[]()|?*+=! ,min"/', max_size=30))
def test_any_text_is_a_number_or_a_message(text: str) -> None:
    try:
        parsed = ObjectNumber(text)
    except InvalidInput:
        return
    found = parsed.of(LISTED)
    assert found is None or found >= 0
