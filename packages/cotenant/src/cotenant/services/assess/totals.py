"""The figures of the whole cluster: allocated, used and idle cores and memory, and device cards."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.assess.figure import Figure, counted, unknown
from cotenant.model.assess.history import ClusterHistory, Float32
from cotenant.model.assess.report import Cards
from cotenant.model.devices.device import DeviceType
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, NVIDIA_GPU
from cotenant.policy.assess.use import SHARES, used
from cotenant.services.assess.columns import NodeColumns, PodColumns
from cotenant.services.assess.copying import ClusterCopy

_CORES, _GIB = 1e-3, 1.0 / 1024.0
_WHOLE = 100  # percent of a card


def totals(nodes: NodeColumns, pods: PodColumns, history: ClusterHistory) -> tuple[Figure, ...]:
    """Nodes, pods, and both resources."""
    return (
        counted("nodes", "Nodes", len(nodes.names), "nodes", "nodes whose size can be read"),
        counted("pods", "Running pods", len(pods.entries), "pods", "pods that have a node and have not ended"),
        *_of("cpu", "cores", _CORES, nodes.cpu_m, nodes.cpu_requested_m, history.nodes.cpu_m, history),
        *_of("memory", "GiB", _GIB, nodes.memory_mib, nodes.memory_requested_mib, history.nodes.memory_mib, history),
    )


def _of(
    key: str, unit: str, scale: float, size: Int, requested: Int, use: Float32, history: ClusterHistory
) -> tuple[Figure, ...]:
    title = "Cores" if key == "cpu" else "Memory"
    whole, asked = int(size.sum()), int(requested.sum())
    found = [
        counted(f"{key}_allocatable", f"{title}, allocatable", whole * scale, unit, "allocatable of all nodes"),
        counted(
            f"{key}_allocated", f"{title}, allocated", asked * scale, unit,
            "requests of the pods that count on a node, as a scheduler counts them",
        ),
        counted(
            f"{key}_free", f"{title}, not allocated", max(0, whole - asked) * scale, unit, "allocatable less allocated",
        ),
    ]  # fmt: skip
    total = history.nodes.summed(("all",) * len(history.nodes.names))
    values = (total.cpu_m if key == "cpu" else total.memory_mib) if len(total.names) else np.zeros((1, 0), np.float32)
    found.append(_now(key, title, unit, scale, values, history))
    over_time = used(f"{key}_used", f"{title}, used", unit, scale, history.nodes, values)
    found += over_time
    found.append(_idle(key, title, unit, asked * scale, over_time[len(SHARES) - 1], found[3]))
    return tuple(found)


def _now(key: str, title: str, unit: str, scale: float, values: Float32, history: ClusterHistory) -> Figure:
    label, name = f"{key}_used_last", f"{title}, used at the last measurement"
    definition = "the sum over nodes of what they measured last"
    known = values[~np.isnan(values)]
    if not len(known):
        return unknown(label, name, unit, definition, history.nodes.source or "use is not known")
    nodes = len(history.nodes.names)
    return Figure(label, name, float(known[-1]) * scale, unit, definition, f"none: one measurement of {nodes:,} nodes")


def _idle(key: str, title: str, unit: str, allocated: float, p99: Figure, last: Figure) -> Figure:
    """Allocated and not used: by the p99 of the day, else by the last measurement."""
    label, name = f"{key}_idle", f"{title}, allocated and not used"
    base = p99 if p99.value is not None else last
    definition = f"allocated less {base.title[0].lower()}{base.title[1:]}"
    if base.value is None:
        return unknown(label, name, unit, definition, base.why)
    value = max(0.0, allocated - base.value)
    if base.low is None or base.high is None:
        return Figure(label, name, value, unit, definition, base.interval)
    return Figure(
        label,
        name,
        value,
        unit,
        definition,
        base.interval,
        max(0.0, allocated - base.high),
        max(0.0, allocated - base.low),
    )


def cards(copy: ClusterCopy, pods: PodColumns) -> tuple[Cards, ...]:
    """Devices by kind: those of Device objects, else those that nodes have as nvidia.com/gpu."""
    devices: defaultdict[DeviceType, int] = defaultdict(int)
    for of_node in copy.devices.values():
        for device in of_node.devices:
            devices[device.type] += 1
    held: defaultdict[DeviceType, dict[tuple[str, int], int]] = defaultdict(dict)
    for info in pods.entries:
        for allocation in info.seen.holds.devices:
            at = (info.node, allocation.minor)
            amounts = allocation.amounts
            share = max(amounts.get(GPU_CORE), amounts.get(GPU_MEMORY_RATIO)) or _WHOLE
            held[allocation.type][at] = min(_WHOLE, held[allocation.type].get(at, 0) + share)
    found = [
        _cards(
            str(kind),
            count,
            sum(held[kind].values()) / _WHOLE,
            sum(share < _WHOLE for share in held[kind].values()),
        )
        for kind, count in sorted(devices.items())
    ]
    if DeviceType.GPU not in devices:
        whole = sum(node.allocatable.get(NVIDIA_GPU) for node in copy.engine.nodes())
        asked = sum(info.seen.pod.requests.get(NVIDIA_GPU) for info in pods.entries)
        if whole or asked:
            found.append(_cards(NVIDIA_GPU, whole, float(asked), 0))
    return tuple(found)


def _cards(kind: str, count: int, allocated: float, shared: int) -> Cards:
    why = "the use of cards is not in NodeMetrics, and no source of it was given"
    return Cards(
        kind,
        count,
        allocated,
        shared,
        unknown(f"{kind}_used", f"{kind}: cards used", "cards", "the mean use of each card, summed", why),
        unknown(
            f"{kind}_shareable",
            f"{kind}: cards that could be shared",
            "cards",
            "cards allocated whole of which less than half is used at the p99",
            why,
        ),
    )
