"""Kinds of cpu_accumulator: which logical CPUs are taken, and the order in which a spread takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy, NumaStrategy
from cotenant.model.cpus.topology import CpuTopology, mask_of, numbers_in
from cotenant.model.machine.counters import LogicalCpu
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, spread_order, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger


def topology(values: dict[str, int]) -> CpuTopology:
    threads, cores, nodes = values["threads_per_core"], values["cores_per_numa"], values["numa_per_socket"]
    every = values["sockets"] * nodes * cores * threads
    return CpuTopology.of(
        LogicalCpu(cpu, cpu // threads, cpu // (threads * cores * nodes), cpu // (threads * cores))
        for cpu in range(every)
    )


def taken(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    machine = topology(given["topology"])
    ledger = CpuLedger.empty(machine, given.get("max_ref_count", 1))
    for number, entry in enumerate(given.get("allocated", ())):
        policy = ExclusivePolicy(entry.get("exclusive_policy", "None"))
        for user in range(entry.get("ref_count", 1)):
            ledger = ledger.given(CpuHolding(f"{number}-{user}", 1 << entry["cpu"], policy))
    ledger.validate()
    available = given["available"]
    ask = CpuAsk(
        given["request_cpus"],
        BindPolicy(given.get("bind_policy", "FullPCPUs")),
        exclusive=ExclusivePolicy(given.get("exclusive_policy", "None")),
        strategy=NumaStrategy(given.get("numa_strategy", "MostAllocated")),
        preferred=mask_of(given.get("preferred", ())),
        within=None if available is None else mask_of(available),
    )
    got = take(ledger, ask)
    yield "error", bool(case.expect["error"]), not isinstance(got, CpuChoice)
    yield "cpus", case.expect["cpus"] or None, list(numbers_in(got.cpus)) if isinstance(got, CpuChoice) else None


def order(case: Any) -> Iterator[tuple[str, Any, Any]]:
    ledger = CpuLedger.empty(topology(case.given["topology"]))
    got = spread_order(ledger, NumaStrategy(case.given["numa_strategy"]))
    yield "ordered_cpus", case.expect["ordered_cpus"], list(got)


KINDS = {"take": taken, "spread_order": order}
