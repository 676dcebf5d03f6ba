"""Devices and CPUs of one node: the cost of one decision, alone and with its booking and return; and of a cluster of
such nodes, by its engine.

    python -m bench.devices
    python -m bench.devices --json

The node has 8 GPUs in pairs under PCIe switches, four per NUMA node, each switch with a card of 8 virtual functions;
and 128 CPUs: 2 sockets, 4 NUMA nodes, 64 cores of two threads. `idle` is decided with nothing allocated, `half` with
half of the node allocated. The goal is 20 us for a decision.

For a cluster: nodes with 8 GPUs, half of the pods' worth of GPUs allocated already; `decide_us` is the engine's whole
decision for a pod (filters, devices, preferences, record), `devices_us` its difference to a plain pod's, `first_ms` the
first pod of its kind, for which every node state is judged.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from bench.machine import median_seconds, peak_memory_mib, show
from cotenant.engine.cluster import Cluster
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.labels import HOSTNAME, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.spec import BindPolicy, ExclusivePolicy
from cotenant.model.cpus.topology import CpuTopology, mask_of
from cotenant.model.devices.device import Device, DeviceType, FunctionGroup, VirtualFunction
from cotenant.model.devices.hints import DeviceHint, JointAllocation
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.devices.partition import halves
from cotenant.model.devices.request import device_requests
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.resources import GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, RDMA, Amounts
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, take
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.strategy import DeviceStrategy, UsualPod
from cotenant.policy.placement.profiles import profile

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
    """Requests by name."""

    def request(resources: dict[str, int], **fields: Any) -> DeviceAsk:
        return DeviceAsk(device_requests(Amounts.of(resources)), **fields)

    beside = JointAllocation((DeviceType.GPU, DeviceType.RDMA), same_pcie=True)
    function = (DeviceHint(DeviceType.RDMA, function_selector=LabelSelector()),)
    return {
        "half a GPU, binpack": request({GPU: 50}, strategy=DeviceStrategy.BINPACK),
        "half a GPU, fragmentation": request({GPU: 50}, strategy=DeviceStrategy.FRAGMENTATION, usual=USUAL),
        "1 GPU": request({NVIDIA_GPU: 1}),
        "2 GPUs": request({NVIDIA_GPU: 2}),
        "4 GPUs": request({NVIDIA_GPU: 4}),
        "2 GPUs and cards, same PCIe": request({NVIDIA_GPU: 2, RDMA: 1}, joint=beside, hints=function),
        "8 GPUs": request({NVIDIA_GPU: 8}),
    }


def microseconds(work: Callable[[], object], repeats: int, times: int) -> float:
    """Median of `repeats` means over `times` calls."""

    def many(_: object) -> None:
        for _ in range(times):
            work()

    return round(1e6 * median_seconds(lambda: None, many, repeats) / times, 1)


def device_rows(repeats: int, times: int) -> list[dict[str, Any]]:
    """Each request on an idle node, on one half allocated, and on one with a partition table to be honoured."""
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
    """CPUs of a 128-CPU node, numbered as by Linux: all first threads, then all second threads."""
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


def cluster_rows(nodes: int, pods: int, repeats: int) -> list[dict[str, Any]]:
    """The engine of a cluster: plain pods, and pods of each kind of request, judged in batches as they arrive."""
    cluster = Cluster(profile("cotenant-requests"), np.random.default_rng(1))
    size = Amounts.of({"cpu": 128_000, "memory": 1 << 41, NVIDIA_GPU: 8, "pods": 1000})
    devices, pods = node(), min(pods, nodes)
    for i in range(nodes):
        cluster.node_seen(Node(f"n{i}", size, Labels.of({HOSTNAME: f"n{i}"})))
        cluster.plugins.devices.seen(
            NodeDevices(f"n{i}", tuple(replace(device, id=f"{i}-{device.minor}") for device in devices))
        )
    serial = itertools.count()

    def submit(asked: dict[str, int], demands: Demands, many: int) -> list[str]:
        names = [f"p{next(serial)}" for _ in range(many)]
        requests = Amounts.of({"cpu": 100, "memory": 1 << 20, **asked})
        for name in names:
            cluster.pod_seen(ObservedPod(Pod(name, requests=requests), name, "cotenant", 0.0, demands=demands), 0.0)
        return names

    def decide(names: list[str]) -> None:
        while cluster.next_s() <= 0.0:
            cluster.decide(0.0)
        assert all(cluster.state_of(name).name == "ASSUMED" for name in names)

    def one(asked: dict[str, int], demands: Demands) -> float:
        """Seconds per pod; the pods leave again."""
        names: list[str] = []

        def prepare() -> None:
            names[:] = submit(asked, demands, pods)

        def work(_: None) -> None:
            decide(names)

        taken = []
        for _ in range(repeats):
            prepare()
            start = process_time()
            work(None)
            taken.append((process_time() - start) / pods)
            for name in names:
                cluster.pod_gone(name, 0.0)
            cluster.decide(0.0)
        return statistics.median(taken)

    decide(submit({}, NO_DEMANDS, 1))  # compiles
    decide(submit({NVIDIA_GPU: 3}, NO_DEMANDS, max(1, nodes // 4)))  # some of the nodes are in use
    decide(submit({GPU: 50}, NO_DEMANDS, max(1, nodes // 4)))
    rows: list[dict[str, Any]] = []
    plain_us = 0.0
    beside = Demands(joint_devices=JointAllocation((DeviceType.GPU, DeviceType.RDMA), same_pcie=True))
    for name, asked, demands in (
        ("nothing (a plain pod)", {}, NO_DEMANDS),
        ("half a GPU", {GPU: 50}, NO_DEMANDS),
        ("1 GPU", {NVIDIA_GPU: 1}, NO_DEMANDS),
        ("4 GPUs", {NVIDIA_GPU: 4}, NO_DEMANDS),
        ("2 GPUs and cards, same PCIe", {NVIDIA_GPU: 2, RDMA: 1}, beside),
    ):
        first = submit(asked, demands, 1)
        start = process_time()
        decide(first)
        first_ms = 1e3 * (process_time() - start)
        us = 1e6 * one(asked, demands)
        plain_us = plain_us or us
        rows.append(
            {
                "node": f"{nodes} nodes",
                "asked": name,
                "granted": True,
                "decide_us": round(us, 1),
                "devices_us": round(us - plain_us, 1),
                "decisions_per_s": round(1e6 / us),
                "first_ms": round(first_ms, 2),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.devices", description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--times", type=int, default=500, help="decisions in each repeat")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1000, 10_000], help="sizes of the clusters")
    parser.add_argument("--pods", type=int, default=256, help="pods of each kind, judged together")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    rows = [*device_rows(given.repeats, given.times), *cpu_rows(given.repeats, given.times)]
    for nodes in given.nodes:
        rows += cluster_rows(nodes, given.pods, max(1, given.repeats // 3))
    show(rows, given.json, (f"CPU time of one core. Peak memory {peak_memory_mib():.0f} MiB.",))


if __name__ == "__main__":
    main()
