"""Validation by structural schemas, with the messages of the real server."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_local.apiserver.custom.rules import SchemaRule, compile_pattern

TEXT = {"type": "string"}


def messages(schema: dict[str, Any], value: Any) -> list[str]:
    causes: list[Any] = []
    SchemaRule({"type": "object", "properties": {"x": schema}}).check({"x": value}, "", causes)
    return [f"{cause.field}: {cause.message}" for cause in causes]


@pytest.mark.parametrize(
    ("schema", "good", "bad", "words"),
    [
        (TEXT, "a", 1, 'x: Invalid value: "integer": x in body must be of type string: "integer"'),
        ({"type": "integer"}, 3.0, "3", 'x: Invalid value: "string": x in body must be of type integer: "string"'),
        ({"type": "integer"}, 3, True, 'x: Invalid value: "boolean": x in body must be of type integer: "boolean"'),
        (
            {"type": "integer", "maximum": 10},
            10,
            11,
            "x: Invalid value: 11: x in body should be less than or equal to 10",
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            2,
            1,
            "x: Invalid value: 1: x in body should be greater than 1",
        ),
        ({"type": "integer", "multipleOf": 5}, 15, 7, "x: Invalid value: 7: x in body should be a multiple of 5"),
        ({**TEXT, "enum": ["a", "b"]}, "a", "c", 'x: Unsupported value: "c": supported values: "a", "b"'),
        ({**TEXT, "pattern": "^a+$"}, "aa", "ab", "x: Invalid value: \"ab\": x in body should match '^a+$'"),
        ({**TEXT, "minLength": 2}, "ab", "a", 'x: Invalid value: "a": x in body should be at least 2 chars long'),
        ({**TEXT, "maxLength": 2}, "ab", "abc", "x: Too long: may not be more than 2 bytes"),
        (
            {"type": "array", "items": TEXT, "minItems": 1},
            ["a"],
            [],
            "x: Invalid value: 0: x in body should have at least 1 items",
        ),
        (
            {"type": "array", "items": TEXT, "maxItems": 1},
            ["a"],
            ["a", "b"],
            "x: Too many: 2: must have at most 1 items",
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "b"],
            ["a", "a"],
            'x[1]: Duplicate value: "a"',
        ),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"k": TEXT}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            [{"k": "a"}, {"k": "b"}],
            [{"k": "a"}, {"k": "a"}],
            'x[1]: Duplicate value: {"k":"a"}',
        ),
        ({"type": "object", "required": ["y"]}, {"y": 1}, {}, "x.y: Required value"),
        (
            {"type": "object", "maxProperties": 1},
            {"a": 1},
            {"a": 1, "b": 2},
            "x: Too many: 2: must have at most 1 items",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "boolean"}},
            {"a": True},
            {"a": 1},
            'x.a: Invalid value: "integer": x.a in body must be of type boolean: "integer"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            "25%",
            1.5,
            'x: Invalid value: "number": x in body must be of type integer,string: "number"',
        ),
        (
            {**TEXT, "nullable": True},
            None,
            1,
            'x: Invalid value: "integer": x in body must be of type string: "integer"',
        ),
        (TEXT, "a", None, 'x: Invalid value: "null": x in body must be of type string: "null"'),
        (
            {**TEXT, "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
            "ab",
            "c",
            'x: Invalid value: "c": x in body must validate at least one schema (anyOf)',
        ),
        (
            {
                "type": "object",
                "properties": {"a": TEXT, "b": TEXT},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"a": "1"},
            {"a": "1", "b": "2"},
            'x: Invalid value: "": x in body must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
        (
            {**TEXT, "not": {"enum": ["no"]}},
            "yes",
            "no",
            'x: Invalid value: "no": x in body must not validate the schema (not)',
        ),
        ({**TEXT, "allOf": [{"maxLength": 1}]}, "a", "ab", "x: Too long: may not be more than 1 bytes"),
        (
            {**TEXT, "format": "ipv4"},
            "10.0.0.1",
            "10.0",
            'x: Invalid value: "10.0": x in body must be of type ipv4: "10.0"',
        ),
        (
            {**TEXT, "format": "duration"},
            "1h30m",
            "soon",
            'x: Invalid value: "soon": x in body must be of type duration: "soon"',
        ),
    ],
)
def test_a_rule(schema: dict[str, Any], good: Any, bad: Any, words: str) -> None:
    assert messages(schema, good) == []
    assert messages(schema, bad) == [words]


def test_an_unknown_format_is_not_checked() -> None:
    assert messages({**TEXT, "format": "whatever"}, "x") == []


def test_a_dollar_matches_the_end_of_the_text_only() -> None:
    assert not compile_pattern("^a$").search("a\n")
    assert compile_pattern(r"^[$]\$$").search("$$")
    assert compile_pattern(r"a\z").search("ba")
