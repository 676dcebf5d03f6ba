"""Inputs for readers: documents of a schema with odd values, and valid texts with damaged bytes.

Random bytes never get past a parser, and hand-written odd cases miss the combinations. Documents are generated from the
reader's own msgspec structs, so that they reach the code behind the decoder; a part of the values is odd (extreme
numbers, wrong types, strings that have a meaning somewhere in the package); bytes of a part of all texts are damaged.
Limits: no coverage guidance; rare combinations need many inputs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect
from tools.tree import PACKAGES

_MAX_DEPTH = 9
_ODD_PART, _DAMAGED_PART, _ABSENT_PART = 0.08, 0.15, 0.35
_NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    100,
    1000,
    2**31 - 1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
    0.5,
    -0.0,
    1e308,
    1e-300,
)
_TEXTS = (
    "", " ", "0", "1", "-1", "a", "A/b", "a/b/c", "1e9", "1e400", "100m", "1.5Gi", "9" * 400, "0x10", "NaN", "inf",
    "null", "true", "[]", "{}", '{"a": [1]}',
    "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "\u0000", "\ud7ff", "é" * 70, "x" * 5000, "0-3,7", "0-99999999999",
    "default", "kube-system", "/", "..", "*",
)  # fmt: skip


@cache
def vocabulary() -> tuple[str, ...]:
    """Every short string constant of the package: keys of annotations, values that mean something, resource names."""
    found: set[str] = set()
    for path in sorted(path for folder in PACKAGES.values() for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
                if 0 < len(text) <= 60 and "\n" not in text and text.count(" ") < 2:
                    found.add(text)
    return tuple(sorted(found))


def damaged(text: bytes, rng: Random) -> bytes:
    """The text with some bytes changed, removed, repeated or moved."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 8, 64)))
        match rng.randrange(5):
            case 0:
                data[at:end] = rng.randbytes(end - at)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 3:
                data[at:at] = rng.choice(
                    (b"0", b"-", b"9" * 40, b"\xff", b"\x00", b"\n", b" ", b",", b"{", b"]", b"\\u0000")
                )
            case _:
                del data[at:]
    return bytes(data)


def text_input(rng: Random) -> str:
    """A word of the package, or an odd one."""
    return rng.choice(vocabulary()) if rng.random() < 0.6 else rng.choice(_TEXTS)


def texts_like(*examples: bytes) -> Callable[[Random], bytes]:
    """Damaged copies of valid texts, and now and then a text from elsewhere."""

    def make(rng: Random) -> bytes:
        if rng.random() < 0.05:
            return text_input(rng).encode("utf-8", "replace")
        text = rng.choice(examples)
        return text if rng.random() < 0.1 else damaged(text, rng)

    return make


def document_maker(form: type) -> Callable[[Random], object]:
    """Decoded documents of a msgspec struct."""
    node = inspect.type_info(form)
    return lambda rng: _value(node, rng, 0)


def changed(value: object, rng: Random) -> object:
    """A copy of a decoded document in which some values are odd or gone."""
    if rng.random() < _ODD_PART / 2:
        return _odd(rng, 0)
    if isinstance(value, dict):
        return {key: changed(inner, rng) for key, inner in value.items() if rng.random() >= _ODD_PART}
    if isinstance(value, list):
        return [changed(inner, rng) for inner in value for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 2)))]
    if isinstance(value, int | float) and rng.random() < 0.3:
        return rng.choice((0, 1, -1, 100, 101, 1e18, rng.randrange(1000)))
    return value


def documents_of(
    form: type, shape: Callable[[Any, Random], None] = lambda document, rng: None
) -> Callable[[Random], bytes]:
    """JSON documents of a msgspec struct. `shape` may make a document more likely to be read to its end."""
    maker = document_maker(form)

    def make(rng: Random) -> bytes:
        document = maker(rng)
        if isinstance(document, dict):
            shape(document, rng)
        text = msgspec.json.encode(document)
        return damaged(text, rng) if rng.random() < _DAMAGED_PART else text

    return make


def _odd(rng: Random, depth: int) -> object:
    match rng.randrange(7):
        case 0:
            return None
        case 1:
            return rng.choice((True, False))
        case 2:
            number = rng.choice(_NUMBERS)
            return number if not isinstance(number, int) or -(2**63) <= number < 2**64 else float(number)
        case 3:
            return [] if depth >= _MAX_DEPTH else [_odd(rng, depth + 1) for _ in range(rng.randrange(3))]
        case 4:
            return {} if depth >= _MAX_DEPTH else {text_input(rng): _odd(rng, depth + 1)}
        case _:
            return text_input(rng)


def _value(node: Any, rng: Random, depth: int) -> object:
    if rng.random() < _ODD_PART * (depth > 0) * 0.5 or depth >= _MAX_DEPTH:
        return _odd(rng, depth)
    match node:
        case inspect.Metadata():
            return _value(node.type, rng, depth)
        case inspect.UnionType():
            return _value(rng.choice(node.types), rng, depth)
        case inspect.StructType():
            return {
                field.encode_name: _value(field.type, rng, depth + 1)
                for field in node.fields
                if field.required or rng.random() >= _ABSENT_PART
            }
        case inspect.DictType():
            size = rng.choice((0, 1, 1, 2, 5))
            return {text_input(rng): _value(node.value_type, rng, depth + 1) for _ in range(size)}
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return [_value(node.item_type, rng, depth + 1) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        case inspect.TupleType():
            return [_value(kind, rng, depth + 1) for kind in node.item_types]
        case inspect.StrType():
            return text_input(rng)
        case inspect.BoolType():
            return rng.choice((True, False))
        case inspect.IntType():
            return rng.choice((0, 1, 2, 3, 5, 100, 65535, -1, rng.randrange(-1000, 10**6), 2**31 - 1))
        case inspect.FloatType():
            return rng.choice((0.0, 1.0, 0.5, -1.0, 1e18, rng.random()))
        case inspect.DateTimeType():
            return rng.choice(("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"))
        case inspect.LiteralType() | inspect.EnumType():
            values = node.values if isinstance(node, inspect.LiteralType) else tuple(enum.value for enum in node.cls)
            return rng.choice(values)
        case inspect.NoneType():
            return None
        case _:
            return _odd(rng, depth)
