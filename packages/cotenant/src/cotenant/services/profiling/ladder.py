"""A run: rungs of load beside one replica, its signal window by window, an abort when it suffers too much.

A measurement in production may not cost more than was agreed, and must stop the load at once when it does. For each
axis rising levels, some windows without and some with the load each; after every window the load is stopped for good if
the replica is beyond the agreed limit. The machine is behind `Bench` and time behind it too, so this file is a plain
loop.
Limits: what is too bad for less than one window is seen at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from typing import Protocol

from cotenant.model.cluster.workload_profile import AxisReading, ProfileAxis, Reading, Unknown
from cotenant.model.errors import InvalidInput
from cotenant.policy.interference.ladder import LadderStep, levels, must_abort, sensitivity

MEASURED = tuple(axis for axis in ProfileAxis if axis is not ProfileAxis.START_UP)
NO_TENDENCY = Unknown("a run measures sensitivity only")
NOT_PART = Unknown("it was not part of the run")
NOT_PART_READING = AxisReading(NO_TENDENCY, NOT_PART)
NOT_STARTED = Unknown("a run does not restart the replica")


class Bench(Protocol):
    """The machine with the replica. Every method raises `CotenantError` where it cannot go on."""

    @property
    def signal(self) -> str:
        """latency, runDelay or pressure."""
        ...

    @property
    def objective(self) -> float | None:
        """In the signal's unit; None without one."""
        ...

    def start(self, axis: ProfileAxis, level: float) -> None:
        """Begin a load."""
        ...

    def stop(self) -> None:
        """End it; returns when it is gone."""
        ...

    def wait_until_steady(self) -> None:
        """Wait until the signal is of the present load only."""
        ...

    def window(self) -> float:
        """Wait for one window, and what the replica suffered in it; NaN where nothing was measured."""
        ...


@dataclass(frozen=True, slots=True)
class Ladder:
    """What to run. Raises `InvalidInput`."""

    axes: tuple[ProfileAxis, ...] = MEASURED
    levels: int = 4
    windows: int = 4  # a level, and as many before it without load
    abort_factor: float = 2.0  # of the objective
    abort_ratio: float = 10.0  # of the signal without load, where there is no objective

    def __post_init__(self) -> None:
        levels(self.levels)
        if not 1 <= self.windows <= 100:
            raise InvalidInput("--windows", self.windows, "1 to 100")
        if not (1.0 <= self.abort_factor < 1000.0):
            raise InvalidInput("--abort-factor", self.abort_factor, "1 or more")
        if not (1.0 < self.abort_ratio < 1000.0):
            raise InvalidInput("--abort-ratio", self.abort_ratio, "above 1")
        if not self.axes:
            raise InvalidInput("--axes", "", "at least one of " + ", ".join(MEASURED))
        if wrong := [axis for axis in self.axes if axis not in MEASURED]:
            raise InvalidInput("--axes", ", ".join(wrong), "some of " + ", ".join(MEASURED), NOT_STARTED.because)


@dataclass(frozen=True, slots=True)
class LadderResult:
    """All of a run. `aborted` is the reason, empty for a whole run."""

    axes: Mapping[ProfileAxis, AxisReading]
    steps: Mapping[ProfileAxis, tuple[LadderStep, ...]] = field(default_factory=dict)
    aborted: str = ""


def climb(bench: Bench, ladder: Ladder, report: Callable[[str], None] = lambda line: None) -> LadderResult:
    """Run the ladder. The load is stopped on every path out."""
    found = dict.fromkeys(ProfileAxis, NOT_PART_READING)
    found[ProfileAxis.START_UP] = AxisReading(NO_TENDENCY, NOT_STARTED)
    steps: dict[ProfileAxis, tuple[LadderStep, ...]] = {}
    aborted = ""
    try:
        for axis in ladder.axes:
            if aborted:
                found[axis] = AxisReading(NO_TENDENCY, Unknown(f"not measured: the run was aborted ({aborted})"))
                continue
            steps[axis], aborted = _axis(bench, ladder, axis, report)
            reading: Reading = sensitivity(steps[axis])
            if aborted and isinstance(reading, Unknown):
                reading = Unknown(f"aborted: {aborted}")
            found[axis] = AxisReading(NO_TENDENCY, reading)
    finally:
        bench.stop()
    return LadderResult(found, steps, aborted)


def _axis(
    bench: Bench, ladder: Ladder, axis: ProfileAxis, report: Callable[[str], None]
) -> tuple[tuple[LadderStep, ...], str]:
    steps: list[LadderStep] = []
    for level in levels(ladder.levels):
        bench.wait_until_steady()
        alone, aborted = _windows(bench, ladder, ())
        if aborted:
            return tuple(steps), f"without load: {aborted}"
        bench.start(axis, level)
        try:
            bench.wait_until_steady()
            values, aborted = _windows(bench, ladder, alone)
        finally:
            bench.stop()
        steps.append(LadderStep(level, alone, values))
        report(f"{axis} {level:.0%}: {_middle(values)} ({_middle(alone)} without load)")
        if aborted:
            report(f"aborted at {axis} {level:.0%}: {aborted}")
            return tuple(steps), f"{axis} at {level:.0%}: {aborted}"
    return tuple(steps), ""


def _windows(bench: Bench, ladder: Ladder, alone: Sequence[float]) -> tuple[tuple[float, ...], str]:
    """Windows of one rung, and why it must end. `alone`: those without load."""
    values: list[float] = []
    for _ in range(ladder.windows):
        values.append(bench.window())
        if aborted := _too_bad(bench, ladder, values[-1], alone):
            return tuple(values), aborted
    return tuple(values), ""


def _too_bad(bench: Bench, ladder: Ladder, value: float, without_load: Sequence[float]) -> str:
    known = [entry for entry in without_load if isfinite(entry)]
    alone = median(known) if known else float("nan")
    return must_abort(value, alone, bench.objective, ladder.abort_factor, ladder.abort_ratio)


def _middle(values: Sequence[float]) -> str:
    known = [value for value in values if isfinite(value)]
    return f"{median(known):.4g}" if known else "nothing measured"
