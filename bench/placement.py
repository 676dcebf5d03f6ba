"""Placements per second: one placement and one departure each, exact over every node.

Four implementations of the same choice on workload A (`bench.workload`), in one process: plain NumPy, the compiled scan, and the score tree in float64 and float32.
Measured in CPU time, median of the repeats, after a warm-up that fills the cluster until every arrival has a departure. `identical` tells
whether another implementation chose the same row for each of the first `checked` pods, departures included, from the same start: the scans are compared with
each other, each tree with the compiled scan of its precision, and the float64 tree also with NumPy for as many pods as NumPy's row has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.machine import cpu_seconds, median_seconds, peak_memory_mib, show
from bench.workload import Workload, workload
from cotenant.engine.replay import tree_loops
from cotenant.engine.replay.score_tree import ScoreTree
from cotenant.model.arrays import Int
from cotenant.policy.placement import weighted
from cotenant.policy.placement.lanes.layout import Kernel

DEFAULT_NODES = (1_000, 5_000, 10_000, 100_000)
LIVE = 2_000  # pods present at a time in the timed part
WEIGHTED = int(Kernel.WEIGHTED)


def a_tree(given: Workload, precision: str, lanes: int | None = None) -> ScoreTree:
    return ScoreTree(
        Kernel.WEIGHTED,
        given.nodes,
        given.shapes,
        weights=given.weights,
        held=given.held,
        lanes=len(given.popularity) if lanes is None else lanes,
        precision=precision,
    )


def run_plain(given: Workload, stream: Int, live: int) -> Int:
    """The plain NumPy implementation."""
    placed = np.full(len(stream), -1, dtype=np.int64)
    for i, k in enumerate(stream):
        placed[i] = weighted.choice(given.nodes, given.shapes, int(k), given.held, given.weights)
        if placed[i] >= 0:
            move(given, int(placed[i]), int(k), 1)
        if i >= live and placed[i - live] >= 0:
            move(given, int(placed[i - live]), int(stream[i - live]), -1)
    return placed


def move(given: Workload, row: int, k: int, sign: int) -> None:
    """Add (1) or remove (-1) a pod."""
    given.nodes.requested[row] += sign * given.shapes.request[k]
    given.nodes.sums[row] += sign * given.shapes.sums[k]
    given.held[row, given.shapes.tenant[k]] += sign * given.shapes.request[k]


def stream_rate(
    loop: Callable[..., None], tree: Callable[[], ScoreTree], stream: Int, live: int, repeats: int
) -> float:
    """Pods per second of `loop`, after `live` pods of warm-up."""

    def prepare() -> tuple[Any, Int]:
        arrays, placed = tree().arrays, np.full(len(stream), -1, dtype=np.int64)
        loop(WEIGHTED, arrays, stream, live, placed, 0, live)
        return arrays, placed

    seconds = median_seconds(
        prepare, lambda state: loop(WEIGHTED, state[0], stream, live, state[1], live, len(stream)), repeats
    )
    return (len(stream) - live) / seconds


def rows_for(nodes: int, shapes: int, pods: int, repeats: int) -> list[dict[str, Any]]:
    """The four variants on one size."""
    whole = workload(nodes, shapes).stream(pods + LIVE)
    few, some = int(np.clip(2_000_000 // nodes, 30, 1_000)), int(np.clip(20_000_000 // nodes, 400, 20_000))
    a_tree(workload(64, shapes), "float64").run(whole[:2], 1)  # compile before anything is timed
    a_tree(workload(64, shapes), "float32").run(whole[:2], 1)
    a_tree(workload(64, shapes), "float64").run_by_scan(whole[:2], 1)
    a_tree(workload(64, shapes), "float32").run_by_scan(whole[:2], 1)

    plain = run_plain(workload(nodes, shapes), whole[:few], few // 4)
    chosen = {
        (way, precision): getattr(a_tree(workload(nodes, shapes), precision), way)(whole[:some], some // 4)
        for way in ("run", "run_by_scan")
        for precision in ("float64", "float32")
    }
    scan_like_plain = a_tree(workload(nodes, shapes), "float64").run_by_scan(whole[:few], few // 4)
    tree_like_plain = a_tree(workload(nodes, shapes), "float64").run(whole[:few], few // 4)
    start = workload(nodes, shapes)
    plain_rate = few / cpu_seconds(lambda: run_plain(start, whole[:few], few // 4))

    def rate(loop: Callable[..., None], precision: str, count: int) -> float:
        return stream_rate(
            loop, lambda: a_tree(workload(nodes, shapes), precision), whole[: count + LIVE], LIVE, repeats
        )

    def row(variant: str, pods_per_s: float, identical: bool, checked: int) -> dict[str, Any]:
        return {
            "nodes": nodes,
            "shapes": shapes,
            "variant": variant,
            "pods_per_s": round(pods_per_s),
            "identical": bool(identical),
            "checked": checked,
        }

    same64 = bool((chosen["run", "float64"] == chosen["run_by_scan", "float64"]).all())
    same32 = bool((chosen["run", "float32"] == chosen["run_by_scan", "float32"]).all())
    return [
        row("numpy scan", plain_rate, (plain == scan_like_plain).all(), few),
        row("compiled scan", rate(tree_loops.scan_stream, "float64", some), (plain == scan_like_plain).all(), few),
        row(
            "tree float64",
            rate(tree_loops.run_stream, "float64", pods),
            same64 and (plain == tree_like_plain).all(),
            some,
        ),
        row("tree float32", rate(tree_loops.run_stream, "float32", pods), same32, some),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append", help="cluster size; may be given several times")
    parser.add_argument("--shapes", type=int, action="append", help="distinct shapes, all in lanes (default 64)")
    parser.add_argument("--pods", type=int, default=100_000, help="placements timed for the trees")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        row
        for nodes in given.nodes or DEFAULT_NODES
        for shapes in given.shapes or (64,)
        for row in rows_for(nodes, shapes, given.pods, given.repeats)
    ]
    notes = (
        "CPU time of one core; a pod is one placement and one departure.",
        f"Peak memory {peak_memory_mib():.0f} MiB.",
    )
    show(rows, given.json, notes)


if __name__ == "__main__":
    main()
