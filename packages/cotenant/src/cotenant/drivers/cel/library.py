"""Functions that Kubernetes adds to CEL: quantities, semantic versions, strings and lists.

Source: Kubernetes documentation, "Common Expression Language in Kubernetes"; CEL's extension of strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import total_ordering
from typing import Any

from celpy import celtypes
from celpy.evaluation import CELEvalError

from cotenant.model.errors import InvalidInput
from cotenant.model.quantities import NANO, Quantity, parse_quantity

MAX_RESULT = 100_000  # characters of a text that one call makes of others
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z.-]+)?"
)


class CelQuantity:
    """A quantity as a value of CEL."""

    def __init__(self, quantity: Quantity) -> None:
        self.quantity = quantity

    def __eq__(self, other: object) -> Any:
        """By amount."""
        return celtypes.BoolType(isinstance(other, CelQuantity) and other.quantity.nano == self.quantity.nano)

    def __hash__(self) -> int:
        """By amount."""
        return hash(self.quantity.nano)


@total_ordering
class CelVersion:
    """A semantic version as a value of CEL."""

    def __init__(self, text: str) -> None:
        found = _SEMVER.fullmatch(text)
        if found is None:
            raise ValueError(f"{text} is no semantic version")
        self.numbers = int(found[1]), int(found[2]), int(found[3])
        self._key = (
            self.numbers,
            found[4] is None,  # a release is newer than what precedes it
            tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in (found[4] or "").split(".")),
        )

    def __eq__(self, other: object) -> Any:
        """By precedence."""
        return celtypes.BoolType(isinstance(other, CelVersion) and other._key == self._key)

    def __lt__(self, other: object) -> bool:
        """By precedence."""
        return self._key < other._key if isinstance(other, CelVersion) else NotImplemented

    def __hash__(self) -> int:
        """By precedence."""
        return hash(self._key)


def _quantity(text: object) -> CelQuantity:
    try:
        return CelQuantity(parse_quantity(str(text)))
    except InvalidInput as error:
        raise ValueError(str(error)) from None


def _is(read: Callable[[object], object]) -> Callable[[object], object]:
    def test(text: object) -> object:
        try:
            read(text)
        except ValueError:
            return celtypes.BoolType(False)
        return celtypes.BoolType(True)

    return test


def _order(one: object, other: object) -> int:
    if isinstance(one, CelQuantity) and isinstance(other, CelQuantity):
        return (one.quantity.nano > other.quantity.nano) - (one.quantity.nano < other.quantity.nano)
    if isinstance(one, CelVersion) and isinstance(other, CelVersion):
        return bool(one > other) - bool(one < other)
    raise TypeError("no such overload")


def _amount(value: CelQuantity | float) -> int:
    if isinstance(value, CelQuantity):
        return value.quantity.nano
    return int(value) * NANO


def _substring(text: str, start: int, end: int | None = None) -> object:
    stop = len(text) if end is None else int(end)
    if not 0 <= int(start) <= stop <= len(text):
        raise ValueError("index out of range")
    return celtypes.StringType(text[int(start) : stop])


def _split(text: str, by: str, most: int = -1) -> object:
    parts = list(text) if not by else str(text).split(str(by), -1 if int(most) < 0 else max(0, int(most) - 1))
    return celtypes.ListType([celtypes.StringType(part) for part in ([] if int(most) == 0 else parts)])


def _index_of(where: str | list[object], what: object) -> object:
    if isinstance(where, str):
        return celtypes.IntType(str(where).find(str(what)))
    return celtypes.IntType(next((at for at, value in enumerate(where) if value == what), -1))


def _last_index_of(where: str | list[object], what: object) -> object:
    if isinstance(where, str):
        return celtypes.IntType(str(where).rfind(str(what)))
    return celtypes.IntType(max((at for at, value in enumerate(where) if value == what), default=-1))


def _char_at(text: str, at: int) -> object:
    if not 0 <= int(at) <= len(text):
        raise ValueError("index out of range")
    return celtypes.StringType(text[int(at) : int(at) + 1])


def _replace(text: str, old: str, new: str, most: int = -1) -> object:
    whole, part, by = str(text), str(old), str(new)
    times = whole.count(part) if int(most) < 0 else min(int(most), whole.count(part))
    if len(whole) + times * max(0, len(by) - len(part)) > MAX_RESULT:
        return _too_long()
    return celtypes.StringType(whole.replace(part, by, int(most)))


def _join(parts: list[object], by: str = "") -> object:
    texts = [str(part) for part in parts]
    if sum(map(len, texts)) + len(texts) * len(by) > MAX_RESULT:
        return _too_long()
    return celtypes.StringType(str(by).join(texts))


def _too_long() -> CELEvalError:
    """Instead of such a text: one call could fill the memory, and what it costs is known only afterwards."""
    return CELEvalError(f"it makes a text of more than {MAX_RESULT} characters", ValueError, ())


def _either(one: object, other: object) -> object:
    """CEL's `||`: what is true is true beside an error. Of two errors the first is kept: cel-python writes
    both into the error of the next `||`, which doubles with every one.
    """
    if not isinstance(one, celtypes.BoolType):
        return other if isinstance(other, celtypes.BoolType) and other else _error_of(one, other)
    return one if one else _truth(other)


def _both(one: object, other: object) -> object:
    """CEL's `&&`: what is false is false beside an error."""
    if not isinstance(one, celtypes.BoolType):
        return other if isinstance(other, celtypes.BoolType) and not other else _error_of(one, other)
    return _truth(other) if one else one


def _truth(value: object) -> object:
    return value if isinstance(value, celtypes.BoolType) else _error_of(value, value)


def _error_of(one: object, other: object) -> CELEvalError:
    """The first error of both; what is neither an error nor true or false is one."""
    for value in (one, other):
        if isinstance(value, CELEvalError):
            return value
    return CELEvalError("neither true nor false", TypeError, ())


def _includes(value: object, what: object) -> object:
    """Whether an attribute has a value, be it a list or not."""
    values = value if isinstance(value, celtypes.ListType) else (value,)
    return celtypes.BoolType(any(type(one) is type(what) and one == what for one in values))


LOGIC: Mapping[str, Callable[..., Any]] = {"_||_": _either, "_&&_": _both}  # for every evaluation of cel-python
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": _is(_quantity),
    "semver": lambda text: CelVersion(str(text)),
    "isSemver": _is(lambda text: CelVersion(str(text))),
    "compareTo": lambda one, other: celtypes.IntType(_order(one, other)),
    "isGreaterThan": lambda one, other: celtypes.BoolType(_order(one, other) > 0),
    "isLessThan": lambda one, other: celtypes.BoolType(_order(one, other) < 0),
    "major": lambda version: celtypes.IntType(version.numbers[0]),
    "minor": lambda version: celtypes.IntType(version.numbers[1]),
    "patch": lambda version: celtypes.IntType(version.numbers[2]),
    "sign": lambda value: celtypes.IntType((_amount(value) > 0) - (_amount(value) < 0)),
    "isInteger": lambda value: celtypes.BoolType(_amount(value) % NANO == 0),
    "asInteger": lambda value: celtypes.IntType(_amount(value) // NANO),
    "asApproximateFloat": lambda value: celtypes.DoubleType(_amount(value) / NANO),
    "add": lambda one, other: CelQuantity(Quantity(_amount(one) + _amount(other))),
    "sub": lambda one, other: CelQuantity(Quantity(_amount(one) - _amount(other))),
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": lambda text: celtypes.StringType(str(text).lower()),
    "upperAscii": lambda text: celtypes.StringType(str(text).upper()),
    "trim": lambda text: celtypes.StringType(str(text).strip()),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "includes": _includes,
    "join": _join,
    **LOGIC,
}
