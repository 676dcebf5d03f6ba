"""What a cluster gains in its first days from what others learned of the use of like nodes, and what a liar can do.

Each set is cut into five clusters. Four learn (`UseByHour`'s forecast, as in the manager); what they state is put
together as by a hub; the fifth begins with it and without it, at the hour after the four have ended. Each is the fifth
once. Sets: `containers`, 4,040 machines of Alibaba's 2018 contest by number, one day of each: the four learn from their
machines' day, the fifth has its own machines' one (`--machines` of each cluster); `machines`, ten machines of the
Alibaba 2018 trace, two a cluster: four days, then three; `google2019`, one cell, whose days 1 to 20 are cut into five
times four; `azure-vm`, virtual machines by number, each cluster with two hosts of 64 cores: weeks 5 to 8, then a week.
No setting of a prediction was chosen by these figures; that between two middle errors the larger one counts, and that a
weight ends at the middle one's, was, by what the liars did at a horizon of 24 hours.

Every hour a bound is stated for the next `--horizon` hours at `--risk`; where too little is known it is that of `peak`,
as in the manager. Of the fifth's first day, and of all later ones: `stated_pct`, bounds that are no `peak`; `over_pct`,
bounds that use went beyond; `lent_pct`, capacity less the bound; `pinball_pct`, the loss of a quantile, and `gain`: by
how much it is smaller than alone, the mean over the five with its 95 % interval (Student).
Liars state that use falls to nothing and never errs (`low`), or that twice the size may come (`high`), with all the
weight that a cluster can have: `one of four` others, `one of three`, and `two of four`, which nothing bounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from bench.back_test import STEP_S, azure_machines, google2019, placed
from bench.lending import machines as machines_of_lending
from bench.machine import show
from bench.prediction_rules import STEPS, Manager, Series, highest
from cotenant.model.arrays import Float
from cotenant.model.prediction.shared_use import PPM, UseEvidence
from cotenant.policy.federation.shared_predictions import MAX_HOURS, predicted_together
from cotenant.policy.prediction.evidence import evidence, with_others
from cotenant.policy.prediction.forecast import ForecastSettings, UseForecast, bounds, hour_seen, new_forecast, tables

CLUSTERS, DAY_H = 5, 24
CORES = 64
SETS = ("containers", "machines", "google2019", "azure-vm")
ARMS = ("alone", "shared", "low, one of four", "high, one of four", "low, one of three", "low, two of four")
_STUDENT_95 = 2.776


@dataclass(frozen=True, slots=True)
class Cut:
    """One cluster: what it learns from as one of the four, and what it meets as the fifth; `[series, steps]`."""

    learned: Float
    met: Float


def containers(machines: int) -> tuple[list[Cut], int]:
    """Of each cluster as many machines as asked, and the hours of a day."""
    days = []
    for machine in machines_of_lending("containers")[: CLUSTERS * machines]:
        day = np.repeat(machine.use.sum(axis=0)[: DAY_H * 4], STEPS // 4)
        days.append(day)
    use = np.array(days)
    return [Cut(use[at::CLUSTERS], use[at::CLUSTERS]) for at in range(CLUSTERS)], DAY_H


def machines(_: int) -> tuple[list[Cut], int]:
    """Two a cluster."""
    rows = []
    for machine in machines_of_lending("machines")[: 2 * CLUSTERS]:
        bucket = (machine.times // STEP_S).astype(np.int64)
        steps = 8 * DAY_H * STEPS
        total = np.bincount(bucket, machine.use[0], steps)[:steps]
        count = np.bincount(bucket, minlength=steps)[:steps]
        rows.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    use, end = np.array(rows), 4 * DAY_H
    cut = use[:, : end * STEPS], use[:, end * STEPS : 7 * DAY_H * STEPS]
    return [Cut(cut[0][at::CLUSTERS], cut[1][at::CLUSTERS]) for at in range(CLUSTERS)], end


def google(_: int) -> tuple[list[Cut], int]:
    """Four days each; the hour of the week goes on as if they came after one another."""
    use, width = google2019().reported.use.astype(float) / 1000.0, 4 * DAY_H * STEPS
    parts = [use[:, at * width : (at + 1) * width] for at in range(CLUSTERS)]
    return [Cut(part, part) for part in parts], 4 * DAY_H


def azure(_: int) -> tuple[list[Cut], int]:
    """Allocation of hosts."""
    arrivals, departures, cpus = azure_machines()
    weeks, steps = 9, 9 * 7 * DAY_H * STEPS
    found = []
    for at in range(CLUSTERS):
        came, went, cores = (column[at::CLUSTERS] for column in (arrivals, departures, cpus))
        on, change = placed(came, went, cores, 2), np.zeros((2, steps + 1))
        for hours, sign in ((came, 1.0), (went, -1.0)):
            column = np.minimum(np.round(hours[on >= 0] * STEPS).astype(np.int64), steps)
            np.add.at(change, (on[on >= 0], column), sign * cores[on >= 0])
        use = np.cumsum(change, axis=1)[:, :steps] / CORES
        begin, end = 4 * 7 * DAY_H * STEPS, 8 * 7 * DAY_H * STEPS
        found.append(Cut(use[:, begin:end], use[:, end:]))
    assert weeks * 7 * DAY_H * STEPS == steps
    return found, 4 * 7 * DAY_H


LOADERS: dict[str, Callable[[int], tuple[list[Cut], int]]] = {
    "containers": containers,
    "machines": machines,
    "google2019": google,
    "azure-vm": azure,
}


def learned(use: Float, settings: ForecastSettings) -> UseForecast:
    """The forecast after all of it."""
    forecast, peaks = new_forecast(np.zeros(len(use), np.int64), settings), Series(use).peaks()
    for hour in range(peaks.shape[1]):
        forecast = hour_seen(forecast, peaks[:, hour], use[:, (hour + 1) * STEPS - 1])
    return forecast


def liar(honest: UseEvidence, is_low: bool) -> UseEvidence:
    """What it states with all the weight that it can have."""
    horizons = tuple(
        msgspec.structs.replace(
            one,
            carry_ppm=0 if is_low else one.carry_ppm,
            error_ppm=-PPM if is_low else PPM,
            size_ppm=0 if is_low else PPM,
            quantiles_ppm=tuple((-5 if is_low else 15) * PPM for _ in one.quantiles_ppm),
        )
        for one in honest.horizons
    )
    flat = {"day_ppm": (0,) * 24, "week_ppm": (0,) * 168}
    return msgspec.structs.replace(honest, hours=MAX_HOURS, horizons=horizons, **flat)


def told(arm: str, others: Sequence[UseEvidence]) -> UseEvidence | None:
    """What the fifth gets."""
    if arm == "alone":
        return None
    others = others[: 3 if arm.endswith("of three") else 4]
    liars = {"shared": 0, "low, two of four": 2}.get(arm, 1)
    lies = [liar(one, is_low=arm.startswith("low")) for one in others[:liars]]
    return predicted_together("kind", [*lies, *others[liars:]])


@dataclass(frozen=True, slots=True)
class Said:
    """`[hours, series]`: bounds, whether they are no `peak`, and what came."""

    below: Float
    is_stated: Float
    came: Float


def begun(use: Float, first_hour: int, beginning: UseEvidence | None, settings: ForecastSettings) -> Said:
    """A new cluster's bounds, hour by hour."""
    (horizon,), (risk,) = settings.horizons_h, settings.risks
    forecast = new_forecast(np.zeros(len(use), np.int64), settings, first_hour - 1)
    if beginning is not None:
        forecast = with_others(forecast, {0: beginning})
    series, ahead = Series(use), horizon * STEPS
    peaks = dict(Manager(risk).below(series, 1, STEPS, horizon))
    below, is_stated, came, by_hour = [], [], [], series.peaks()
    for hour in range(series.hours - horizon):
        at = (hour + 1) * STEPS - 1
        forecast = hour_seen(forecast, by_hour[:, hour], use[:, at])
        bound = bounds(tables(forecast, 0), 0.0, use[:, at])[:, 0]
        future = use[:, at + 1 : at + 1 + ahead]
        is_stated.append(~np.isnan(bound))
        below.append(np.where(np.isnan(bound), peaks[at], bound))
        came.append(np.where(np.isnan(future).mean(axis=1) > 0.25, np.nan, highest(future, 1)))
    return Said(np.array(below), np.array(is_stated), np.array(came))


def figures(said: Said, rows: slice, risk: float) -> dict[str, float]:
    """Of these hours, percent."""
    below, came = said.below[rows], said.came[rows]
    known = ~np.isnan(below) & ~np.isnan(came)
    off = came[known] - below[known]
    return {
        "stated_pct": 100 * float(said.is_stated[rows][known].mean()),
        "over_pct": 100 * float((off > 1e-9).mean()),
        "lent_pct": 100 * float(np.maximum(0.0, 1.0 - below[known]).mean()),
        "pinball_pct": 100 * float(np.maximum((1 - risk) * off, -risk * off).mean()),
    }


def rows_of(name: str, horizon: int, risk: float, machines_each: int) -> list[dict[str, Any]]:
    """A row an arm and time."""
    cuts, first_hour = LOADERS[name](machines_each)
    settings = ForecastSettings(horizons_h=(horizon,), risks=(risk,))
    stated = [evidence(learned(cut.learned, settings), 0, "kind", least_series=1) for cut in cuts]
    if None in stated:
        raise SystemExit(f"{name}: too short for {horizon} hours: a cluster learned too little")
    rows = []
    said = {
        arm: [
            begun(cut.met, first_hour, told(arm, [one for k, one in enumerate(stated) if k != at and one]), settings)
            for at, cut in enumerate(cuts)
        ]
        for arm in ARMS
    }
    for when, part in (("first day", slice(0, DAY_H)), ("later", slice(DAY_H, None))):
        if not len(said["alone"][0].below[part]):
            continue
        alone = [figures(one, part, risk) for one in said["alone"]]
        for arm in ARMS:
            found = [figures(one, part, risk) for one in said[arm]]
            gains = [before["pinball_pct"] - after["pinball_pct"] for before, after in zip(alone, found, strict=True)]
            half = _STUDENT_95 * float(np.std(gains, ddof=1)) / len(gains) ** 0.5
            mean = {key: round(float(np.mean([one[key] for one in found])), 3) for key in found[0]}
            gain = {"gain": round(float(np.mean(gains)), 3), "gain_half": round(half, 3)}
            rows.append({"set": name, "when": when, "arm": arm, **mean, **gain})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """A table a set."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.shared_predictions", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--horizon", type=int, default=1, help="hours")
    parser.add_argument("--risk", type=float, default=1.0, help="percent")
    parser.add_argument("--machines", type=int, default=10, help="of a cluster of `containers`")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    for name in asked.sets or SETS:
        show(rows_of(name, asked.horizon, asked.risk / 100, asked.machines), asked.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
