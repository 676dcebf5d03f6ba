"""A pod as the device rule knows it, and the check of all of them against the nodes' ledgers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.engine.framework.node_rules import Lent
from cotenant.engine.rules.devices.nodes import BY_CLAIMS, DeviceNode
from cotenant.engine.rules.devices.requests import DistinctDeviceRequest
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.errors import Permanent


@dataclass(slots=True)
class DevicePod:
    """A pod that asks for or holds devices."""

    key: str
    ask: (
        DistinctDeviceRequest | str | None
    )  # a message where the request contradicts itself; None = it only holds devices
    given: tuple[DeviceAllocation, ...]
    given_on: str = ""  # the node that `given` was chosen on; empty = reported by an annotation
    node: str = ""  # the node it is assigned to
    is_guess: bool = False  # assigned, with assumed holdings
    is_exact: bool = False  # its holdings are fixed, even if empty: nothing is assumed
    lent: Mapping[int, Lent] = field(default_factory=dict)  # row -> what is reserved for it there
    need: CardNeed = NO_NEED


def check_holdings(pods: Mapping[int, DevicePod], nodes: Mapping[str, DeviceNode]) -> None:
    """Every ledger has the holdings of the pods on its node, and no others. Raises `Permanent`."""
    expected: dict[str, set[str]] = {}
    for number, pod in pods.items():
        if pod.node and (pod.given or pod.is_guess):
            expected.setdefault(pod.node, set()).add(str(number))
    for name, node in nodes.items():
        holders = {holding.uid for holding in node.ledger.holdings} - {BY_CLAIMS}
        if not holders <= expected.get(name, set()):
            raise Permanent(f"devices of {name} are held by pods that are not assigned to it")
    for number, pod in pods.items():
        if pod.node and pod.given and not pod.is_guess:
            found = nodes.get(pod.node)
            kept = [held.allocations for held in found.ledger.holdings if held.uid == str(number)] if found else []
            if kept != [pod.given]:
                raise Permanent(f"pod {pod.key} holds devices of {pod.node} that are not in the ledger")
