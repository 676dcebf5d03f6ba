"""Errors in the words that the person typed.

Problem: a scenario names its parameters (`load`, `policy`, a knob), because it also serves as a library; whoever typed `--load` looks for that.
Choice: the fields are renamed once, where a command calls the lab; nothing else of the error changes. Limits: a field that is not listed here,
such as a file with its line, stays as it is.
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
_KNOB = ("knob", "override")  # alone: no such knob, which is the value; with the knob's name: its value is refused


@contextmanager
def as_typed(names: Mapping[str, str], overrides: Sequence[tuple[str, str, float]] = ()) -> Iterator[None]:
    """Rename the field of an `InvalidInput` raised inside by `names`, and a knob to the `--set` that turned it.

    `overrides`: the (policy, knob, value) that were asked for.
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
        turned = [
            (f"{owner}.{each}" if not knob else f"{owner}.{each}={value:g}")
            for owner, each, value in overrides
            if each == name and (not knob or value == error.value)
        ]
        return InvalidInput("--set", turned[0] if turned else name, error.expected, error.hint)
    if error.field in names:
        return InvalidInput(names[error.field], error.value, error.expected, error.hint)
    return error
