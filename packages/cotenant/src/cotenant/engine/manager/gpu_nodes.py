"""Keeps GPU resources on nodes: nodes and Device objects in; writes of amounts, terms and labels out.

Totals follow the Device object, must go when it goes, and must not be taken from nodes whose totals another manager
wrote and no Device explains. Events mark nodes as due; `decide` returns a write where a node differs. Removed is what
the annotation names, and what the node's Device lists and no healthy GPU has; totals without an annotation and without
a Device stay. A write that the watch does not show within a while is issued again, ever more rarely.
Limits: as `policy/overcommit/gpu_totals.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.engine.manager.instructions import WriteGpus
from cotenant.engine.manager.node_writes import NodeWrites
from cotenant.model.devices.inventory import NodeDevices
from cotenant.policy.overcommit.facts import Amount
from cotenant.policy.overcommit.gpu_totals import NO_GPUS, GpuTotals, gpu_totals, is_total


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node as far as its GPU resources go."""

    name: str
    uid: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)  # by Kubernetes name, what may be a total
    written: str = ""  # the annotation
    labels: Mapping[str, str] = field(default_factory=dict)  # those that are copied from the Device object


class GpuNodes:
    """Events correct facts; `decide` returns instructions. Times are seconds of one steady clock."""

    def __init__(self, confirm_s: float = 30.0) -> None:
        self._nodes: dict[str, GpuNode] = {}
        self._totals: dict[str, GpuTotals] = {}
        self._writes: NodeWrites[WriteGpus] = NodeWrites(confirm_s)

    # ---- events

    def node_seen(self, node: GpuNode, now_s: float) -> None:
        """A node as it is now."""
        if self._nodes.get(node.name) != node:
            self._nodes[node.name] = node
            self._writes.changed(node.name, now_s)

    def node_gone(self, name: str) -> None:
        """The node was deleted."""
        self._nodes.pop(name, None)
        self._writes.gone(name)

    def devices_seen(self, devices: NodeDevices, now_s: float) -> None:
        """A node's Device object as it is now."""
        totals = gpu_totals(devices)
        if self._totals.get(devices.node) != totals:
            self._totals[devices.node] = totals
            self._writes.changed(devices.node, now_s)

    def devices_gone(self, name: str, now_s: float) -> None:
        """The Device object was deleted: the totals that the node's annotation names are removed."""
        if self._totals.pop(name, NO_GPUS).listed:
            self._writes.changed(name, now_s)

    def leads_now(self, now_s: float) -> None:
        """This replica begins to lead: what an earlier term sent may never have been written."""
        self._writes.leads_now(self._nodes, now_s)

    # ---- decisions

    def next_s(self) -> float:
        """When `decide` has something to do; inf = not before the next event."""
        return self._writes.next_s()

    def decide(self, now_s: float) -> tuple[WriteGpus, ...]:
        """What is to be written now."""
        found: list[WriteGpus] = []
        for name in self._writes.take_due(now_s):
            node = self._nodes.get(name)
            if node is not None:
                found += self._of_node(node, now_s)
        return tuple(found)

    def total(self) -> dict[str, int]:
        """GPU resources of all nodes by Kubernetes name, as the Device objects have them."""
        found: dict[str, int] = {}
        for name in self._nodes.keys() & self._totals.keys():
            for amount in self._totals[name].amounts:
                found[amount.resource] = found.get(amount.resource, 0) + amount.value
        return found

    def _of_node(self, node: GpuNode, now_s: float) -> tuple[WriteGpus, ...]:
        totals = self._totals.get(node.name, NO_GPUS)
        wanted: dict[str, int | None] = dict.fromkeys(sorted(totals.listed | written_names(node.written)))
        wanted.update({amount.resource: amount.value for amount in totals.amounts})
        amounts = {name: amount for name, amount in wanted.items() if node.amounts.get(name) != amount}
        annotation = annotation_of(totals.amounts)
        labels = {name: value for name, value in (totals.labels or {}).items() if node.labels.get(name) != value}
        if not (amounts or labels or (annotation or "") != node.written):
            self._writes.stands(node.name)
            return ()
        return self._writes.send(node.name, WriteGpus(node.name, node.uid, amounts, annotation, labels), now_s)


def annotation_of(amounts: tuple[Amount, ...]) -> str | None:
    """The node's annotation; None where it has no GPU resources."""
    if not amounts:
        return None
    found = {
        amount.resource: {"value": amount.value, "terms": [[t.name, t.amount] for t in amount.terms]}
        for amount in amounts
    }
    return json.dumps(found, separators=(",", ":"))


def written_names(written: str) -> frozenset[str]:
    """The resources that an annotation names; none where it cannot be read."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(name for name in found if is_total(name)) if isinstance(found, dict) else frozenset()
