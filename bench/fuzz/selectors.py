"""Selectors of devices in CEL: whoever may make a claim writes them, and a scheduler evaluates them for each device.

Expressions are made by the grammar, so that most of them can be read, and long rows and deep nests of one operator
among them: what costs twice as much for each operand more shows there only.
Limits: one device.
"""

from __future__ import annotations

from random import Random

from bench.fuzz.inputs import damaged
from bench.fuzz.reader import Reader
from cotenant.drivers.cel.selectors import CelSelectors
from cotenant.model.claims.devices import OfferedDevice
from cotenant.model.errors import InvalidInput

_DRIVER = "gpu.example.com"
_DEVICE = OfferedDevice("gpu-0", (("model", "a100"), ("index", 3), ("healthy", True)))
_ATOMS = (
    "true", "false", "1", "0", "-9223372036854775808", "9223372036854775807", "0.5", '"a"', '""', "[]", "{}", "null",
    "device", "device.driver", f'device.attributes["{_DRIVER}"].model', f'device.attributes["{_DRIVER}"].none',
    'device.attributes["b"].c', f'device.capacity["{_DRIVER}"].memory', 'quantity("1Gi")', 'semver("1.2.3")', "x", "1u",
    '"0123456789"', "[1, 2, 3]", '{"a": 1}', 'b"a"', "nothing",
)  # fmt: skip
_BINARY = ("||", "&&", "==", "!=", "<", ">=", "+", "-", "*", "/", "%", "in")
_CALLS = (
    "size", "contains", "startsWith", "matches", "lowerAscii", "split", "join", "replace", "includes", "compareTo",
    "isGreaterThan", "add", "substring", "indexOf", "charAt", "string", "int", "duration", "timestamp", "type", "dyn",
)  # fmt: skip
_MACROS = ("all", "exists", "exists_one", "map", "filter")
_LONGEST = 10_000


def selector_reader() -> Reader:
    """Each expression by an evaluator of its own."""

    def read(text: bytes) -> bool:
        return CelSelectors().matches(text.decode("utf-8", "replace"), _DRIVER, _DEVICE)

    return Reader("selector in CEL", _made, read, (InvalidInput,), 0.05)


def _made(rng: Random) -> bytes:
    text = _row(rng) if rng.random() < 0.3 else _expression(rng, 0)
    found = text[:_LONGEST].encode()
    return damaged(found, rng) if rng.random() < 0.1 else found


def _row(rng: Random) -> str:
    """Many of one operator, in a row or one in the other."""
    count, operand = rng.choice((10, 40, 200)), _expression(rng, 3)[:60]
    operators = rng.sample(_BINARY, rng.choice((1, 1, 2)))
    if rng.random() < 0.5:
        return operand + "".join(f" {rng.choice(operators)} {operand}" for _ in range(count))
    text = operand
    for _ in range(min(count, 40)):
        text = f"({text} {rng.choice(operators)} {operand})"
    return text


def _expression(rng: Random, depth: int) -> str:
    if depth >= 5 or rng.random() < 0.25:
        return rng.choice(_ATOMS)
    one, other = (_expression(rng, depth + 1) for _ in range(2))
    match rng.randrange(8):
        case 0:
            return f"{rng.choice(('!', '-'))}({one})"
        case 1:
            return f"({one}).{rng.choice(_CALLS)}({other})"
        case 2:
            return f"({one}).{rng.choice(_MACROS)}(x, {other})"
        case 3:
            return f"({one} ? {other} : {_expression(rng, depth + 1)})"
        case 4:
            return f"cel.bind(x, {one}, {other})"
        case 5:
            return f"[{one}, {other}][{rng.choice((0, 1, 9))}]"
        case 6:
            return f"{rng.choice(_CALLS)}({one})"
        case _:
            return f"({one} {rng.choice(_BINARY)} {other})"
