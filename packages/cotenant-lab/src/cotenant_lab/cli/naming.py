"""Renames the fields of errors to what the user typed.

A scenario names its parameters (`load`, `policy`, a knob), because it also serves as a library; a user who typed
`--load` looks for that. The fields are renamed in one place, where a command calls the lab; the rest of the error is
unchanged.
Limits: fields that are not listed here, such as a file with its line, are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cotenant.model.errors import InvalidInput

COMPARE = {
    "workload": "--workload",
    "file": "--workload",
    "traces": "--traces",
    "policy": "--policies",
    "seed": "--seeds",
    "load": "--load",
    "format": "FORMAT",
    "task": "TASK",
}
EXPLAIN = COMPARE | {"policy": "--policy", "--policies": "--policy", "seed": "--seed"}
_KNOB = ("knob", "override")  # alone: the value is an unknown knob; followed by a knob's name: its value is refused


@contextmanager
def as_typed(names: Mapping[str, str], overrides: Sequence[tuple[str, str, float]] = ()) -> Iterator[None]:
    """Rename the field of an `InvalidInput` raised inside by `names`, and a knob to the `--set` that set it.

    `overrides`: the requested (policy, knob, value).
    """
    try:
        yield
    except InvalidInput as error:
        raise _renamed(error, names, overrides) from error


def _renamed(
    error: InvalidInput, names: Mapping[str, str], overrides: Sequence[tuple[str, str, float]]
) -> InvalidInput:
    kind, _, knob = error.field.partition(" ")
    if kind in _KNOB:
        name = knob or str(error.value)
        settings = [
            (f"{owner}.{override}" if not knob else f"{owner}.{override}={value:g}")
            for owner, override, value in overrides
            if override == name and (not knob or value == error.value)
        ]
        return InvalidInput("--set", settings[0] if settings else name, error.expected, error.hint)
    if error.field in names:
        return InvalidInput(names[error.field], error.value, error.expected, error.hint)
    return error
