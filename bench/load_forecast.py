"""Whether a forecast overloads fewer nodes than the last mean: a small seeded simulation with one number per node.

Pods arrive at a steady rate, stay for about two hours, and use CPU in long calm and short busy phases (four times as
much); each minute every node reports its mean use. A pod goes to the node with the lowest reported use among those that
pass the filter; a pod without one is rejected. The variants differ in the use that the filter assumes: the last
minute's mean, the 95th percentile of the last five minutes' means, or a forecast. Every filter is run with several
thresholds, because a stricter filter overloads less by placing less: compare rows with equal `placed_pct`.
`overload_pct`: share of node-minutes in which more than 90 % of the CPU was demanded. Means over the seeds.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from bench.machine import show
from cotenant.model.arrays import Float
from cotenant.model.machine.node_metric import Use
from cotenant.policy.placement.load_aware.forecast import NO_HISTORY, LoadForecast

NODES, CPU_M, MINUTES, STAY_MIN = 40, 32_000, 600, 120
CALM_M, BUSY, TO_BUSY, TO_CALM = 500.0, 4.0, 1 / 40, 1 / 10
ESTIMATE_M = 850
FILTERS: dict[str, LoadForecast | None] = {
    "mean": None,
    "p95 of 5 min": None,
    "forecast p90, 10 min": LoadForecast(90, 600.0),
    "forecast p95, 30 min": LoadForecast(95, 1800.0),
}


def simulate(seed: int, name: str, threshold_pct: int, arrivals_per_min: float, uneven: bool) -> tuple[float, float]:
    """Shares of pods placed and of node-minutes overloaded."""
    rng = np.random.default_rng(seed)
    forecast = FILTERS[name]
    node = np.empty(0, dtype=np.int64)
    busy = np.empty(0, dtype=np.bool_)
    varies = np.empty(0, dtype=np.bool_)
    ends = np.empty(0)
    histories = [NO_HISTORY] * NODES
    means: list[Float] = []
    placed = arrived = overloaded = counted = 0
    for minute in range(MINUTES):
        stays = ends > minute
        node, busy, ends, varies = node[stays], busy[stays], ends[stays], varies[stays]
        draw = rng.random(len(busy))
        busy = np.where(busy, draw >= TO_CALM, draw < TO_BUSY) & varies
        high_m = CALM_M * (4.0 * BUSY if uneven else BUSY)
        wanted = np.bincount(node, weights=np.where(busy, high_m, CALM_M), minlength=NODES)
        used = np.minimum(wanted, CPU_M)
        means.append(used)
        if minute >= STAY_MIN:
            overloaded += int((wanted > 0.9 * CPU_M).sum())
            counted += NODES
        if forecast is not None:
            histories = [
                history.with_use(Use(int(use)), 60.0 * minute, forecast)
                for history, use in zip(histories, used, strict=True)
            ]
            seen = np.array(
                [history.expected(Use(int(use)), forecast).cpu_m for history, use in zip(histories, used, strict=True)],
                dtype=np.float64,
            )
        elif name == "mean":
            seen = used
        else:
            seen = np.percentile(np.stack(means[-5:]), 95, axis=0)
        expected = np.zeros(NODES)
        for _ in range(rng.poisson(arrivals_per_min)):
            arrived += minute >= STAY_MIN
            passing = np.flatnonzero((seen + expected + ESTIMATE_M) * 100.0 <= (threshold_pct + 0.5) * CPU_M)
            if not len(passing):
                continue
            row = int(passing[np.argmin((used + expected)[passing])])
            expected[row] += ESTIMATE_M
            placed += minute >= STAY_MIN
            node = np.append(node, row)
            busy = np.append(busy, False)
            varies = np.append(varies, not uneven or rng.random() < 0.2)
            ends = np.append(ends, minute + rng.exponential(STAY_MIN))
    return 100.0 * placed / max(1, arrived), 100.0 * overloaded / max(1, counted)


def rows_for(seeds: int, arrivals_per_min: float, thresholds: list[int], uneven: bool) -> list[dict[str, Any]]:
    """One row per filter and threshold."""
    rows = []
    for name in FILTERS:
        for threshold_pct in thresholds:
            found = np.array([simulate(seed, name, threshold_pct, arrivals_per_min, uneven) for seed in range(seeds)])
            rows.append(
                {
                    "filter": name,
                    "threshold_pct": threshold_pct,
                    "placed_pct": round(float(found[:, 0].mean()), 2),
                    "overload_pct": round(float(found[:, 1].mean()), 3),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load_forecast", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--arrivals", type=float, default=11.0, help="pods per minute")
    parser.add_argument("--threshold", type=int, action="append", help="per cent; may be given several times")
    parser.add_argument(
        "--uneven", action="store_true", help="only a fifth of the pods have busy phases, of sixteen times the calm use"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    show(rows_for(given.seeds, given.arrivals, given.threshold or [60, 65, 70, 75, 80, 85], given.uneven), given.json)


if __name__ == "__main__":
    main()
