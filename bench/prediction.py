"""How well the highest use of the next hours is predicted, and what may be lent by it, on real use that no setting was
chosen on, beside the rules that people use, the manager's `peak`, and an oracle that knows what comes.

Three sets. `google2019`: the mean of one cell, 20 days, smoother than any machine; settings are chosen on days 5 to 10,
figures are of the days after. `alibaba2018`: ten machines, eight days, means of 300 s; settings are chosen on four of
them, figures are of the other six, both from the third day on. `azure-vm`: virtual machines' cores, of which no use is
known, placed on the emptiest of five hosts of 64 cores: what is predicted is *allocation*, in steps of up to 30 cores,
and arrivals have no time of day; settings are chosen in weeks 4 to 10, figures are of weeks 11 to 20.

At each origin a rule says below which share of the capacity every step of the next hours stays. `over_pct`: share of
origins at which one did not, percent, with 95 % of it by the spread of days; `lent_pct`: capacity less what was said,
at least 0, mean; `of_oracle_pct`: that, in percent of what the oracle lends; `pinball_pct`: the loss of a quantile, at
the stated risk. A row `stated` has the risk as it is stated, or the sigmas and percentiles that a normal law would give
it; a row `tuned` has the setting that lent most with no more than that share of origins exceeded on the half for it,
the upper end of its interval included: of a few machines and days the share alone says little.
`covered`: whether a stated risk was kept within one point.

`--renewed` compares in another way: what is lent is decided anew at every step and needs to hold until the next one
only, and an hour counts as broken where it did not once; that is what `peak` is made for (`bench.lending`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from bench.back_test import alibaba2018, google2019
from bench.back_test import azure_hosts as allocated_hosts
from bench.machine import show
from bench.prediction_rules import (
    STEPS,
    HoltWinters,
    LastPeak,
    Manager,
    Quantiles,
    Rule,
    Series,
    Sigmas,
    Vpa,
    highest,
)
from cotenant.model.arrays import Float

SETS = ("google2019", "alibaba2018", "azure-vm")
WEEK_H = 168
_MAX_UNKNOWN = 0.25  # share of a horizon's steps


class Half(NamedTuple):
    """A set's use from its beginning, and the hour from which it counts."""

    series: Series
    first_hour: int


class Judged(NamedTuple):
    """A rule on one half."""

    over_pct: float
    low_pct: float
    high_pct: float
    lent_pct: float
    oracle_pct: float
    pinball_pct: float


def google() -> tuple[Half, Half]:
    """One cell."""
    use = google2019().reported.use / 1000.0
    return Half(Series(use[:, : 10 * 24 * STEPS].astype(float)), 4 * 24), Half(Series(use.astype(float)), 10 * 24)


def alibaba() -> tuple[Half, Half]:
    """Ten machines."""
    halves = alibaba2018()
    tuned, reported = (Series(part.use.astype(float) / 1000.0) for part in (halves.tuned, halves.reported))
    return Half(tuned, 48), Half(reported, 48)


def azure() -> tuple[Half, Half]:
    """Hosts."""
    use = allocated_hosts()[0]
    return (
        Half(Series(use[:, : 10 * WEEK_H * STEPS]), 3 * WEEK_H),
        Half(Series(use[:, : 20 * WEEK_H * STEPS]), 10 * WEEK_H),
    )


LOADERS: dict[str, Callable[[], tuple[Half, Half]]] = {"google2019": google, "alibaba2018": alibaba, "azure-vm": azure}


def stated(risk: float) -> list[Rule]:
    """Rules that can be told a risk."""
    z = float(norm.ppf(1 - risk))
    return [
        Quantiles(risk),
        Quantiles(risk, finite_sample=True),
        Sigmas(z, 24),
        Sigmas(z, 24, 1 - risk),
        HoltWinters(z),
        Vpa(1 - risk, 0.0),
        Manager(risk),
    ]


def settings() -> list[list[Rule]]:
    """What each rule may be set to; the first is ours."""
    weights = ((0.1, 0.0, 0.1), (0.3, 0.0, 0.2), (0.6, 0.0, 0.2), (0.3, 0.05, 0.2), (0.9, 0.0, 0.1))
    return [
        [Quantiles(risk) for risk in (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)],
        [LastPeak(hours, by) for hours in (1, 3, 24) for by in (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8)],
        [Sigmas(sigmas, hours) for hours in (2, 6, 24) for sigmas in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)],
        [Sigmas(n, hours, share) for hours in (6, 24) for n in (1.0, 2.0, 3.0, 5.0) for share in (0.9, 0.95, 0.99)],
        [HoltWinters(sigmas, *by) for by in weights for sigmas in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)],
        [Vpa(share, margin) for share in (0.9, 0.95, 0.99, 1.0) for margin in (0.0, 0.05, 0.1, 0.15, 0.25, 0.4)],
        [Manager(risk) for risk in (0.0003, 0.001, 0.003, 0.01, 0.03)],
    ]


def judged(rule: Rule, half: Half, every: int, horizon_h: int, risk: float) -> Judged:
    """The rule's figures for the risk."""
    series, said, real, days = half.series, [], [], []
    ahead = horizon_h * STEPS
    for at, below in rule.below(series, half.first_hour, every, horizon_h):
        future = series.use[:, at + 1 : at + 1 + ahead]
        if future.shape[1] < ahead:
            break
        unknown = np.isnan(future).mean(axis=1) > _MAX_UNKNOWN
        said.append(below)
        real.append(np.where(unknown, np.nan, highest(future, 1)))
        days.append((at + 1) // (24 * STEPS))
    return _figures(np.array(said), np.array(real), np.array(days), risk)


def renewed(rule: Rule, half: Half, risk: float) -> Judged:
    """The rule's figures where it decides at every step, by the hour."""
    series, said, real = half.series, [], []
    for at, below in rule.below(series, half.first_hour, 1, 1):
        if at + 1 < series.use.shape[1]:
            said.append(below)
            real.append(series.use[:, at + 1])
    below, use = np.array(said), np.array(real)
    hours = len(use) // STEPS * STEPS
    known = ~np.isnan(below) & ~np.isnan(use)
    over = (known & (use > below + 1e-9))[:hours].reshape(-1, STEPS, use.shape[1]).any(axis=1)
    counted = known[:hours].reshape(-1, STEPS, use.shape[1]).any(axis=1)
    lent, oracle = np.maximum(0.0, 1.0 - below[known]).mean(), (1.0 - use[known]).mean()
    share = float(over.sum() / counted.sum())
    by_day = np.array([part.mean() for part in np.array_split(over, max(2, over.shape[0] // 24))])
    half_width = 1.96 * float(by_day.std(ddof=1)) / len(by_day) ** 0.5
    return Judged(
        100 * share, 100 * max(0.0, share - half_width), 100 * (share + half_width),
        100 * float(lent), 100 * float(oracle), _pinball(below[known], use[known], risk),
    )  # fmt: skip


def _figures(said: Float, real: Float, days: Float, risk: float) -> Judged:
    known = ~np.isnan(said) & ~np.isnan(real)
    over = known & (real > said + 1e-9)
    share = over.sum() / max(1, known.sum())
    by_day = np.array([over[days == day].sum() / max(1, known[days == day].sum()) for day in np.unique(days)])
    half_width = 1.96 * float(by_day.std(ddof=1)) / len(by_day) ** 0.5
    return Judged(
        100 * float(share), 100 * max(0.0, float(share) - half_width), 100 * (float(share) + half_width),
        100 * float(np.maximum(0.0, 1.0 - said[known]).mean()), 100 * float((1.0 - real[known]).mean()),
        _pinball(said[known], real[known], risk),
    )  # fmt: skip


def _pinball(said: Float, real: Float, risk: float) -> float:
    off = real - said
    return 100 * float(np.maximum((1 - risk) * off, -risk * off).mean())


def rows_of(name: str, every: int, horizon_h: int, risks: Sequence[float], is_renewed: bool) -> list[dict[str, Any]]:
    """A row a rule and risk as stated; then a row a rule as tuned, for the first risk."""
    tuned, reported = LOADERS[name]()

    def found(rule: Rule, half: Half, risk: float) -> Judged:
        return renewed(rule, half, risk) if is_renewed else judged(rule, half, every, horizon_h, risk)

    rows = []
    for risk in risks:
        for rule in stated(risk):
            figures = found(rule, reported, risk)
            covered = "yes" if abs(figures.over_pct - 100 * risk) <= 1.0 else "no"
            rows.append(_row(name, "stated", risk, rule, figures) | {"covered": covered})
    for choices in settings():
        tried = [(rule, found(rule, tuned, risks[0])) for rule in choices]
        kept = [pair for pair in tried if pair[1].high_pct <= 100 * risks[0]]
        chosen = max(kept, key=lambda pair: pair[1].lent_pct) if kept else min(tried, key=lambda pair: pair[1].high_pct)
        rows.append(_row(name, "tuned", risks[0], chosen[0], found(chosen[0], reported, risks[0])) | {"covered": ""})
    return rows


def _row(name: str, how: str, risk: float, rule: Rule, found: Judged) -> dict[str, Any]:
    return {
        "set": name,
        "how": how,
        "risk_pct": 100 * risk,
        "rule": rule.name,
        "setting": rule.setting,
        "over_pct": round(found.over_pct, 2),
        "low": round(found.low_pct, 2),
        "high": round(found.high_pct, 2),
        "lent_pct": round(found.lent_pct, 1),
        "of_oracle_pct": round(100 * found.lent_pct / found.oracle_pct, 1),
        "pinball_pct": round(found.pinball_pct, 3),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """A row a rule, by set."""
    parser = argparse.ArgumentParser(prog="python -m bench.prediction", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--horizon", type=int, default=1, help="hours")
    parser.add_argument("--every", type=int, default=4, help="steps of 300 s between two origins")
    parser.add_argument("--risk", type=float, action="append", dest="risks", help="percent; default 1 and 5")
    parser.add_argument("--renewed", action="store_true", help="decide anew at every step, for one step")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    risks = [risk / 100 for risk in asked.risks or (1.0, 5.0)]
    for name in asked.sets or SETS:
        show(rows_of(name, asked.every, asked.horizon, risks, asked.renewed), asked.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
