"""The largest requests with which a pod, or a number of pods like it, would fit.

A pod may lack several resources on one node, devices are not sums, and three pods of a gang need three times the room.
For one pod, the node on which it would have to give up the smallest share; for several, the largest amount of each
scarce resource of which the nodes together have as many pieces as there are pods; in both cases no more than a quota
has left. Lent resources are lowered to what predicted use leaves. GPUs and other devices are read from the free devices
of each node.
Limits: this is where to begin; whether the pods are then placed is found out in a copy of the engine (question.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cotenant.engine.cycle.rejections import FIT
from cotenant.engine.explain.what_if import WhatIfView
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.devices.device_view import DeviceSummary, NodeDeviceSummary
from cotenant.engine.rules.use.rules import NAME as PREDICTED_USE
from cotenant.model.arrays import Int, Mask
from cotenant.model.devices.request import CARDS, RESOURCES, WHOLE, type_of
from cotenant.model.resources import GPU, GPU_SHARED, PODS_NAME, Amounts, Unit, unit_of

_MAX_DEVICE_NODES = 200  # nodes whose devices are looked at
_DEVICES = "DeviceShare"
_MIB = 1 << 20


class Lower(NamedTuple):
    """Smaller requests, by resource, and the rows on which one pod fits with them."""

    amounts: Mapping[str, int]
    rows: Int


def lower_requests(
    view: WhatIfView, plugins: PluginRegistry, names: list[str], together: int, most: Amounts
) -> Lower | None:
    """The smallest reduction with which `together` pods may fit, none asking for more than `most` of a resource
    that it names; None if there is none.
    """
    checks = view.checked.checks
    others = np.zeros(len(view.checked.here), dtype=np.bool_)
    for check in checks:
        if (check.plugin != FIT or check.missing is None) and check.plugin not in (_DEVICES, PREDICTED_USE):
            others |= check.fails
    near = view.checked.here & ~others
    if len(view.allowed):
        near &= view.allowed
    rows = np.flatnonzero(near)
    if len(rows) == 0:
        return None
    rooms = _rooms(view, plugins, names, rows)
    if rooms is None:
        return None
    asked = {name: view.pod.requests.get(name) for name in rooms if view.pod.requests.get(name) > 0}
    rooms = {name: np.minimum(room, most.get(name)) if name in most else room for name, room in rooms.items()}
    for name in most.names():
        if name not in rooms and view.pod.requests.get(name) > most.get(name):
            rooms[name] = np.full(len(rows), most.get(name))
            asked[name] = view.pod.requests.get(name)
    slots = rooms.pop(PODS_NAME, np.full(len(rows), together))
    amounts = _for_one(asked, rooms, slots) if together == 1 else _for_many(asked, rooms, slots, together)
    amounts = {name: _in_whole_units(name, amount) for name, amount in amounts.items()}
    if GPU in amounts and amounts[GPU] > WHOLE:
        amounts[GPU] -= amounts[GPU] % WHOLE  # several GPUs are asked for whole
    if not amounts:
        return None
    enough = slots > 0
    for name, room in rooms.items():
        enough &= room >= amounts.get(name, asked.get(name, 0))
    return Lower(amounts, rows[enough])


def _in_whole_units(name: str, amount: int) -> int:
    """Bytes rounded down to MiB where there are any."""
    whole = amount - amount % _MIB if unit_of(name) is Unit.BYTES and not name.startswith("hugepages-") else 0
    return whole or amount


def _for_one(asked: Mapping[str, int], rooms: Mapping[str, Int], slots: Int) -> dict[str, int]:
    """What is left of the requests on the node that asks for the smallest reduction."""
    left = np.where(slots > 0, 1.0, -1.0)  # share of the requests that fits, for the scarcest resource
    for name, amount in asked.items():
        if name in rooms:
            left = np.minimum(left, rooms[name] / amount)
    best = int(np.argmax(left))
    if not 0 < left[best] < 1:
        return {}
    return {
        name: int(rooms[name][best]) for name, amount in asked.items() if name in rooms and rooms[name][best] < amount
    }


def _for_many(asked: Mapping[str, int], rooms: Mapping[str, Int], slots: Int, together: int) -> dict[str, int]:
    """The largest amounts of which there are enough pieces; empty if the requests as they are leave room for all,
    or if no amount does.
    """
    amounts: dict[str, int] = {}
    for name, amount in asked.items():
        room = rooms.get(name)
        if room is None or _pieces(room, amount, slots) >= together:
            continue
        low, high = 0, amount  # `high` leaves too few pieces
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _pieces(room, middle, slots) >= together else (low, middle)
        if low == 0:
            return {}
        amounts[name] = low
    return amounts


def _pieces(room: Int, amount: int, slots: Int) -> int:
    return int(np.minimum(np.maximum(0, room) // amount, np.maximum(0, slots)).sum())


def _rooms(view: WhatIfView, plugins: PluginRegistry, names: list[str], rows: Int) -> dict[str, Int] | None:
    """For each requested resource, how much of it one pod could ask for on each of the rows; None where a device
    request cannot be lowered.
    """
    rooms: dict[str, Int] = {}
    for check in view.checked.checks:
        if check.plugin == FIT and check.missing is not None:
            asked = 1 if check.resource == PODS_NAME else view.pod.requests.get(check.resource)
            rooms[check.resource] = asked - check.missing[rows]
    for name, room in plugins.predicted_use.room_of(view.pod.requests).items():
        rooms[name] = np.minimum(rooms.get(name, room[rows]), room[rows])
    refused = _refused_by_devices(view)
    if not refused[rows].any():
        return rooms
    wanted = {name: amount for name, amount in view.pod.requests if name in RESOURCES and amount > 0}
    for name, amount in wanted.items():
        if name == GPU_SHARED:
            return None
        room = np.full(len(rows), amount)
        for at in np.flatnonzero(refused[rows])[:_MAX_DEVICE_NODES].tolist():
            found = plugins.devices.describe(names[int(rows[at])])
            room[at] = min(_free(found, name), amount) if found is not None else 0
        room[np.flatnonzero(refused[rows])[_MAX_DEVICE_NODES:]] = 0
        rooms[name] = room
    return rooms


def _refused_by_devices(view: WhatIfView) -> Mask:
    found = np.zeros(len(view.checked.here), dtype=np.bool_)
    for check in view.checked.checks:
        if check.plugin == _DEVICES:
            found |= check.fails
    return found


def _free(node: NodeDeviceSummary, name: str) -> int:
    """How much of a device resource one pod could have: whole devices if any is free, else the largest free part of
    one.
    """
    kind = type_of(name)
    devices = [device for device in node.devices if device.type is kind and device.is_known and device.is_healthy]
    whole = sum(not any(amount for _, amount in device.used) for device in devices)
    if name in CARDS:
        return whole
    if whole:
        return whole * (WHOLE if name == GPU else _largest(devices, name))
    return _largest(devices, name)


def _largest(devices: list[DeviceSummary], name: str) -> int:
    free = [device.free for device in devices]
    if name == GPU:
        return max((min(amount for _, amount in amounts) for amounts in free if amounts), default=0)
    return max((amounts.get(name) for amounts in free), default=0)
