"""Reading objects as they come: labels and annotations may be null, and are text otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.admission.documents import annotations_of, labels_of

READ = [(labels_of, "labels"), (annotations_of, "annotations")]


@pytest.mark.parametrize(("read", "key"), READ)
def test_a_null_is_no_text_but_no_error(read: Callable[[Any], dict[str, str]], key: str) -> None:
    assert read({"metadata": {key: {"a": None, "b": "x", "c": ""}}}) == {"a": "", "b": "x", "c": ""}
    assert read({"metadata": {key: {"b": "x"}}}) == {"b": "x"}
    for empty in ({}, {"metadata": None}, {"metadata": {}}, {"metadata": {key: None}}, {"metadata": {key: {}}}):
        assert read(empty) == {}


@pytest.mark.parametrize(("read", "key"), READ)
@pytest.mark.parametrize("value", [1, 0, True, False, [], {}])
def test_what_is_no_text_is_refused(read: Callable[[Any], dict[str, str]], key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=rf"metadata.{key}\[b\]"):
        read({"metadata": {key: {"a": "x", "b": value}}})


@pytest.mark.parametrize(("read", "key"), READ)
def test_what_is_read_may_be_large_and_is_not_copied(read: Callable[[Any], dict[str, str]], key: str) -> None:
    written = {"a": "x"}
    assert read({"metadata": {key: written}}) is written
