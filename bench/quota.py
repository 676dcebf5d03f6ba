"""The cost of a quota tree: a pod that arrives, is checked, or is placed. Goal: 0.3 us per pod in addition to
placement, with 1,000 leaves.

`ask` is an arriving pod and the new runtime of its leaf, in plain Python: `idle` where the cluster has enough for all,
`short` at a leaf that is short already, `lent` at one that lends less because of it, so that every division on its path
is recomputed. `resize` is a new total with every runtime recomputed. `flat` has all leaves below the root, `tree` 32
parents between. `check` and `add_use` are the plain headroom check with its parents and the accounting of a placed pod;
`compiled` is both together inside a compiled loop, as in placement.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

from bench.machine import show
from cotenant.model.arrays import Int
from cotenant.model.compiled import njit
from cotenant.model.groups.quota import ROOT_QUOTA, Quota
from cotenant.model.resources import Amounts
from cotenant.policy.quota.headroom import HeadroomRules, shortages
from cotenant.policy.quota.headroom_arrays import HeadroomTable, QuotaArrays, quota_add_use, quota_fits
from cotenant.policy.quota.tree import QuotaTree

GIB = 1 << 30
PARENTS = 32
RULES = HeadroomRules(check_parents=True)
POD = Amounts.of({"cpu": 500, "memory": GIB, "pods": 1})


def amounts(cores: int) -> Amounts:
    return Amounts.of({"cpu": cores * 1000, "memory": cores * 4 * GIB})


def a_tree(leaves: int, flat: bool, cores_each: int) -> QuotaTree:
    """Every leaf has a guarantee of 4 cores, a maximum of 64 and its own weight; each tenth requests 1 core, the
    others 20.
    """
    parents = 0 if flat else PARENTS
    below = -(-leaves // max(1, parents))
    quotas = [Quota(f"p{i}", amounts(64 * below), amounts(4 * below), is_parent=True) for i in range(parents)]
    for i in range(leaves):
        parent = ROOT_QUOTA if flat else f"p{i % parents}"
        weight = Amounts.of({"cpu": 1 + i % 7, "memory": 1 + i % 5})
        quotas.append(Quota(f"q{i}", amounts(64), amounts(4), parent, shared_weight=weight))
    tree = QuotaTree(quotas, amounts(leaves * cores_each))
    for i in range(leaves):
        tree.ask(f"q{i}", amounts(20 if i % 10 else 1))
    tree.refresh()
    return tree


def per_call_us(calls: int, one: Callable[[int], object]) -> float:
    begin = process_time()
    for number in range(calls):
        one(number)
    return (process_time() - begin) / calls * 1e6


@njit
def _place(quotas: QuotaArrays, rows: Int, request: Int) -> int:
    placed = 0
    for i in range(len(rows)):
        if quota_fits(quotas, rows[i], request, True):
            quota_add_use(quotas, rows[i], request, 1, True)
            quota_add_use(quotas, rows[i], request, -1, True)
            placed += 1
    return placed


def compiled_us(tree: QuotaTree, leaves: int, pods: int) -> float:
    table = HeadroomTable(tree, RULES)
    names = [table.row(f"q{i}") for i in range(leaves)]
    rows = np.random.default_rng(1).permutation(np.resize(np.array(names), pods))
    request = table.request(POD)
    _place(table.arrays, rows[:1], request)
    begin = process_time()
    placed = _place(table.arrays, rows, request)
    taken = process_time() - begin
    if placed != pods:
        raise AssertionError(f"{pods - placed} pods did not fit")
    return taken / pods * 1e6


def a_row(leaves: int, flat: bool, calls: int, pods: int) -> dict[str, Any]:
    def ask(tree: QuotaTree, number: int) -> None:
        name = f"q{number % leaves}"
        tree.ask(name, POD)
        tree.runtime(name)

    def is_short(i: int) -> bool:
        return all(
            amount < requested for (_, amount), (_, requested) in zip(short.runtime(f"q{i}"), amounts(20), strict=True)
        )

    idle, short = a_tree(leaves, flat, 64), a_tree(leaves, flat, 12)
    hungry = [i for i in range(leaves) if i % 10 and is_short(i)]
    row = {
        "leaves": leaves,
        "shape": "flat" if flat else "tree",
        "ask_idle_us": round(per_call_us(calls, lambda number: ask(idle, number * 7)), 1),
        "ask_short_us": round(per_call_us(calls, lambda number: ask(short, hungry[number % len(hungry)])), 1),
        "ask_lent_us": round(per_call_us(calls, lambda number: ask(short, number * 10)), 1),
    }
    for name, tree in (("idle", idle), ("short", short)):
        begin = process_time()
        tree.set_total(tree.total() + amounts(leaves))
        tree.refresh()
        row[f"resize_{name}_ms"] = round((process_time() - begin) * 1e3, 2)
    row["check_us"] = round(
        per_call_us(calls, lambda number: shortages(idle, f"q{number % leaves}", POD, rules=RULES)), 1
    )
    row["book_us"] = round(per_call_us(calls, lambda number: idle.use(f"q{number % leaves}", POD)), 2)
    row["compiled_us"] = round(compiled_us(idle, leaves, pods), 4)
    begin = process_time()
    idle.validate()
    row["validate_ms"] = round((process_time() - begin) * 1e3, 1)
    short.validate()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quota", description=__doc__)
    parser.add_argument("--leaves", type=int, action="append")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--pods", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [
        a_row(leaves, flat, given.calls, given.pods) for leaves in given.leaves or (1000,) for flat in (False, True)
    ]
    notes = ("CPU time of one core. compiled_us: one check of a leaf and its parents, one booking and one departure.",)
    show(rows, given.json, notes)


if __name__ == "__main__":
    main()
