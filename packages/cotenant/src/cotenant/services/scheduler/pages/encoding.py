"""JSON of the debug pages: frozen values with their fields in camelCase, as users of the founding API write them.

The values are the engine's, which knows no JSON; and NaN, NumPy's numbers and enumerations have no JSON form. One walk
over dataclasses, mappings and sequences; a number that is not finite is null.
Limits: keys of mappings are kept as they are, because they are names of objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from math import isfinite

import msgspec
import numpy as np

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.model.resources import Amounts, format_amount


def page(value: object) -> HttpAnswer:
    """A value as an answer."""
    return HttpAnswer(200, encode(value))


def encode(value: object) -> bytes:
    """A value as JSON on one line."""
    return msgspec.json.encode(plain(value)) + b"\n"


def plain(value: object) -> object:
    """The value in terms of JSON."""
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.to_builtins(value))
    if isinstance(value, Amounts):
        return {name: format_amount(name, amount) for name, amount in value}
    if is_dataclass(value) and not isinstance(value, type):
        return {_camel(field.name): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, float | np.floating):
        return float(value) if isfinite(value) else None
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {_key(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, Set):
        return sorted((plain(entry) for entry in value), key=str)
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return str(value)


def _key(key: object) -> str:
    return str(key.value) if isinstance(key, Enum) else str(key)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(entry.capitalize() for entry in rest)
