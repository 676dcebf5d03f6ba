"""How many nodes report CPUs, through any order of reports and ends of them."""

from __future__ import annotations

from random import Random

import pytest

from cotenant.engine.rules.cpus.nodes import CpuNodes
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.machine.counters import LogicalCpu


def machine(cores: int) -> CpuTopology:
    return CpuTopology.of(LogicalCpu(core, core, 0, 0) for core in range(cores))


@pytest.mark.parametrize("seed", range(4))
def test_any_order(seed: int) -> None:
    rng, nodes, reported = Random(seed), CpuNodes(lambda: None), dict[str, int]()
    for _ in range(60):
        name = f"n{rng.randrange(4)}"
        if rng.random() < 0.6:
            cores = rng.choice((2, 4))
            changed = nodes.report(NodeTopology(name, machine(cores)))
            assert (changed is not None) == (reported.get(name) != cores)
            reported[name] = cores
        else:
            ended = nodes.stop_reporting(name)
            assert (ended is not None) == (name in reported)
            reported.pop(name, None)
        assert nodes.reporting == len(reported)
        assert {key for key, account in nodes.accounts.items() if account.reported is not None} == set(reported)
