"""Label and field selectors."""

from __future__ import annotations

import pytest

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.selectors import label_selector, parse_fields, parse_labels


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": "1"}, False),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a=", {"a": ""}, True),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2),b", {"a": "2"}, False),
        ("a notin (1,2)", {}, True),
        ("a notin (1,2)", {"a": "1"}, False),
        ("n>5", {"n": "6"}, True),
        ("n<5", {"n": "x"}, False),
        ("example.com/a-b=c.d_e , x in ()", {"example.com/a-b": "c.d_e", "x": ""}, True),
        ("in=1", {"in": "1"}, True),
    ],
)
def test_labels(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_labels(text).matches(labels) is expected


@pytest.mark.parametrize(
    "text", ["a in", "a in (x", ",", "a===b", "a=b,", "a b", "a=b c", "=a", "n>x", "a in (a b)", "a.="]
)
def test_malformed_label_selectors_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
    ],
)
def test_selector_objects(selector: dict[str, object] | None, expected: bool) -> None:
    assert label_selector(selector).matches({"a": "1"}) is expected


def test_fields() -> None:
    terms = parse_fields(
        "spec.nodeName=,status.phase!=Running,metadata.name==a\\,b", ["spec.nodeName", "status.phase", "metadata.name"]
    ).terms
    assert [(term.field, term.value, term.is_equal) for term in terms] == [
        ("spec.nodeName", "", True),
        ("status.phase", "Running", False),
        ("metadata.name", "a,b", True),
    ]


@pytest.mark.parametrize("text", ["spec.foo=1", "spec.nodeName", "spec.nodeName>1"])
def test_malformed_field_selectors_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_fields(text, ["spec.nodeName"])
    assert caught.value.code == 400


@pytest.mark.parametrize("text", ["a{}%", "a{}in", "a in{}[", "a={}%", "!{}%", "{}%"])
def test_a_row_of_spaces_is_read_once(text: str) -> None:
    """Trying every division of it would take half a minute."""
    with pytest.raises(ApiError) as error:
        parse_labels(text.format(" " * 60_000))
    assert error.value.code == 400
