"""`cotenant lab gpus`: rules of sharing GPUs between model servers and offline jobs, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

from cotenant.model.errors import InvalidInput
from cotenant_lab.gpuworld.comparing import (
    BESIDE,
    BLIND,
    DEDICATED,
    HEADROOM,
    OURS,
    POLICIES,
    SPOT,
    GpuComparison,
    compare,
)
from cotenant_lab.gpuworld.config import GpuWorldConfig
from cotenant_lab.gpuworld.request_trace import read_requests
from cotenant_lab.seeds import read_seeds
from cotenant_lab.statistics import Interval


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal: a figure of ours over that of a rival, and what it should be at most or at least."""

    text: str
    figure: str
    rival: str
    bound: float
    at_least: bool

    def is_met(self, ratio: Interval) -> bool:
        """Whether the whole interval is on the right side; with one seed, its value."""
        half = 0.0 if isnan(ratio.half_width) else ratio.half_width
        return ratio.mean - half >= self.bound if self.at_least else ratio.mean + half <= self.bound


GOALS = (
    Goal("offline work against dedicated", "offline_cards", DEDICATED, 1.5, True),
    Goal("missed objectives against mps-blind", "missed", BLIND, 0.45, False),
    Goal("evictions a start against spot", "eviction_rate", SPOT, 0.55, False),
)


def report(
    seeds: str, tuning_seeds: str, policies: str, jobs: int, requests: Sequence[Path] = (), *, as_json: bool
) -> int:
    """Compare and print. Raises `InvalidInput`."""
    shown, tuning = read_seeds(seeds), read_seeds(tuning_seeds, "--tuning-seeds")
    if both := set(shown) & set(tuning):
        raise InvalidInput("--tuning-seeds", tuning_seeds, f"none of --seeds, and {min(both)} is one")
    if not 1 <= jobs <= 64:
        raise InvalidInput("--jobs", jobs, "1 to 64")
    names = tuple(POLICIES) if policies == "all" else tuple(dict.fromkeys(policies.split(",")))
    for name in names:
        if name not in POLICIES:
            raise InvalidInput("--policies", name, "all, or some of " + ", ".join(POLICIES))
    config = GpuWorldConfig()
    if requests:
        config = replace(config, requests=read_requests(requests))
    found = compare(config, names, shown, tuning, jobs)
    if as_json:
        print(json.dumps(as_object(found)))
    else:
        for line in table(found):
            print(line)
    return 0


def table(found: GpuComparison) -> list[str]:
    """The figures, the settings, and ours against the goals. At most 110 columns."""
    count = len(found.seeds)
    lines = [
        f"{'policy':19}{'missed %':>12}{'kept':>7}{'TTFT p99 s':>12}{'TPOT p99 ms':>13}{'offline cards':>15}"
        f"{'evictions %':>13}{'lost %':>8}{'queue s':>10}"
    ]
    for one in found.results:
        kept = f"{one.within}/{count}"
        lines.append(
            f"{one.policy:19}{_text(one.missed, 100):>12}{kept:>7}{_text(one.first_token_p99_ms, 0.001):>12}"
            f"{_text(one.per_token_p99_ms, 1, 0):>13}{_text(one.offline_cards, 1):>15}"
            f"{_text(one.eviction_rate, 100, 1):>13}{100 * one.lost.mean:>8.2f}{_text(one.queue_s, 1, 0):>10}"
        )
    lines += ["", "missed: requests over their objective; kept: seeds within the budget of 1 %;"]
    lines += ["evictions: of 100 starts; offline cards: useful work, in cards that do nothing else;"]
    lines += ["queue: mean time that a job waited", ""]
    lines += [f"{one.policy:19}{one.setting}" for one in found.results]
    for ours, goal, ratio in _ratios(found):
        word = "at least" if goal.at_least else "at most"
        answer = "met" if goal.is_met(ratio) else "not met"
        lines.append(f"{ours}: {goal.text}: {_text(ratio, 1)} times, goal {word} {goal.bound:g}: {answer}")
    return lines


def as_object(found: GpuComparison) -> dict[str, Any]:
    """The one object of --json. Shares are 0 to 1."""
    figures = ("missed", "first_token_p99_ms", "per_token_p99_ms", "offline_cards", "eviction_rate", "lost", "queue_s")
    rows = [
        {"policy": one.policy, "setting": one.setting, "kept": one.within}
        | {name: _pair(getattr(one, name)) for name in figures}
        | {"by_seed": [{name: getattr(outcome, name) for name in figures} for outcome in one.outcomes]}
        for one in found.results
    ]
    goals = [
        {"policy": ours, "goal": goal.text, "ratio": _pair(ratio), "bound": goal.bound, "met": goal.is_met(ratio)}
        for ours, goal, ratio in _ratios(found)
    ]
    return {"seeds": found.seeds, "tuning_seeds": found.tuning_seeds, "rows": rows, "goals": goals}


def _ratios(found: GpuComparison) -> list[tuple[str, Goal, Interval]]:
    """Each of ours against each goal whose rival was run."""
    names = {one.policy for one in found.results}
    return [
        (ours, goal, found.ratio(goal.figure, ours, goal.rival))
        for ours in (OURS, HEADROOM, BESIDE)
        for goal in GOALS
        if {ours, goal.rival} <= names
    ]


def _pair(value: Interval) -> dict[str, float | None]:
    return {"mean": _number(value.mean), "ci": _number(value.half_width)}


def _number(value: float) -> float | None:
    return None if isnan(value) else round(value, 6)


def _text(value: Interval, scale: float, digits: int = 2) -> str:
    if isnan(value.mean):
        return "-"
    half = "" if isnan(value.half_width) else f"±{value.half_width * scale:.{digits}f}"
    return f"{value.mean * scale:.{digits}f}{half}"
