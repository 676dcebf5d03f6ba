"""Keeps the normalization and amplification ratios on nodes: nodes, their CPUs and the ConfigMap in; writes of
annotations out.

Ratios follow the ConfigMap and what agents report of CPUs, and a node whose ratio is not known must keep what it has.
Events mark nodes as due; `decide` returns writes where an annotation differs; a write that the watch does not show
within a while is issued again, ever more rarely.
Limits: as `policy/overcommit/node_ratios.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.manager.instructions import WriteRatios
from cotenant.engine.manager.node_writes import NodeWrites
from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.cluster.managed import NORMALIZATION_ANNOTATION
from cotenant.model.cpus.basic_info import CpuInfo
from cotenant.policy.overcommit.node_ratios import KEEP, RatioConfig, ratios_of, read_ratio_config


@dataclass(frozen=True, slots=True)
class RatioNode:
    """A node as far as its ratios go; "" = no annotation."""

    name: str
    uid: str = ""
    labels: Labels = NO_LABELS
    normalization: str = ""
    amplification: str = ""


class NodeRatioKeeper:
    """Events correct facts; `decide` returns instructions. Times are seconds of one steady clock."""

    def __init__(self, confirm_s: float = 30.0) -> None:
        self.config = RatioConfig()
        self.unknown: dict[str, str] = {}  # by node: why its ratio is not known
        self._nodes: dict[str, RatioNode] = {}
        self._cpus: dict[str, CpuInfo] = {}
        self._writes: NodeWrites[WriteRatios] = NodeWrites(confirm_s)

    # ---- events

    def config_seen(self, data: Mapping[str, str] | None, now_s: float) -> None:
        """The ConfigMap's data; None = there is none."""
        before, self.config = self.config, read_ratio_config(data, self.config)
        if self.config != before:
            self._writes.all_due(self._nodes, now_s)

    def node_seen(self, node: RatioNode, now_s: float) -> None:
        """A node as it is now."""
        if self._nodes.get(node.name) != node:
            self._nodes[node.name] = node
            self._writes.changed(node.name, now_s)

    def node_gone(self, name: str) -> None:
        """The node was deleted."""
        for known in (self._nodes, self.unknown):
            known.pop(name, None)
        self._writes.gone(name)

    def cpu_seen(self, name: str, cpu: CpuInfo | None, now_s: float) -> None:
        """What the node's agent reports of its CPU; None = nothing that can be read. The last report stays."""
        if cpu is not None and self._cpus.get(name) != cpu:
            self._cpus[name] = cpu
            self._writes.changed(name, now_s)

    def leads_now(self, now_s: float) -> None:
        """This replica begins to lead: what an earlier term sent may never have been written."""
        self._writes.leads_now(self._nodes, now_s)

    # ---- decisions

    def next_s(self) -> float:
        """When `decide` has something to do; inf = not before the next event."""
        return self._writes.next_s()

    def decide(self, now_s: float) -> tuple[WriteRatios, ...]:
        """What is to be written now."""
        found: list[WriteRatios] = []
        for name in self._writes.take_due(now_s):
            node = self._nodes.get(name)
            if node is not None:
                found += self._of_node(node, now_s)
        return tuple(found)

    def _of_node(self, node: RatioNode, now_s: float) -> tuple[WriteRatios, ...]:
        wanted = ratios_of(self.config, node.labels, self._cpus.get(node.name), node.normalization, node.amplification)
        self.unknown.pop(node.name, None)
        if wanted.reason:
            self.unknown[node.name] = wanted.reason
        pairs = (
            (NORMALIZATION_ANNOTATION, wanted.normalization, node.normalization),
            (AMPLIFICATION_RATIO, wanted.amplification, node.amplification),
        )
        changes = {key: value for key, value, stands in pairs if value != KEEP and (value or "") != stands}
        if not changes:
            self._writes.stands(node.name)
            return ()
        return self._writes.send(node.name, WriteRatios(node.name, node.uid, changes), now_s)
