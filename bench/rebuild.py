"""New weights on every node: the whole tree recomputed. Goal: 100,000 nodes within 50 ms.

`reweigh_ms` is a change of weights; `rebuild_ms` also packs every node's row again, as after a change of all metrics.
`report_us` is one node's new report, through Python.
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from bench.machine import cpu_seconds, peak_memory_mib, show
from bench.placement import a_tree
from bench.workload import workload
from cotenant.policy.placement.weighted import DEFAULT_WEIGHTS

DEFAULT_NODES = (10_000, 100_000)


def a_row(nodes: int, shapes: int, precision: str, repeats: int) -> dict[str, Any]:
    start = workload(nodes, shapes)
    tree = a_tree(start, precision)
    tree.reweigh(DEFAULT_WEIGHTS)
    tree.report(0, start.nodes.report[0])
    weights = [np.array(DEFAULT_WEIGHTS) * (1 + 0.1 * i) for i in range(repeats)]
    values = start.nodes.report[:1000].copy()

    def report_all() -> None:
        for row, value in enumerate(values):
            tree.report(row, value)

    return {
        "nodes": nodes,
        "shapes": shapes,
        "variant": f"tree {precision}",
        "reweigh_ms": round(median(cpu_seconds(partial(tree.reweigh, w)) for w in weights) * 1e3, 2),
        "rebuild_ms": round(median(cpu_seconds(tree.rebuild) for _ in range(repeats)) * 1e3, 2),
        "report_us": round(cpu_seconds(report_all) / len(values) * 1e6, 2),
        "tree_mib": round(tree.nbytes / 2**20, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.rebuild", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--shapes", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        a_row(nodes, given.shapes, precision, given.repeats)
        for nodes in given.nodes or DEFAULT_NODES
        for precision in ("float64", "float32")
    ]
    show(rows, given.json, ("CPU time of one core, medians.", f"Peak memory {peak_memory_mib():.0f} MiB."))


if __name__ == "__main__":
    main()
