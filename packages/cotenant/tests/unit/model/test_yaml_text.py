"""YAML that is read strictly, by both versions' scalars."""

from __future__ import annotations

import datetime

import pytest

from cotenant.model.yaml_text import load_yaml

BOTH = {
    "5": 5, "-7": -7, "0x1F": 31, "0644": 420, "1_000": 1000, "1.5": 1.5, ".5": 0.5, "2.0e+3": 2000.0, "true": True,
    "~": None, "null": None, "word": "word", "127.0.0.1": "127.0.0.1", "15s": "15s", "1e7": "1e7",
}  # fmt: skip
CHANGED = {
    "22:22": 1342,
    "12:30:45": 45045,
    "yes": True,
    "off": False,
    "2024-01-01": datetime.date(2024, 1, 1),
}


def test_scalars_of_both_versions() -> None:
    for written, found in BOTH.items():
        text = f"a: {written}".encode()
        assert load_yaml(text) == load_yaml(text, with_core_scalars=True) == {"a": found}, written
    for written, old in CHANGED.items():
        text = f"a: {written}".encode()
        assert (load_yaml(text), load_yaml(text, with_core_scalars=True)) == ({"a": old}, {"a": written})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{a: 1, a: 1}", "a stands twice in one mapping, in lines 1 and 1"),
        (b"x:\n- a: 1\n  b: 2\n  a: 3\n", "a stands twice in one mapping, in lines 2 and 4"),
        (b"a: &a [1, *a]", "line 1 is part of itself, by an alias"),
    ],
)
def test_what_would_be_dropped_without_a_word_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load_yaml(text)


def test_merged_keys_and_aliases_are_no_doubles() -> None:
    text = b"{base: &b {a: 1, b: 2}, one: {<<: *b, a: 3}, two: {<<: [*b, *b]}, three: *b, four: {1: x, '1': y}}"
    assert load_yaml(text) == {
        "base": {"a": 1, "b": 2}, "one": {"a": 3, "b": 2}, "two": {"a": 1, "b": 2}, "three": {"a": 1, "b": 2},
        "four": {1: "x", "1": "y"},
    }  # fmt: skip
    assert load_yaml(b"") is None
