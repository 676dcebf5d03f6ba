"""Values of a type, drawn from its hints: a dataclass by its fields, a protocol as an object whose methods answer by
theirs.

Numbers come from small pools by the unit in their name, so that ties, zeros and bounds are frequent; texts from a few
letters, so that names meet. A value that its type refuses is drawn again. Each field has a stream of numbers of its
own, so that one field more changes no other's value.
"""

from __future__ import annotations

import collections.abc as abc
import contextlib
import dataclasses
import enum
import functools
import inspect
import json
import random
import types
import typing
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from tests.snapshot.rendering import text

hints_of = functools.cache(typing.get_type_hints)
parameters_of = functools.cache(lambda function: inspect.signature(function).parameters)
MAX_DEPTH = 8
TRIES = 40
NUMBERS: dict[str, tuple[float, ...]] = {
    "m": (0, 1, 100, 500, 1000, 2000, 3999, 4000),
    "bytes": (0, 1, 4096, 1 << 20, 64 << 20, 1 << 30, 2 << 30, 4 << 30),
    "pct": (0, 1, 10, 30, 50, 65, 70, 95, 99, 100, 101),
    "ppm": (0, 1, 1000, 10_000, 100_000, 500_000, 1_000_000),
    "share": (0, 0.1, 0.3, 0.5, 0.65, 0.9, 1),
    "ratio": (0, 0.1, 0.5, 0.9, 1, 1.5, 3),
    "s": (0, 0.5, 1, 5, 10, 30, 60, 300, 3600, 86400),
    "ms": (0, 1, 5, 10, 100, 1000),
    "us": (0, 1, 1000, 50_000, 100_000, 1_000_000, 60_000_000),
    "ns": (0, 1, 1000, 1_000_000, 1_000_000_000),
    "int": (0, 1, 2, 3, 4, 5, 8, 10, 100),
    "float": (0, 0.25, 0.5, 1, 2, 3.5, 10, 100),
}
UNITS = {"milli": "m", "percent": "pct", "fraction": "share", "weight": "ratio", "mib": "int"}
TEXTS = ("a", "b", "c", "a/b", "")
LISTS = (list, abc.MutableSequence, abc.Iterator, abc.Reversible)
Maker = Callable[["Draw"], Any]


_MISSING = dataclasses.MISSING
_MASK = (1 << 64) - 1


class Unknown(Exception):
    """A hint that nothing is drawn for."""


class Draw:
    """One stream of values. `makers`: what is drawn instead, by a type or by the name of a field or parameter."""

    def __init__(self, seed: str, makers: Mapping[Any, Maker]) -> None:
        self.seed = seed
        self._state = _start(seed)
        self._makers = makers

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1, by splitmix64: the same in each Python, and cheap to begin anew."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _MASK
        return ((state ^ (state >> 31)) >> 11) * count >> 53

    def one(self, choices: Any) -> Any:
        """One of these."""
        return choices[self.below(len(choices))]

    def number(self, name: str, kind: type) -> Any:
        """From the pool of the unit that the name ends in; one in five a little beside it."""
        unit = name.rpartition("_")[2]
        pool = NUMBERS.get(UNITS.get(unit, unit)) or NUMBERS[kind.__name__]
        value = self.one(pool)
        match self.below(20):
            case 0 | 1 | 2:
                value = value * (500 + self.below(1000)) / 1000 if value > 10 or kind is float else value + 1
            case 3:
                value = -value
        return kind(value)

    def of(self, hint: Any, name: str = "", depth: int = 0) -> Any:
        """A value of a type."""
        makers = self._makers
        if makers:
            for key in (name, hint):
                if key in makers:
                    return makers[key](self)
        return _drawer(hint)(self, name, depth)

    def arguments(self, function: Callable[..., Any], depth: int = 0) -> dict[str, Any]:
        """Of a call, by name. One in three of those that have a default keeps it."""
        hints = hints_of(function)
        base, found = self.below(1 << 53), {}
        for name, parameter in parameters_of(function).items():
            if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if name not in hints and name not in self._makers:
                raise Unknown(f"{function.__qualname__}.{name}")
            self._state = base ^ _start(name)
            if parameter.default is parameter.empty or self._is_drawn(depth):
                found[name] = self.of(hints.get(name), name, depth)
        self._state = base
        return found

    def _is_drawn(self, depth: int) -> bool:
        """Whether what has a default gets another value."""
        return depth < MAX_DEPTH and self.below(3) > 0

    def several(self, hint: Any, name: str, depth: int) -> list[Any]:
        """Up to four values of a type."""
        return [self.of(hint, name, depth + 1) for _ in range(self._length(depth))]

    def mapping(self, key: Any, value: Any, name: str, depth: int) -> dict[Any, Any]:
        """Up to four entries."""
        return {self.of(key, "", depth + 1): self.of(value, name, depth + 1) for _ in range(self._length(depth))}

    def union(self, hints: abc.Sequence[Any], optional: bool, name: str, depth: int) -> Any:
        """A value of one of these types; one in four is None where that is one of them."""
        if optional and (depth >= MAX_DEPTH or self.below(4) == 0):
            return None
        return self.of(hints[0] if len(hints) == 1 else self.one(hints), name, depth)

    def _length(self, depth: int) -> int:
        return 0 if depth >= MAX_DEPTH else self.one((0, 1, 1, 2, 2, 3, 4))

    def array(self, inside: Any, name: str) -> Any:
        kind = typing.get_args(inside[1])[0] if len(inside) > 1 and typing.get_args(inside[1]) else np.float64
        if not isinstance(kind, type):
            raise Unknown(name)
        base = float if issubclass(kind, np.floating) else int
        return np.array([self.number(name, base) for _ in range(4)], dtype=kind)

    def function(self, result: Any) -> Callable[..., Any]:
        """That answers the same whenever it is asked the same."""

        def answer(*given: Any, **named: Any) -> Any:
            return Draw(self.seed + text((given, named)), self._makers).of(result)

        return answer

    def object(self, cls: type, depth: int) -> Any:
        if depth > 2 * MAX_DEPTH:
            raise Unknown(f"{cls.__qualname__}: it contains itself")
        if issubclass(cls, enum.Enum):
            return self.one(tuple(cls))
        if getattr(cls, "_is_protocol", False):
            return _stub(cls, self)
        if cls.__module__.partition(".")[0] not in ("cotenant", "tests"):
            if cls is random.Random:
                return random.Random(self.below(100))
            if cls is np.random.Generator:
                return np.random.default_rng(self.below(100))
            raise Unknown(cls)
        children = [one for one in cls.__subclasses__() if one.__module__.startswith("cotenant")]
        if inspect.isabstract(cls) and children:
            return self.object(self.one(children), depth)
        if hasattr(cls, "_fields"):
            hints = hints_of(cls)
            return cls(*(self.of(hints[name], name, depth + 1) for name in cls._fields))
        refused: Exception | None = None
        for _ in range(TRIES):
            try:
                return self._made(cls, depth)
            except Unknown:
                raise
            except Exception as error:  # what the type refuses, in whatever words
                refused = error
        raise Unknown(f"{cls.__qualname__}: {refused}")

    def _made(self, cls: type, depth: int) -> Any:
        if not dataclasses.is_dataclass(cls):
            return cls(**self.arguments(cls.__init__, depth + 1))
        base, needed, more = self.below(1 << 53), {}, {}
        for name, hint, start, has_default in _fields(cls):
            self._state = base ^ start
            if not has_default:
                needed[name] = self.of(hint, name, depth + 1)
            elif self._is_drawn(depth):
                more[name] = self.of(hint, name, depth + 1)
        self._state = base
        with contextlib.suppress(Exception):
            return cls(**needed, **more)
        found = cls(**needed)
        for _ in range(2):  # one by one where not all go together: some only after others
            for name, value in more.items():
                with contextlib.suppress(Exception):
                    found = cls(**needed, **{name: value})
                    needed[name] = value
        return found


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, Any, int, bool], ...]:
    hints = hints_of(cls)
    return tuple(
        (
            field.name,
            hints[field.name],
            _start(field.name),
            field.default is not _MISSING or field.default_factory is not _MISSING,
        )
        for field in dataclasses.fields(cls)
        if field.init
    )


@functools.cache
def _drawer(hint: Any) -> Callable[[Draw, str, int], Any]:
    """How values of a type are drawn."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint is None or hint is types.NoneType:
        return lambda draw, name, depth: None
    if hint is bool:
        return lambda draw, name, depth: bool(draw.below(2))
    if hint in (int, float):
        return lambda draw, name, depth: draw.number(name, hint)
    if hint in (str, bytes):
        texts = TEXTS if hint is str else tuple(one.encode() for one in TEXTS)
        return lambda draw, name, depth: draw.one(texts)
    if hint in (object, Any, abc.Hashable):
        return lambda draw, name, depth: draw.one((None, 0, 1, 2.5, "a", "b", "", True))
    if isinstance(hint, typing.NewType):
        return lambda draw, name, depth: draw.of(hint.__supertype__, name, depth)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in inside if one is not types.NoneType]
        return lambda draw, name, depth: draw.union(rest, len(rest) < len(inside), name, depth)
    if origin is typing.Literal:
        return lambda draw, name, depth: draw.one(inside)
    if origin in (typing.Annotated, typing.Final, typing.ClassVar):
        return lambda draw, name, depth: draw.of(inside[0], name, depth)
    if origin is np.ndarray or hint is np.ndarray:
        return lambda draw, name, depth: draw.array(inside, name)
    if origin is tuple and not (len(inside) == 2 and inside[1] is Ellipsis):
        return lambda draw, name, depth: tuple(draw.of(one, name, depth + 1) for one in inside)
    if origin in (tuple, abc.Sequence, abc.Iterable, abc.Collection):
        return lambda draw, name, depth: tuple(draw.several(inside[0], name, depth))
    if origin in LISTS:
        return lambda draw, name, depth: draw.several(inside[0], name, depth)
    if origin in (set, abc.MutableSet):
        return lambda draw, name, depth: set(draw.several(inside[0], name, depth))
    if origin in (frozenset, abc.Set):
        return lambda draw, name, depth: frozenset(draw.several(inside[0], name, depth))
    if origin in (dict, abc.Mapping, abc.MutableMapping):
        return lambda draw, name, depth: draw.mapping(*inside, name, depth)
    if origin is abc.Callable:
        return lambda draw, name, depth: draw.function(inside[-1])
    if origin is not type and isinstance(cls := origin or hint, type):
        return lambda draw, name, depth: draw.object(cls, depth)
    raise Unknown(hint)


@functools.cache
def _start(name: str) -> int:
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big")


def _stub(protocol: type, draw: Draw) -> Any:
    """An object of a protocol: its methods and attributes answer by their hints, the same whenever asked the same."""
    members: dict[str, Any] = {"__slots__": ()}
    for cls in reversed(protocol.__mro__[:-1]):
        for name, hint in hints_of(cls).items():
            members[name] = draw.of(hint, name, MAX_DEPTH - 2)
        for name, member in vars(cls).items():
            if isinstance(member, types.FunctionType) and not name.startswith("_"):
                hints = hints_of(member)
                members[name] = staticmethod(draw.function(hints.get("return")))
            elif isinstance(member, property) and member.fget is not None:
                members[name] = draw.of(hints_of(member.fget)["return"], name, MAX_DEPTH - 2)
    return type(protocol.__name__, (), members)()


def labelled(values: Mapping[str, abc.Sequence[str] | Maker]) -> Maker:
    """A maker of labels or annotations: some of these keys, with some of these values."""

    def made(draw: Draw) -> dict[str, str]:
        kept = [key for key in values if draw.below(3) == 0]
        return {key: one(draw) if callable(one := values[key]) else draw.one(one) for key in kept}

    return made


def json_of(fields: Mapping[str, abc.Sequence[Any] | Maker]) -> Maker:
    """A maker of a JSON object of some of these fields; one in ten texts is none."""

    def made(draw: Draw) -> str:
        if draw.below(10) == 0:
            return draw.one(("", "{", "[]", "null"))
        kept = [key for key in fields if draw.below(3)]
        return json.dumps({key: one(draw) if callable(one := fields[key]) else draw.one(one) for key in kept})

    return made


def one_of(*choices: Any) -> Maker:
    """A maker of one of these."""
    return lambda draw: draw.one(choices)
