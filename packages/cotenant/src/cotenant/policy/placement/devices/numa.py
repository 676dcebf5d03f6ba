"""NUMA hints for devices: the sets of NUMA nodes on which all requested devices can be allocated together.

A hint must be consistent with the later allocation. The allocator itself is called once per set of NUMA nodes, small
sets first; preferred sets are as small as an idle node would allow, which is evaluated only for sets smaller than all
that serve.
Limits: a device of unknown NUMA node fits every set; the number of calls doubles with each NUMA node, at most eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.devices.allocation import DeviceAsk, DeviceChoice, allocate
from cotenant.policy.placement.devices.ledger import DeviceLedger
from cotenant.policy.placement.numa import MAX_NUMA_NODES, Hint


def device_hints(ledger: DeviceLedger, ask: DeviceAsk, numa_nodes: Sequence[int]) -> tuple[Hint, ...]:
    """Every set of these NUMA nodes (ids) on which the whole request can be allocated, the narrow ones first; ()
    where none can serve.
    """
    if len(numa_nodes) > MAX_NUMA_NODES:
        raise InvalidInput("NUMA nodes", len(numa_nodes), f"at most {MAX_NUMA_NODES}")
    sets = sorted(
        (_mask(numa_nodes, subset) for subset in range(1, 1 << len(numa_nodes))),
        key=lambda number: (number.bit_count(), number),
    )
    serving = [number for number in sets if _serves(ledger, ask, number)]
    if not serving:
        return ()
    narrowest, idle = serving[0].bit_count(), ledger.idle()
    smaller = (number.bit_count() for number in sets if number.bit_count() < narrowest and _serves(idle, ask, number))
    narrowest = next(smaller, narrowest)
    return tuple(Hint(number, number.bit_count() == narrowest) for number in serving)


def _serves(ledger: DeviceLedger, ask: DeviceAsk, numa: int) -> bool:
    return isinstance(allocate(ledger, replace(ask, numa=numa)), DeviceChoice)


def _mask(numa_nodes: Sequence[int], subset: int) -> int:
    mask = 0
    for place, node in enumerate(numa_nodes):
        if subset >> place & 1:
            mask |= 1 << node
    return mask
