"""The allocation of a pod on a row where devices are reserved for it.

Verdicts are cached by node state, and a reservation for one pod is not part of it. Judge anew each time, over the few
rows that an owner may draw from.
Limits: a node without a Device object has no devices by number: there the cached state decides as for any pod.

Source: Koordinator, DeviceShare (reservation).
"""

from __future__ import annotations

from cotenant.engine.framework.node_rules import Lent
from cotenant.engine.rules.devices.nodes import UNKNOWN, DeviceNodes
from cotenant.engine.rules.devices.requests import DistinctDeviceRequest
from cotenant.engine.rules.devices.verdicts import DeviceVerdict, judge
from cotenant.model.devices.request import type_of
from cotenant.policy.placement.devices.allocation import DeviceChoice
from cotenant.policy.placement.devices.drawing import allocate_from


def judge_lent(nodes: DeviceNodes, ask: DistinctDeviceRequest, row: int, lent: Lent) -> DeviceVerdict:
    """Choose from the reserved devices, which have no holder at the moment."""
    node = nodes.at(row)
    if node is None or node.facts is None:
        return judge(ask, UNKNOWN, nodes.ledgers[UNKNOWN])
    types = frozenset(type_ for name in lent.strict if (type_ := type_of(name)) is not None)
    got = allocate_from(node.ledger, ask.wanted, lent.holds.devices, types)
    return DeviceVerdict(None, got.allocations) if isinstance(got, DeviceChoice) else DeviceVerdict(got)
