"""The pools whose devices a node can use, from the slices of all.

Slices of older generations are ignored. A pool of which slices are missing is *incomplete*, one that contradicts itself
is *invalid*: neither is allocated from, and a request for all devices waits for both. Devices are tried in the order of
pools (driver, name; those with binding conditions last), slices (name) and devices in a slice, which lets a driver say
what it prefers by its names. A slice of counters concerns only nodes that have other slices of its pool.

Source: Kubernetes 1.36, dynamic-resource-allocation, structured allocator (incubating), gathering of pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.claims.devices import (
    NOWHERE,
    CounterSet,
    DeviceId,
    DeviceTaint,
    OfferedDevice,
    PoolId,
    Reach,
    ResourceSlice,
    TaintRule,
)
from cotenant.model.cluster.labels import Labels


class PoolState(StrEnum):
    """Whether devices of a pool can be allocated."""

    USABLE = "usable"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, eq=False)
class PoolDevice:
    """A device of a pool on a node. `reach`: of its slice, or its own."""

    id: DeviceId
    device: OfferedDevice
    reach: Reach
    taints: tuple[DeviceTaint, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DevicePool:
    """A pool, as a node sees it. `elsewhere`: its devices that the node cannot use; they take counters too."""

    id: PoolId
    state: PoolState = PoolState.USABLE
    why: str = ""
    devices: tuple[PoolDevice, ...] = ()
    elsewhere: tuple[PoolDevice, ...] = ()
    counters: tuple[CounterSet, ...] = field(default=())


def reaches(reach: Reach, node: str, labels: Labels) -> bool:
    """Whether a node is in reach."""
    if reach.node:
        return reach.node == node
    return reach.all or (reach.selector is not None and reach.selector.matches(node, labels))


def pools_of(
    node: str,
    labels: Labels,
    slices: Iterable[ResourceSlice],
    all_of: Callable[[PoolId], Sequence[ResourceSlice]],
    rules: Sequence[TaintRule] = (),
) -> tuple[DevicePool, ...]:
    """The pools of a node. `slices`: those that may concern it; `all_of`: every slice of a pool."""
    found: dict[PoolId, list[ResourceSlice]] = {}
    for offered in slices:
        if not offered.counters and not _concerns(offered, node, labels):
            continue
        known = found.get(offered.pool_id)
        if known is None or offered.generation > known[0].generation:
            found[offered.pool_id] = [offered]
        elif offered.generation == known[0].generation:
            known.append(offered)
    first: list[DevicePool] = []
    last: list[DevicePool] = []
    for pool_id in sorted(found):
        here = found[pool_id]
        if all(offered.counters for offered in here):
            continue
        every: Sequence[ResourceSlice] = here
        if len(here) != here[0].slices:
            of_pool = all_of(pool_id)
            if any(offered.generation > here[0].generation for offered in of_pool):
                continue  # the newer ones offer nothing here
            every = [offered for offered in of_pool if offered.generation == here[0].generation]
            if len(every) != here[0].slices:
                first.append(DevicePool(pool_id, PoolState.INCOMPLETE, f"{len(every)} of {here[0].slices} slices"))
                continue
        pool = _built(pool_id, here, every, node, labels, rules)
        waits = any(device.binding_conditions for offered in here for device in offered.devices)
        (last if waits else first).append(pool)
    return (*first, *last)


def _concerns(offered: ResourceSlice, node: str, labels: Labels) -> bool:
    if offered.reach is not None:
        return reaches(offered.reach, node, labels)
    return any(device.reach is not None and reaches(device.reach, node, labels) for device in offered.devices)


def _built(
    pool_id: PoolId,
    here: list[ResourceSlice],
    every: Sequence[ResourceSlice],
    node: str,
    labels: Labels,
    rules: Sequence[TaintRule],
) -> DevicePool:
    here.sort(key=lambda offered: offered.name)
    counters = [counter_set for offered in here for counter_set in offered.counters]
    names = [counter_set.name for counter_set in counters]
    devices: list[PoolDevice] = []
    elsewhere: list[PoolDevice] = []
    seen: set[str] = set()
    for offered in here:
        for device in offered.devices:
            if device.name in seen:
                return DevicePool(pool_id, PoolState.INVALID, f"two devices are called {device.name}")
            seen.add(device.name)
            made = _device(offered, device, rules)
            (devices if reaches(made.reach, node, labels) else elsewhere).append(made)
    if len(set(names)) != len(names):
        return DevicePool(pool_id, PoolState.INVALID, "two counter sets have one name")
    mine = {offered.name for offered in here}
    elsewhere += [
        _device(offered, device, ()) for offered in every if offered.name not in mine for device in offered.devices
    ]
    known = {counter_set.name: {name for name, _ in counter_set.nano} for counter_set in counters}
    for made in (*devices, *elsewhere):
        for use in made.device.uses:
            if use.counter_set not in known:
                return DevicePool(pool_id, PoolState.INVALID, f"there is no counter set {use.counter_set}")
            lacking = [name for name, _ in use.nano if name not in known[use.counter_set]]
            if lacking:
                why = f"counter set {use.counter_set} has no counter {lacking[0]}"
                return DevicePool(pool_id, PoolState.INVALID, why)
    return DevicePool(pool_id, PoolState.USABLE, "", tuple(devices), tuple(elsewhere), tuple(counters))


def _device(offered: ResourceSlice, device: OfferedDevice, rules: Sequence[TaintRule]) -> PoolDevice:
    more = tuple(rule.taint for rule in rules if rule.covers(offered.driver, offered.pool, device.name))
    return PoolDevice(
        DeviceId(offered.driver, offered.pool, device.name),
        device,
        offered.reach or device.reach or NOWHERE,
        device.taints + more if more else device.taints,
    )
