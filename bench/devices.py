"""Devices and CPUs of one node: what one decision costs, alone and with its booking and return.

    python -m bench.devices
    python -m bench.devices --json

The node has 8 GPUs in pairs under PCIe switches, four a NUMA node, each switch with a card of 8 virtual functions; and 128 CPUs: 2 sockets, 4 NUMA
nodes, 64 cores of two threads. `idle` is asked with nothing given, `half` with half of the node given. The goal is 20 us for a decision.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.machine import median_seconds, peak_memory_mib, show
from cotenant.model.counters import LogicalCpu
from cotenant.model.cpu_topology import CpuTopology, mask_of
from cotenant.model.cpu_topology_spec import BindPolicy, ExclusivePolicy
from cotenant.model.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.device_hints import DeviceHint, JointAllocation
from cotenant.model.device_partition import halves
from cotenant.model.device_request import device_requests
from cotenant.model.labels import LabelSelector
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.strategy import Strategy, UsualPod

GPU_BYTES = 80 << 30
USUAL = (UsualPod(25, 1, 4), UsualPod(50, 1, 3), UsualPod(100, 1, 8), UsualPod(100, 2, 2), UsualPod(100, 8, 1))


def node() -> tuple[Device, ...]:
    """8 GPUs and 4 cards."""
    total = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: GPU_BYTES})
    gpus = [Device(DeviceType.GPU, i, total, numa=i // 4, pcie=str(i // 2), id=f"GPU-{i}") for i in range(8)]
    cards = []
    for i in range(4):
        functions = tuple(VirtualFunction(k, f"0000:{i:02x}:00.{k}") for k in range(8))
        cards.append(
            Device(
                DeviceType.RDMA,
                i,
                Amounts.of({RDMA: 100}),
                numa=i // 2,
                pcie=str(i),
                function_groups=(FunctionGroup(functions),),
            )
        )
    return (*gpus, *cards)


def asks() -> dict[str, DeviceAsk]:
    """Decisions by name."""

    def asked(resources: dict[str, int], **fields: Any) -> DeviceAsk:
        return DeviceAsk(device_requests(Amounts.of(resources)), **fields)

    beside = JointAllocation((DeviceType.GPU, DeviceType.RDMA), same_pcie=True)
    function = (DeviceHint(DeviceType.RDMA, function_selector=LabelSelector()),)
    return {
        "half a GPU, binpack": asked({GPU: 50}, strategy=Strategy.BINPACK),
        "half a GPU, fragmentation": asked({GPU: 50}, strategy=Strategy.FRAGMENTATION, usual=USUAL),
        "1 GPU": asked({NVIDIA_GPU: 1}),
        "2 GPUs": asked({NVIDIA_GPU: 2}),
        "4 GPUs": asked({NVIDIA_GPU: 4}),
        "2 GPUs and cards, same PCIe": asked({NVIDIA_GPU: 2, RDMA: 1}, joint=beside, hints=function),
        "8 GPUs": asked({NVIDIA_GPU: 8}),
    }


def microseconds(work: Callable[[], object], repeats: int, times: int) -> float:
    """Median of `repeats` means over `times` calls."""

    def many(_: object) -> None:
        for _ in range(times):
            work()

    return round(1e6 * median_seconds(lambda: None, many, repeats) / times, 1)


def device_rows(repeats: int, times: int) -> list[dict[str, Any]]:
    """Each ask on an idle node, on one half given, and on one with a partition table to be honoured."""
    idle = DeviceLedger.of(node())
    table = DeviceLedger.of(node(), halves(8), honor=True)
    half = idle
    for name in ("4 GPUs", "half a GPU, binpack"):
        choice = allocate(half, asks()[name])
        assert isinstance(choice, DeviceChoice)
        half = half.given(DeviceHolding(name, choice.allocations))
    rows = []
    for name, ask in asks().items():
        for state, ledger in (("idle", idle), ("half", half), ("table", table)):
            choice = allocate(ledger, ask)
            row: dict[str, Any] = {"node": state, "asked": name, "granted": bool(choice)}
            row["decide_us"] = microseconds(partial(allocate, ledger, ask), repeats, times)
            if isinstance(choice, DeviceChoice):
                holding = DeviceHolding("pod", choice.allocations)
                row["book_and_return_us"] = microseconds(partial(_booked, ledger, holding), repeats, times)
            rows.append(row)
    return rows


def _booked(ledger: DeviceLedger | CpuLedger, holding: Any) -> object:
    return ledger.given(holding).returned("pod")


def cpu_rows(repeats: int, times: int) -> list[dict[str, Any]]:
    """CPUs of a 128-CPU node, numbered as Linux does: all first threads, then all second ones."""
    cpus = (LogicalCpu(64 * thread + core, core, core // 32, core // 16) for thread in (0, 1) for core in range(64))
    idle = CpuLedger.empty(CpuTopology.of(cpus), reserved=mask_of((0, 64)))
    half = idle
    for number in range(15):
        choice = take(half, CpuAsk(4))
        assert isinstance(choice, CpuChoice)
        half = half.given(CpuHolding(str(number), choice.cpus, ExclusivePolicy.CORE))
    rows = []
    for count in (4, 16, 48):
        for bind in (BindPolicy.FULL_CORES, BindPolicy.SPREAD):
            for state, ledger in (("idle", idle), ("half", half)):
                ask = CpuAsk(count, bind, exclusive=ExclusivePolicy.CORE)
                choice = take(ledger, ask)
                assert isinstance(choice, CpuChoice)
                holding = CpuHolding("pod", choice.cpus)
                rows.append(
                    {
                        "node": state,
                        "asked": f"{count} CPUs, {bind.value}",
                        "granted": True,
                        "decide_us": microseconds(partial(take, ledger, ask), repeats, times),
                        "book_and_return_us": microseconds(partial(_booked, ledger, holding), repeats, times),
                    }
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.devices", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--times", type=int, default=500, help="decisions in each repeat")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [*device_rows(given.repeats, given.times), *cpu_rows(given.repeats, given.times)]
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
