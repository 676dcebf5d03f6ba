"""Statuses that are ours alone, as fields: names in camel case, and what is not known is absent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from cotenant.model.errors import InvalidInput

T = TypeVar("T")
_UPPER = re.compile(r"[A-Z]")
_LOWER = re.compile(r"_([a-z])")


def read_stored(status: object, form: type[T], kind: str) -> T:
    """What is stored. Raises `InvalidInput`."""
    try:
        return msgspec.convert(_renamed(status, _snake), form, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"status of a {kind}", str(error), "as the manager writes it") from None


def written_fields(status: object) -> dict[str, object]:
    """The status as it is written."""
    found = _renamed(msgspec.to_builtins(status), _camel)
    assert isinstance(found, dict)
    return found


def _renamed(value: object, name: Callable[[str], str]) -> object:
    if isinstance(value, Mapping):
        return {name(key): _renamed(inner, name) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_renamed(inner, name) for inner in value]
    return value


def _camel(name: str) -> str:
    return _LOWER.sub(lambda found: found[1].upper(), name)


def _snake(name: str) -> str:
    return _UPPER.sub(lambda found: f"_{found[0].lower()}", name)
