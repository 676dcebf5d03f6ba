"""The cost of rules about other pods: narrowing, preferences, reasons and preemption, compared with the compiled scan,
in milliseconds of one core's time.

A cluster of full nodes in three zones, with residents on each, 200 applications, 50 disruption budgets. For each kind
of pod: `allowed` narrows its rows, `wishes` scores all rows by its soft terms, `reasons` names every filter that
refuses it with the nearest miss, `preempt` chooses the node and the victims. Medians of the repeats in CPU time. Demand
is synthetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.machine import median_seconds, peak_memory_mib, show
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets, preempt
from cotenant.engine.cycle.rejections import Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint, WhenUnsatisfiable
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

APPLICATIONS, BUDGETS = 200, 50
OURS = LabelSelector.of({"app": "a3"})
NEWCOMER = Pod(
    "new", requests=Amounts.of({"cpu": 5000, "memory": 1 << 30}), priority=100, labels=Labels.of({"app": "a3"})
)
SORTS = {
    "no rules": NEWCOMER,
    "host port": replace(NEWCOMER, host_ports=(HostPort(80),)),
    "anti-affinity": replace(NEWCOMER, anti_affinity=(PodTerm(HOSTNAME, OURS),)),
    "spread": replace(NEWCOMER, spread=(SpreadConstraint(ZONE, OURS),)),
    "soft": replace(
        NEWCOMER,
        affinity=(PodTerm(ZONE, OURS, weight=50),),
        spread=(SpreadConstraint(ZONE, OURS, when_unsatisfiable=WhenUnsatisfiable.SCHEDULE_ANYWAY),),
    ),
}


def rows_for(nodes: int, residents: int, repeats: int) -> list[dict[str, Any]]:
    """One row per kind of pod."""
    encoder = Encoder(half_node_cores=8.0)
    for i in range(nodes):
        labels = Labels.of({ZONE: "abc"[i % 3], HOSTNAME: f"n{i}"})
        encoder.add_node(Node(f"n{i}", Amounts.of({"cpu": 1000 * residents, "memory": 1 << 40}), labels))
    narrowing = Narrowing(encoder)
    numbers = np.empty(nodes * residents, dtype=np.int64)
    for i in range(len(numbers)):
        labels = Labels.of({"app": f"a{i % APPLICATIONS}"})
        pod = Pod(f"p{i}", requests=Amounts.of({"cpu": 1000, "memory": 1 << 30}), labels=labels)
        numbers[i], k = encoder.add_pod(pod)
        narrowing.add_pod(int(numbers[i]), pod, k)
        narrowing.assign(int(numbers[i]), i // residents)
    newcomers = {name: (replace(pod, name=f"new-{i}")) for i, (name, pod) in enumerate(SORTS.items())}
    added = {name: encoder.add_pod(pod) for name, pod in newcomers.items()}
    ledger = Ledger(encoder.nodes(), encoder.shapes(), encoder.tenant_rows, len(numbers) + len(added))
    shapes = np.array([encoder.shape_of(int(number)) for number in numbers], dtype=np.int64)
    ledger.place(numbers, numbers // residents, shapes)
    for name, (number, k) in added.items():
        narrowing.add_pod(number, newcomers[name], k)
    rng = np.random.default_rng(1)
    priorities, started_s = rng.integers(0, 7, len(ledger.row)), rng.uniform(0, 1e6, len(ledger.row))
    budgets = DisruptionBudgets(
        DisruptionBudget("default", f"b{i}", LabelSelector.of({"app": f"a{i}"}), 1) for i in range(BUDGETS)
    )
    chosen, every = profile("cotenant-requests"), np.arange(nodes)
    rejector = Rejector(encoder, narrowing, chosen)

    def milliseconds(work: Callable[[int], object], number: int) -> float:
        work(number)
        return 1e3 * median_seconds(lambda: None, lambda _: work(number), repeats)

    def cleared(number: int) -> object:
        return preempt(
            encoder, ledger, narrowing, chosen, number, 100, priorities, np.zeros_like(priorities), started_s, budgets
        )

    return [
        {
            "nodes": nodes,
            "residents": len(numbers),
            "pod": name,
            "allowed_ms": milliseconds(narrowing.allowed, number),
            "wishes_ms": milliseconds(lambda pod: narrowing.preferences(pod, every), number),
            "reasons_ms": milliseconds(rejector.explain, number),
            "preempt_ms": milliseconds(cleared, number),
        }
        for name, (number, _) in added.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.judging", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, action="append", help="cluster size; may be given several times (default 1000, 5000)"
    )
    parser.add_argument("--residents", type=int, default=20, help="pods on each node")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [row for nodes in given.nodes or (1000, 5000) for row in rows_for(nodes, given.residents, given.repeats)]
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
