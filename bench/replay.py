"""Lab events per second, and ten million tasks on four thousand nodes (goal: 15 s of one core, excluding the generation of the trace).

Workload A's nodes and 64 shapes; Poisson arrivals, exponential durations, five running tasks per node on average.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from bench.machine import peak_memory_mib, show
from bench.placement import a_tree
from bench.workload import workload
from cotenant.lab.replay import replay


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--nodes", type=int, default=4_000)
    parser.add_argument("--tasks", type=int, default=10_000_000)
    parser.add_argument("--shapes", type=int, default=64)
    parser.add_argument("--precision", choices=["float64", "float32"], action="append", help="default: both")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    arrival_s = np.cumsum(rng.exponential(1.0, given.tasks))
    duration_s = rng.exponential(5.0 * given.nodes, given.tasks)
    rows = []
    for precision in given.precision or ("float64", "float32"):
        warm = workload(16, given.shapes)
        replay(a_tree(warm, precision), arrival_s[:20], duration_s[:20], warm.stream(20))
        start = workload(given.nodes, given.shapes)
        tree, shape = a_tree(start, precision), start.stream(given.tasks)
        begin = process_time()
        result = replay(tree, arrival_s, duration_s, shape)
        seconds = process_time() - begin
        tree.validate()
        rows.append(
            {
                "nodes": given.nodes,
                "tasks": given.tasks,
                "variant": f"tree {precision}",
                "seconds": round(seconds, 3),
                "events_per_s": round(result.events / seconds),
                "waited": result.waited,
                "unplaced": result.unplaced,
            }
        )
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
