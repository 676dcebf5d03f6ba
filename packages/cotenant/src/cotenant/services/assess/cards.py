"""Devices by kind: how many, allocated and in parts, by Device objects or by nvidia.com/gpu; GPUs' use from DCGM."""

from __future__ import annotations

from collections import Counter, defaultdict

from cotenant.model.assess.figure import unknown
from cotenant.model.assess.meters import CardUses
from cotenant.model.assess.report import Cards
from cotenant.model.devices.device import DeviceType
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, NVIDIA_GPU
from cotenant.policy.assess.cards import shareable_cards, used_cards
from cotenant.services.assess.columns import RunningColumns
from cotenant.services.assess.copying import ClusterCopy

_WHOLE = 100  # percent of a card


def cards(copy: ClusterCopy, pods: RunningColumns, uses: CardUses) -> tuple[Cards, ...]:
    """Devices by kind: those of Device objects, else those that nodes have as nvidia.com/gpu."""
    devices: Counter[DeviceType] = Counter()
    for of_node in copy.devices.values():
        devices.update(device.type for device in of_node.devices)
    held: defaultdict[DeviceType, Counter[tuple[str, int]]] = defaultdict(Counter)
    for info in pods.entries:
        for allocation in info.seen.holds.devices:
            amounts = allocation.amounts
            share = max(amounts.get(GPU_CORE), amounts.get(GPU_MEMORY_RATIO)) or _WHOLE
            held[allocation.type][info.node, allocation.minor] += share
    found = []
    for kind, count in sorted(devices.items()):
        shares = {at: min(_WHOLE, share) for at, share in held[kind].items()}
        whole = Counter(node for (node, _), share in shares.items() if share == _WHOLE)
        shared = sum(share < _WHOLE for share in shares.values())
        allocated = sum(shares.values()) / _WHOLE
        found.append(_cards(str(kind), count, allocated, shared, whole, uses if kind is DeviceType.GPU else None))
    if DeviceType.GPU not in devices:
        whole = Counter()
        for info in pods.entries:
            whole[info.node] += info.seen.pod.requests.get(NVIDIA_GPU)
        count = sum(node.allocatable.get(NVIDIA_GPU) for node in copy.engine.nodes())
        asked = whole.total()
        if count or asked:
            found.append(_cards(NVIDIA_GPU, count, float(asked), 0, whole, uses))
    return tuple(found)


def _cards(kind: str, count: int, allocated: float, shared: int, whole: Counter[str], uses: CardUses | None) -> Cards:
    if uses is not None:
        return Cards(kind, count, allocated, shared, used_cards(kind, uses), shareable_cards(kind, uses, whole))
    why = "no exporter of their use is read"
    used, shareable = (
        unknown(f"{kind}_{key}", f"{kind}: {title}", "cards", "not defined for this kind", why)
        for key, title in (("used", "cards used"), ("shareable", "cards that could be shared"))
    )
    return Cards(kind, count, allocated, shared, used, shareable)
