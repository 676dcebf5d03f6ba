"""The cases of a module: each public function called with drawn arguments; of each class what its properties say and
what its methods answer, one after the other.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.snapshot.drawing import Draw, Maker, Unknown
from tests.snapshot.rendering import text

from cotenant.model.errors import CotenantError

CALLS = 8  # of methods, in a case of a class
_CALLED = (types.FunctionType, classmethod, staticmethod)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a case comes to. `usable`: whether the inputs were such as the code is made for."""

    inputs: str  # empty where not asked for
    result: str
    usable: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """A function or a class of a module."""

    name: str
    target: Any
    makers: Mapping[Any, Maker]

    def answer(self, number: int, with_inputs: bool = True) -> Answer:
        """The case of this number, always the same."""
        draw = Draw(f"{self.target.__module__}.{self.name}:{number}", self.makers)
        told = _told if with_inputs else _untold
        if isinstance(self.target, type):
            return self._used(draw, told)
        given = draw.arguments(self.target)
        inputs = told(given)
        result, usable = _outcome(lambda: self.target(**given))
        return Answer(inputs, result, usable)

    def _used(self, draw: Draw, told: Callable[[Mapping[str, Any]], str]) -> Answer:
        one = draw.of(self.target)
        inputs = told({"self": one})
        members = list(_members(self.target))
        lines = []
        usable = bool(members)
        for name in (name for name, member in members if _is_read(member)):
            result, fits = _outcome(lambda name=name: getattr(one, name))
            lines.append(f".{name} = {result}")
            usable = usable and fits
        methods = [name for name, member in members if not _is_read(member)]
        changing = not getattr(getattr(one, "__dataclass_params__", None), "frozen", False)
        for name in [draw.one(methods) for _ in range(CALLS)] if methods and changing else methods:
            method = getattr(one, name)
            given = draw.arguments(method)
            inputs += f" .{name}({told(given)})"
            result, fits = _outcome(lambda method=method, given=given: method(**given))
            if not fits:
                return Answer(inputs, "; ".join(lines), usable and bool(lines))
            lines.append(f".{name} = {result}")
        return Answer(inputs, "; ".join(lines), usable)


def subjects(module: types.ModuleType, makers: Mapping[Any, Maker]) -> Iterator[Subject]:
    """Those of a module that something is drawn for, in the order of its text."""
    for name, target in vars(module).items():
        if name.startswith("_") or getattr(target, "__module__", None) != module.__name__:
            continue
        is_class = isinstance(target, type) and not getattr(target, "_is_protocol", False)
        if is_class and not list(_members(target)):
            continue
        if is_class or inspect.isfunction(target) or hasattr(target, "py_func"):
            yield Subject(name, target, makers)


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Public properties and methods, of the class itself."""
    for name, member in vars(cls).items():
        if not name.startswith("_") and (_is_read(member) or isinstance(member, _CALLED)):
            yield name, member


def _is_read(member: object) -> bool:
    return isinstance(member, property | functools.cached_property)


def _outcome(call: Callable[[], Any]) -> tuple[str, bool]:
    """What a call answers, in text; that it refused counts as an answer."""
    try:
        # what has no value as a number becomes one that processors do not agree on
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            answer = call()
            return text(list(answer) if isinstance(answer, Iterator) else answer), True
    except CotenantError as error:
        return f"refused: {error}", True
    except Unknown:
        raise
    except Exception as error:
        return f"{type(error).__name__}", False


def _told(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={text(value)}" for name, value in given.items())


def _untold(given: Mapping[str, Any]) -> str:
    return ""
