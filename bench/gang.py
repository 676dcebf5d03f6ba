"""Gangs: place all members or none. Goal: 512 members accepted or rolled back within 1 ms.

`accepted` places the gang (and removes it again, untimed); `rolled back` requests more members than fit, so that the undo log runs:
its time is that of a gang with the same number of placements, all undone.
"""

from __future__ import annotations

import argparse
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bench.machine import show
from bench.placement import a_tree
from bench.workload import Workload, workload
from cotenant.engine.replay.score_tree import ScoreTree

DEFAULT_NODES = (1_000, 10_000, 100_000)
DEFAULT_MEMBERS = (8, 64, 512)


def accepted_s(tree: ScoreTree, given: Workload, members: int, gangs: int) -> float:
    """Median CPU seconds for a gang that fits."""
    taken = []
    for k in given.stream(gangs):
        begin = process_time()
        rows = tree.gang(int(k), members)
        seconds = process_time() - begin
        if len(rows):
            taken.append(seconds)
        for n in rows:
            tree.release(int(n), int(k))
    return median(taken)


def rolled_back_s(given: Workload, members: int, gangs: int, precision: str) -> float:
    """Median CPU seconds for a gang that finds room for all members but the last, on a cluster with exactly that much room left."""
    tree = a_tree(given, precision)
    k = 0
    room = tree.gang(k, members)
    for n in room:
        tree.release(int(n), k)
    given.nodes.ready[:] = False
    given.nodes.ready[room] = True
    wanted = given.shapes.request[k] > 0
    given.nodes.requested[room] = np.where(wanted, given.nodes.capacity[room], given.nodes.requested[room])
    np.subtract.at(given.nodes.requested, room, given.shapes.request[k])
    tree = a_tree(given, precision)
    for n in (rows := tree.gang(k, members)):
        tree.release(int(n), k)
    before = given.nodes.requested.copy()
    taken = []
    for _ in range(gangs):
        begin = process_time()
        refused = tree.gang(k, members + 1)
        taken.append(process_time() - begin)
        if len(room) != members or len(rows) != members:
            raise AssertionError("the room made for the gang does not hold it")
        if len(refused) or (given.nodes.requested != before).any():
            raise AssertionError("a gang that does not fit changed the cluster")
    return median(taken)


def a_row(tree: ScoreTree, start: Workload, members: int, gangs: int, precision: str) -> dict[str, Any]:
    nodes = len(start.nodes.ready)
    accepted, refused = (
        accepted_s(tree, start, members, gangs),
        rolled_back_s(workload(nodes), members, gangs, precision),
    )
    return {
        "nodes": nodes,
        "members": members,
        "variant": f"tree {precision}",
        "accepted_us": round(accepted * 1e6, 1),
        "rolled_back_us": round(refused * 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gang", description=__doc__)
    parser.add_argument("--nodes", type=int, action="append")
    parser.add_argument("--members", type=int, action="append")
    parser.add_argument("--precision", choices=["float64", "float32"], default="float64")
    parser.add_argument("--gangs", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for nodes in given.nodes or DEFAULT_NODES:
        start = workload(nodes)
        tree = a_tree(start, given.precision)
        tree.gang(0, 2)
        rows += [
            a_row(tree, start, members, given.gangs, given.precision) for members in given.members or DEFAULT_MEMBERS
        ]
        tree.validate()
    show(rows, given.json, ("CPU time of one core, median over gangs.",))


if __name__ == "__main__":
    main()
