"""Values as text that is the same on each machine, in each run: six significant digits, sets and mappings sorted, no
address of an object.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

DEPTH = 9


def text(value: object, depth: int = DEPTH) -> str:
    """One line. Fields that have their default are left out, and what an object keeps for itself."""
    if depth == 0:
        return "…"
    match value:
        case enum.Enum():
            return value.name or str(value.value)
        case bool() | None | str() | bytes():
            return repr(value)
        case float() | np.floating():
            return number(float(value))
        case int() | np.integer():
            return str(int(value))
        case np.ndarray():
            return f"array({text(value.tolist(), depth - 1)})"
        case BaseException():
            return f"{type(value).__name__}: {value}"
        case types.FunctionType() | types.BuiltinFunctionType() | types.MethodType() | type():
            return value.__qualname__
        case Mapping():
            entries = sorted((text(key, depth - 1), text(one, depth - 1)) for key, one in value.items())
            return "{" + ", ".join(f"{key}: {one}" for key, one in entries) + "}"
        case AbstractSet():
            return "{" + ", ".join(sorted(text(one, depth - 1) for one in value)) + "}"
        case tuple() if hasattr(value, "_fields"):
            return _named(value, value._fields, {}, depth)
        case Sequence():
            inside = ", ".join(_runs([text(one, depth - 1) for one in value]))
            return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field for field in dataclasses.fields(value) if field.repr]
        defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
        return _named(value, [field.name for field in fields], defaults, depth)
    return _named(value, sorted(name for name in attributes(value) if not name.startswith("_")), {}, depth)


def number(value: float) -> str:
    """Six significant digits: another processor's machine code may differ in the last ones."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    return repr(float(f"{value:.6g}"))


def attributes(value: object) -> set[str]:
    """Names of what an object holds, in slots or not."""
    slots = {name for cls in type(value).__mro__ for name in _slots(cls)}
    return {name for name in slots if hasattr(value, name)} | set(getattr(value, "__dict__", ()))


def _slots(cls: type) -> Sequence[str]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _runs(values: Sequence[str]) -> Iterator[str]:
    """Five and more of the same, one after the other, said once."""
    for value, same in itertools.groupby(values):
        count = len(list(same))
        yield from [f"{value} x {count}"] if count > 4 else [value] * count


def _named(value: object, names: Sequence[str], defaults: Mapping[str, object], depth: int) -> str:
    shown = [(name, getattr(value, name, None)) for name in names]
    told = [f"{name}={text(one, depth - 1)}" for name, one in shown if not _is_default(one, name, defaults)]
    return f"{type(value).__name__}({', '.join(told)})"


def _is_default(value: object, name: str, defaults: Mapping[str, object]) -> bool:
    if name not in defaults:
        return False
    default = defaults[name]
    return (type(value) is type(default) and value is default) or (isinstance(value, int | str) and value == default)
