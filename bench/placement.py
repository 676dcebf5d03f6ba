"""Placements per second of the scheduling cycle: one placement and one departure each, exact over every node.

Workload A (`bench.workload`) with the fit and score of a profile: `place_cached`, which is what the cycle calls in the
lab, in `cotenant up` and in a cluster, beside the compiled scan of every node that it must equal. The queue is given to
either as the cycle has it: `--batch` pods decided together, whose places are freed again `LIVE` pods later. CPU time of
one core, median of the repeats, after a warm-up that fills the cluster until every arrival has a departure.
`identical`: the same rows for the first `checked` pods, departures included, from the same start. What a whole decision
costs, with its events, plugins and records, is measured by `bench.groups`, and with an API server by `bench.kube`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.machine import median_seconds, peak_memory_mib, show
from bench.workload import Workload, workload
from cotenant.engine.state.verdict_cache import VerdictCache, place_cached
from cotenant.model.arrays import Int, NodeArrays, ShapeArrays
from cotenant.policy.placement.compiled import choose, commit
from cotenant.policy.placement.profiles import PlacementProfile, profile

DEFAULT_NODES = (1_000, 5_000, 10_000, 100_000)
LIVE = 2_000  # pods present at a time in the timed part
EVERY_ROW = np.empty(0, dtype=np.bool_)

Place = Callable[[Int], Int]  # shapes of a batch -> rows


def cached(given: Workload, by: PlacementProfile) -> tuple[Place, Callable[[Int], None]]:
    """The cycle's placement, and what it is told of changed rows."""
    cache, cursor, rng, knobs = (
        VerdictCache(by.score),
        np.zeros(1, np.int64),
        np.random.default_rng(0),
        by.knobs.array(),
    )

    def place(queue: Int) -> Int:
        return place_cached(
            queue, given.nodes, given.shapes, EVERY_ROW, int(by.fit), int(by.score), False, 0, cursor, 0.0, knobs, rng,
            cache
        ).rows  # fmt: skip

    cache.resize(len(given.nodes.ready))
    return place, cache.changed


def scanned(given: Workload, by: PlacementProfile) -> tuple[Place, Callable[[Int], None]]:
    """Every node judged anew for every pod."""
    size, cursor, rng, knobs = len(given.nodes.ready), np.zeros(1, np.int64), np.random.default_rng(0), by.knobs.array()
    verdicts, scores = np.empty(size, dtype=np.int64), np.empty(size)

    def place(queue: Int) -> Int:
        rows = np.full(len(queue), -1, dtype=np.int64)
        for i, k in enumerate(queue.tolist()):
            rows[i] = choose(
                given.nodes, given.shapes, k, EVERY_ROW, int(by.fit), int(by.score), False, 0, cursor, 0.0, knobs, rng,
                verdicts, scores
            )  # fmt: skip
            if rows[i] >= 0:
                commit(given.nodes, int(rows[i]), given.shapes, k)
        return rows

    return place, lambda rows: None


WAYS = {"compiled scan": scanned, "scheduling cycle": cached}


def leave(nodes: NodeArrays, shapes: ShapeArrays, rows: Int, queue: Int) -> Int:
    """Remove pods; the rows that changed."""
    there = rows >= 0
    rows, queue = rows[there], queue[there]
    np.subtract.at(nodes.requested, rows, shapes.request[queue])
    np.subtract.at(nodes.sums, rows, shapes.sums[queue])
    return rows


class Run:
    """A stream of pods through one way of placing."""

    def __init__(self, way: str, nodes: int, shapes: int, by: PlacementProfile, batch: int) -> None:
        self.given = workload(nodes, shapes)
        self._place, self._changed = WAYS[way](self.given, by)
        self._batch = batch
        self._live: list[tuple[Int, Int]] = []

    def through(self, stream: Int) -> Int:
        """The rows of all pods of the stream, -1 = none."""
        placed = []
        for at in range(0, len(stream), self._batch):
            queue = stream[at : at + self._batch]
            rows = self._place(queue)
            placed.append(rows)
            self._live.append((rows, queue))
            if len(self._live) * self._batch > LIVE:
                self._changed(leave(self.given.nodes, self.given.shapes, *self._live.pop(0)))
        return np.concatenate(placed)


def rows_for(
    nodes: int, shapes: int, pods: int, repeats: int, batch: int, by: PlacementProfile
) -> list[dict[str, Any]]:
    """Both ways on one size."""
    few = int(np.clip(20_000_000 // nodes, 400, 20_000))
    stream = workload(nodes, shapes).stream(LIVE + max(pods, few))
    count = {"compiled scan": min(pods, few), "scheduling cycle": pods}
    placed = {way: Run(way, nodes, shapes, by, batch).through(stream[: LIVE + few]) for way in WAYS}
    same = bool((placed["compiled scan"] == placed["scheduling cycle"]).all())

    def filled(way: str) -> Run:
        run = Run(way, nodes, shapes, by, batch)
        run.through(stream[:LIVE])
        return run

    def timed(run: Run, way: str) -> Int:
        return run.through(stream[LIVE : LIVE + count[way]])

    found = []
    for way in WAYS:
        seconds = median_seconds(partial(filled, way), partial(timed, way=way), repeats)
        found.append(
            {
                "nodes": nodes,
                "shapes": shapes,
                "variant": way,
                "pods_per_s": round(count[way] / seconds),
                "us_a_pod": round(seconds / count[way] * 1e6, 2),
                "identical": same,
                "checked": LIVE + few,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", help="cluster size; may be given several times")
    parser.add_argument("--shapes", type=int, action="append", help="distinct shapes (default 32)")
    parser.add_argument("--pods", type=int, default=20_000, help="placements timed for the scheduling cycle")
    parser.add_argument("--batch", type=int, default=64, help="pods decided together")
    parser.add_argument("--profile", default="cotenant-requests")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    by = profile(given.profile)
    rows = [
        row
        for nodes in given.nodes or DEFAULT_NODES
        for shapes in given.shapes or (32,)
        for row in rows_for(nodes, shapes, given.pods, given.repeats, given.batch, by)
    ]
    notes = (
        f"CPU time of one core; a pod is one placement and one departure, {given.batch} pods are decided together, "
        f"profile {by.name}.",
        f"Peak memory {peak_memory_mib():.0f} MiB.",
    )
    show(rows, given.json, notes)


if __name__ == "__main__":
    main()
