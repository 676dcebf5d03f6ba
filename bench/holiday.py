"""What a week at half use does to the sizes of the week after it, by our rule and by what people use.

Two sets. `google2019`: the highest mean of a cell in each hour of 20 days; the last six days are the week after.
`office`: made workloads (a seed each) with a weekday peak, quiet nights and weekends, noise by hour and by day, and a
rare spike. History is 14 days, of which the second week is a holiday (`off`: all of it, or the last three days) or is
not; then a size is found at 1 % risk, as a RightSizing finds it, and held against the ordinary days that follow.
`over_pct`: hours of these days above the size, percent of all workloads' hours; `low` and `high`: 95 % of its mean over
workloads. `bad_pct`: workloads with more than 3 % of their hours above. `of_highest_pct`: the size, percent of what
the days after needed at most, mean.
Limits: the made workloads are alike in kind; a holiday longer than the history forgets what came before it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.back_test import google2019
from bench.machine import show
from cotenant.model.arrays import Float
from cotenant.policy.assess.predictor import Past
from cotenant.policy.assess.replica_sizes import replica_sizes
from cotenant.policy.assess.rivals import BorgPeak, LastDayPeak, VpaHistogram
from cotenant.policy.assess.rows import quantiles

DAY, WEEK, KNOWN = 24, 168, 336
RISK, HALF, BAD = 0.01, 0.5, 0.03
RIVALS = (LastDayPeak(), BorgPeak(), VpaHistogram())
OFF_DAYS = (0, 3, 7)


def office(seeds: int, first: int = 0) -> Float:
    """Three weeks by the hour, milli-CPU, one workload a seed."""
    rows = []
    for seed in range(first, first + seeds):
        random = np.random.default_rng(seed)
        hours = np.arange(3 * WEEK)
        day, hour = hours // DAY, hours % DAY
        shape = 0.25 + 0.75 * np.exp(-(((hour - random.uniform(10, 15)) / random.uniform(2.5, 5)) ** 2))
        shape *= np.where(day % 7 < 5, 1.0, random.uniform(0.3, 0.7))
        by_day = np.exp(random.normal(0, 0.08, 21))[day]
        spike = np.where(random.random(len(hours)) < 0.003, random.uniform(1.3, 2.0), 1.0)
        rows.append(random.uniform(300, 3000) * shape * by_day * np.exp(random.normal(0, 0.08, len(hours))) * spike)
    return np.array(rows)


def cell() -> Float:
    """The cell of Google's trace by the hour, of its highest means, as one workload."""
    shares = google2019().reported.use[0]
    whole = len(shares) // 12 * 12
    found: Float = np.nanmax(shares[:whole].reshape(-1, 12), axis=1)[None, :].astype(np.float64)
    return found


def sizes(history: Float) -> dict[str, Float]:
    """What each rule says after this history."""
    unknown = np.full(len(history), np.nan)
    past = Past(history.astype(np.float32), 3600.0, unknown, unknown)
    ours = [basis.amount if basis is not None else np.nan for basis in replica_sizes(past, 0.0, RISK)]
    found: dict[str, Float] = {"ours": np.array(ours)}
    for rule in RIVALS:
        found[rule.name] = quantiles(rule.below(past, DAY, RISK), 1.0)
    return found


def rows_of(name: str, use: Float) -> list[dict[str, Any]]:
    """A row a rule and length of the holiday."""
    after, rows = use[:, KNOWN : KNOWN + WEEK], []
    for off in OFF_DAYS:
        history = use[:, :KNOWN].copy()
        history[:, KNOWN - off * DAY :] *= HALF
        for rule, size in sizes(history).items():
            over = (after > size[:, None]).mean(axis=1)
            half = 1.96 * over.std(ddof=1) / np.sqrt(len(over)) if len(over) > 1 else np.nan
            row = {
                "set": name,
                "off": off,
                "rule": rule,
                "over_pct": 100 * over.mean(),
                "low": 100 * (over.mean() - half),
                "high": 100 * (over.mean() + half),
                "bad_pct": 100 * (over > BAD).mean(),
                "of_highest_pct": 100 * (size / after.max(axis=1)).mean(),
            }
            rows.append({key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """A table."""
    parser = argparse.ArgumentParser(prog="python -m bench.holiday", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="seed")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    show([*rows_of("office", office(asked.seeds, asked.first)), *rows_of("google2019", cell())], asked.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
