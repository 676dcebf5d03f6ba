"""A difference applied to the first document gives the second, whatever both are; so it always applies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonpatch import JsonPatch
from tests.property.few import examples, first_cases

from cotenant.policy.admission.differences import difference
from cotenant.policy.admission.documents import copied

_KEYS = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "kubernetes.io/batch-cpu", "0", "-", "é"])
_LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0]) | st.sampled_from(["", "1", "x"])
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=6
)
_DOCUMENTS = st.dictionaries(_KEYS, _VALUES, max_size=3)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)  # tells 1, 1.0 and true apart


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_DOCUMENTS, _DOCUMENTS)
def test_a_difference_applies_and_gives_the_second_document(before: dict[str, Any], after: dict[str, Any]) -> None:
    kept = _text(before), _text(after)
    operations = json.loads(json.dumps(difference(before, after)))
    assert _text(JsonPatch(operations).apply(before)) == _text(after)
    assert (_text(before), _text(after)) == kept


@given(_DOCUMENTS)
def test_equal_documents_have_no_difference(document: dict[str, Any]) -> None:
    assert difference(document, copied(document)) == []


def test_a_new_annotation_brings_its_absent_parents() -> None:
    after = {"metadata": {"annotations": {"a/b": "1"}}}
    assert difference({"metadata": {}}, after) == [
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "1"}}
    ]
    assert difference({"metadata": {"annotations": None}}, after)[0]["op"] == "replace"
    assert difference({"metadata": {"annotations": {}}}, after)[0]["path"] == "/metadata/annotations/a~1b"


test_first_cases = first_cases(
    test_a_difference_applies_and_gives_the_second_document,
    most=3,
)
