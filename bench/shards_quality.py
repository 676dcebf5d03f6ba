"""How many services are violated where several schedulers act, against one, over seeds: the cluster and the arrivals of
`bench.shards`, with the same pods at the same times for each number of schedulers.

`bench.shards` gives each scheduler as many pods in a round as it decides for, so four are given four times as many at
once as one. That measures throughput; placement gets worse with the number that waits, with one scheduler too, since
those are placed by rank before the next arrive. Here `--at-once` arrive in a round, however many schedulers there are.

`difference`: points of percent above one scheduler, the mean of pairs of one seed, with 95 % of that mean. `busiest`:
percent of the pods that the shard with the most of them placed. `by_workload` True: as it was when all pods of a
workload had one shard, for comparison.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.machine import show
from bench.shards import BATCH, measure, world
from cotenant.services.scheduler.shards import pods_of_shard


def violated(
    nodes: int, pods: int, seeds: Sequence[int], workloads: int, shards: int, at_once: int, by: str, by_workload: bool
) -> list[dict[str, Any]]:
    """A row for each seed."""
    rule = "is_judged_with_its_workload"
    judged = (lambda pod, has_claims: True) if by_workload else getattr(pods_of_shard, rule)
    rows = []
    with patch.object(pods_of_shard, rule, judged):
        for seed in seeds:
            rows.append(asyncio.run(measure(world(nodes, pods, seed, workloads), shards, by, at_once)))
            gc.unfreeze()
    return rows


def summary(rows: Sequence[dict[str, Any]], one: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several seeds as one row, beside one scheduler's."""
    apart = np.array([row["violating"] - base["violating"] for row, base in zip(rows, one, strict=True)])
    spread = 1.96 * apart.std(ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else float("nan")

    def mean(column: str) -> float:
        return round(float(np.mean([row[column] for row in rows])), 2)

    return {
        "violating": mean("violating"),
        "difference": round(float(apart.mean()), 2),
        "95 %": f"{apart.mean() - spread:.2f} to {apart.mean() + spread:.2f}",
        "placed": mean("placed"),
        "busiest": mean("busiest"),
        "foreign": mean("foreign"),
        "conflicts": mean("conflicts"),
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2600)
    parser.add_argument("--workloads", type=int, default=0, help="0: of ten pods each")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=BATCH)
    parser.add_argument("--seeds", type=int, nargs=2, default=[200, 220], metavar=("FIRST", "END"))
    parser.add_argument("--profile", default="cotenant-requests")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    seeds = range(*given.seeds)
    cases = [(1, False), (given.shards, True), (given.shards, False)]
    one: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for shards, by_workload in cases:
        found = violated(
            given.nodes, given.pods, seeds, given.workloads, shards, given.at_once, given.profile, by_workload
        )
        one = one or found
        rows.append({"schedulers": shards, "by_workload": by_workload, **summary(found, one)})
    words = f"{given.nodes} nodes, {given.pods} pods, workloads {given.workloads or 'of ten'}"
    show(rows, given.json, (words, f"seeds {given.seeds[0]} to {given.seeds[1] - 1}, profile {given.profile}"))


if __name__ == "__main__":
    main()
