"""The outcome of an experiment: figures, checks against their pass lines, the table, the plots; as JSON and readable.

A script, a terminal and a page must show the same, and a machine that other work disturbed proves nothing, neither way.
One value; `to_object` is what `--json` prints and `results.json` holds. A verdict is one of three: where too few rounds
were undisturbed it is not decided, and says why in a sentence.
Limits: figures are the experiment's own JSON object, for each has other arms.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cotenant import __version__
from cotenant.model.json_object import JsonMapping


class CheckVerdict(StrEnum):
    """What a check, or a run, came to."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True, slots=True)
class FigureCheck:
    """A figure and its pass line. `measured` None: it could not be measured, which fails where the rounds count."""

    what: str
    measured: float | None
    bound: float
    at_least: bool = False  # else: at most
    low: float | None = None  # 95 % interval, where there is one
    high: float | None = None
    unit: str = ""
    arms: tuple[str, ...] = ()  # whose blocks it rests on; () = all
    why_not_decided: str = ""  # one sentence; empty where enough rounds of its arms count

    @property
    def passed(self) -> bool:
        """Whether the figure itself meets its bound, however disturbed the rounds were; the interval is
        informational.
        """
        if self.measured is None or math.isnan(self.measured):
            return False
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def verdict(self) -> CheckVerdict:
        """Whether it passes, where that is decided."""
        if self.why_not_decided:
            return CheckVerdict.NOT_DECIDED
        return CheckVerdict.PASSED if self.passed else CheckVerdict.FAILED


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a picture."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str  # a name of cotenant/model/pages/figures.py
    is_filled: bool = False
    is_dashed: bool = False
    is_points: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot for the page: `panels` side by side share their axes."""

    title: str
    x_title: str
    y_title: str
    panels: Sequence[tuple[str, Sequence[Curve]]]  # a panel's title and its lines
    x_log: bool = False
    y_log: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of a run."""

    experiment: str
    title: str
    rounds: int  # that count
    discarded: tuple[tuple[int, str], ...]  # round and why
    seed: int
    figures: JsonMapping
    checks: tuple[FigureCheck, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    repeated: int = 0  # blocks that were repeated because of disturbance
    worst_foreign: float = 0.0
    worst_steal: float = 0.0

    @property
    def verdict(self) -> CheckVerdict:
        """Failed where a check fails, passed where all pass."""
        found = {check.verdict for check in self.checks}
        if CheckVerdict.FAILED in found:
            return CheckVerdict.FAILED
        return (
            CheckVerdict.PASSED if self.checks and CheckVerdict.NOT_DECIDED not in found else CheckVerdict.NOT_DECIDED
        )

    @property
    def why_not_decided(self) -> str:
        """One sentence; empty where every check is decided."""
        return next((check.why_not_decided for check in self.checks if check.why_not_decided), "")

    @property
    def passed(self) -> bool:
        """Whether the verdict is `PASSED`."""
        return self.verdict is CheckVerdict.PASSED

    def to_object(self) -> dict[str, object]:
        """One JSON object; the experiment's own figures are at its top level."""
        return {
            "experiment": self.experiment,
            **self.figures,
            "rounds": self.rounds,
            "discarded": len(self.discarded),
            "discarded_because": [{"round": number, "why": why} for number, why in self.discarded],
            "blocks_repeated": self.repeated,
            "seed": self.seed,
            "verdict": self.verdict.value,
            "why_not_decided": self.why_not_decided,
            "passed": self.passed,
            "checks": [
                {
                    "what": check.what,
                    "measured": check.measured,
                    "low": check.low,
                    "high": check.high,
                    "bound": check.bound,
                    "at_least": check.at_least,
                    "unit": check.unit,
                    "verdict": check.verdict.value,
                    "passed": None if check.verdict is CheckVerdict.NOT_DECIDED else check.passed,
                    "why_not_decided": check.why_not_decided,
                }
                for check in self.checks
            ],
            "notes": list(self.notes),
            "worst_foreign_share": round(self.worst_foreign, 4),
            "worst_steal_share": round(self.worst_steal, 4),
            "machine": machine(),
        }


def machine() -> dict[str, str | int]:
    """The machine it was measured on, without host names."""
    return {
        "cotenant": __version__,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
    }
