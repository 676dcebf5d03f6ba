"""Values of `cotenant lab compare` that can be judged by themselves, before the lab is imported.

Each raises `InvalidInput` with the option.
"""

from __future__ import annotations

from difflib import get_close_matches
from math import isfinite

from cotenant.model.errors import InvalidInput
from cotenant_lab.world.config import PRESSURE_CHOICES


def check_jobs(jobs: int | None) -> None:
    """Parallel runs."""
    if jobs is not None and jobs < 1:
        raise InvalidInput("--jobs", jobs, "at least 1")


def read_loads(text: str) -> tuple[float, ...]:
    """Ascending."""
    try:
        return tuple(sorted(float(part) for part in text.split(",")))
    except ValueError as error:
        raise InvalidInput("--load", text, "numbers with commas between, e.g. 0.77 or 0.7,0.8,0.9") from error


def check_number(name: str, value: float, most: float) -> float:
    """The value of an option."""
    if not isfinite(value) or not 0 <= value <= most:
        raise InvalidInput(name, value, f"a number from 0 to {most:g}")
    return value


def check_law(name: str) -> str:
    """The name of a law of contention."""
    if name not in PRESSURE_CHOICES:
        close = get_close_matches(name, PRESSURE_CHOICES, n=1)
        raise InvalidInput(
            "--pressure-law",
            name,
            "one of " + ", ".join(PRESSURE_CHOICES),
            f"did you mean {close[0]}?" if close else "",
        )
    return name


def read_override(text: str) -> tuple[str, str, float]:
    """Policy, knob and value of one `--set`."""
    target, equals, value = text.partition("=")
    policy, dot, knob = target.rpartition(".")
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not (equals and dot and policy and knob and isfinite(number)):
        raise InvalidInput("--set", text, "POLICY.KNOB=NUMBER, e.g. cotenant.spread_weight=0.2")
    return policy, knob, number
