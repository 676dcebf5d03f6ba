"""The outcome of an experiment: figures, checks against their pass lines, the table, the plots; as JSON and readable.

Problem: a script, a terminal and a page must show the same. Choice: one value; `to_object` is what `--json` prints and `results.json` holds. Limits:
figures are the experiment's own JSON object, for each has other arms.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cotenant import __version__


@dataclass(frozen=True, slots=True)
class Check:
    """A figure and its pass line. `measured` None: it could not be measured, which fails."""

    what: str
    measured: float | None
    bound: float
    at_least: bool = False  # else: at most
    low: float | None = None  # 95 % interval, where there is one
    high: float | None = None
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the figure itself meets its bound; the interval is informational."""
        if self.measured is None or math.isnan(self.measured):
            return False
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a picture."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    colour: str  # a name of lab/report/figures.py
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
    figures: Mapping[str, Any]
    checks: tuple[Check, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    repeated: int = 0  # blocks that were repeated because of disturbance
    worst_foreign: float = 0.0
    worst_steal: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every check passes over at least one round that counts."""
        return self.rounds > 0 and all(check.passed for check in self.checks)

    def to_object(self) -> dict[str, Any]:
        """One JSON object; the experiment's own figures are at its top level."""
        return {
            "experiment": self.experiment,
            **self.figures,
            "rounds": self.rounds,
            "discarded": len(self.discarded),
            "discarded_because": [{"round": number, "why": why} for number, why in self.discarded],
            "blocks_repeated": self.repeated,
            "seed": self.seed,
            "passed": self.passed,
            "checks": [
                {
                    "what": each.what,
                    "measured": each.measured,
                    "low": each.low,
                    "high": each.high,
                    "bound": each.bound,
                    "at_least": each.at_least,
                    "unit": each.unit,
                    "passed": each.passed,
                }
                for each in self.checks
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
