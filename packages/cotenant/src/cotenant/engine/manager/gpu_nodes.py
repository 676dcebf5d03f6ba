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
from math import inf

from cotenant.engine.manager.instructions import WriteGpus
from cotenant.model.devices.inventory import NodeDevices
from cotenant.policy.overcommit.facts import Amount
from cotenant.policy.overcommit.gpu_totals import NO_GPUS, GpuTotals, gpu_totals, is_total

SETTLE_S = 0.5
MAX_DOUBLINGS = 7


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node as far as its GPU resources go."""

    name: str
    uid: str = ""
    amounts: Mapping[str, int] = field(default_factory=dict)  # by Kubernetes name, what may be a total
    written: str = ""  # the annotation
    labels: Mapping[str, str] = field(default_factory=dict)  # those that are copied from the Device object


@dataclass(slots=True)
class _Sent:
    what: WriteGpus
    at_s: float
    tries: int = 1


class GpuNodes:
    """Events correct facts; `decide` returns instructions. Times are seconds of one steady clock."""

    def __init__(self, confirm_s: float = 30.0) -> None:
        self._confirm_s = confirm_s
        self._nodes: dict[str, GpuNode] = {}
        self._totals: dict[str, GpuTotals] = {}
        self._sent: dict[str, _Sent] = {}
        self._due: dict[str, float] = {}  # by node

    # ---- events

    def node_seen(self, node: GpuNode, now_s: float) -> None:
        """A node as it is now."""
        if self._nodes.get(node.name) != node:
            self._nodes[node.name] = node
            self._later(node.name, now_s + SETTLE_S)

    def node_gone(self, name: str) -> None:
        """The node was deleted."""
        for known in (self._nodes, self._sent, self._due):
            known.pop(name, None)

    def devices_seen(self, devices: NodeDevices, now_s: float) -> None:
        """A node's Device object as it is now."""
        totals = gpu_totals(devices)
        if self._totals.get(devices.node) != totals:
            self._totals[devices.node] = totals
            self._later(devices.node, now_s + SETTLE_S)

    def devices_gone(self, name: str, now_s: float) -> None:
        """The Device object was deleted: the totals that the node's annotation names are removed."""
        if self._totals.pop(name, NO_GPUS).listed:
            self._later(name, now_s + SETTLE_S)

    def leads_now(self, now_s: float) -> None:
        """This replica begins to lead: what an earlier term sent may never have been written."""
        self._sent.clear()
        for name in self._nodes:
            self._later(name, now_s)

    # ---- decisions

    def next_s(self) -> float:
        """When `decide` has something to do; inf = not before the next event."""
        return min(self._due.values(), default=inf)

    def decide(self, now_s: float) -> tuple[WriteGpus, ...]:
        """What is to be written now."""
        found: list[WriteGpus] = []
        for name in sorted(name for name, at_s in self._due.items() if at_s <= now_s):
            del self._due[name]
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
            self._sent.pop(node.name, None)
            return ()
        write = WriteGpus(node.name, node.uid, amounts, annotation, labels)
        sent, tries = self._sent.get(node.name), 1
        if sent is not None and sent.what == write:
            again_s = sent.at_s + self._confirm_s * 2 ** min(sent.tries - 1, MAX_DOUBLINGS)
            if now_s < again_s:
                self._later(node.name, again_s)
                return ()
            tries = sent.tries + 1
        self._sent[node.name] = _Sent(write, now_s, tries)
        self._later(node.name, now_s + self._confirm_s)
        return (write,)

    def _later(self, name: str, at_s: float) -> None:
        self._due[name] = min(self._due.get(name, inf), at_s)


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
