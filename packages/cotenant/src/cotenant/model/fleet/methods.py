"""Methods of programs, as operators ask a controller for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from cotenant.model.errors import InvalidInput

METHODS = "methods"  # each program answers to this one, by `MethodList`
USUAL_DEADLINE_S = 5.0
MAX_DEADLINE_S = 600.0
_METHOD = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """`form`: the type as the program writes it. `default`: as JSON; None where a value must be given."""

    name: str
    form: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """One method, for people; `schema`: of the object of its arguments, as JSON Schema."""

    name: str
    parameters: tuple[Parameter, ...]
    result: str
    deadline_s: float
    about: str = ""
    schema: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Methods:
    """Which methods has this program? Answered by `MethodList`. Inside of a request to the program itself `guid` is
    not needed.
    """

    guid: str = ""


@dataclass(frozen=True, slots=True)
class MethodList:
    """`program`: its name."""

    program: str
    version: str
    methods: tuple[Method, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Call a method of a program. `arguments`: a JSON object. Answered by `Called`."""

    guid: str
    method: str
    arguments: msgspec.Raw
    deadline_s: float = USUAL_DEADLINE_S


@dataclass(frozen=True, slots=True)
class Called:
    """`result`: JSON."""

    result: msgspec.Raw


def check_method(name: str) -> str:
    """The name, where it can be a method's, which is one token of a subject. Raises `InvalidInput`."""
    if not _METHOD.fullmatch(name) or name == METHODS:
        raise InvalidInput("method", name, f"lower-case letters, digits, - and _, and not {METHODS!r}")
    return name


def check_deadline(field_name: str, seconds: float) -> float:
    """The deadline, where it is one. Raises `InvalidInput`."""
    if not 0.001 <= seconds <= MAX_DEADLINE_S:
        raise InvalidInput(field_name, seconds, f"0.001 to {MAX_DEADLINE_S:g} seconds")
    return seconds
