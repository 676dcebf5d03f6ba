"""Nodes and their residents as arrays by row, from three sources.

Nodes are known from their own reports, from full-node requests, and, with access to one, from the API server with all
residents; the sources come and go in any order. One row for each node in an encoder and a ledger, facts kept by name so
that everything can be rebuilt, and two flags for each row: whether its size is from Kubernetes, and whether its
residents are counted. Row `UNKNOWN` stands for every unknown node; a node that can hold no pod, such as one without
CPU, has a reason instead of a row. Changes of residents are applied together, before the next answer.
Limits: taints, labels and readiness are left out (kube-scheduler checks them), so nodes here are always ready. Nodes
known only from requests are forgotten when there are too many, and learnt again from the next request. What
kube-scheduler has assumed but not yet bound is not seen until the bind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.ledger import Ledger
from cotenant.model.arrays import CPU, MEMORY, Float, Mask, NodeArrays, ShapeArrays
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Shape
from cotenant.model.cluster.report import NodeReport
from cotenant.model.resources import CPU_NAME, MAX_AMOUNT, MEMORY_NAME, Amounts

UNKNOWN = 0
_UNKNOWN_NAME = "/"  # no node's: Kubernetes' names have no slash
HALF_NODE_CORES = 16.0  # until the nodes of the cluster are known


class _Resident:
    """A bound pod: the name of its node, and its row once it is in the ledger."""

    __slots__ = ("node", "number", "row", "shape")

    def __init__(self, node: str, shape: Shape) -> None:
        self.node = node
        self.shape = shape
        self.number = -1
        self.row = -1


class Mirror:
    """Nodes and their residents by row. `generation` changes whenever a name may have a different row."""

    def __init__(self, max_nodes: int = 20_000, max_shapes: int = 4_096, pressure_factor: float = 1.0) -> None:
        self.generation = 0
        self.changed: set[int] = set()  # rows whose figures from Kubernetes changed since the profile last read them
        self.reported: set[int] = set()  # rows whose report changed since then
        self.offered: Float = np.full((1, 2), np.nan)  # [N, 2] milli-CPU and bytes that the last report leaves unused
        self.whole: Float = np.full((1, 2), np.nan)  # [N, 2] the allocatable of that report
        self.unusable: dict[str, str] = {}  # why, by name: nodes that exist and can hold no pod
        self.at_s: Float = np.full(1, np.nan)  # [N] Unix time of the last report
        self.listed: Mask = np.zeros(1, dtype=np.bool_)  # [N] its allocatable is from Kubernetes
        self.counted: Mask = np.zeros(1, dtype=np.bool_)  # [N] all its residents are known
        self._max_nodes = max_nodes
        self._max_shapes = max_shapes
        self._pressure_factor = pressure_factor
        self._half_node_cores = HALF_NODE_CORES
        self._synced = False
        self._reports: dict[str, NodeReport] = {}
        self._cluster: dict[str, Node] = {}
        self._given: dict[str, Node] = {}  # known from requests only
        self._residents: dict[str, _Resident] = {}  # by uid
        self._by_node: dict[str, set[str]] = {}  # uids on each node, known or not
        self._moving: dict[str, _Resident] = {}
        self._numbers = 0
        self._free: list[int] = []
        self._build()

    # ---- reading

    @property
    def rows(self) -> dict[str, int]:
        """Row by node name."""
        return self._encoder.node_rows

    @property
    def nodes(self) -> NodeArrays:
        """The nodes' arrays; read them again after `apply`."""
        return self._ledger.nodes

    @property
    def shapes(self) -> ShapeArrays:
        """The shapes' arrays; read them again after `apply` and `intern`."""
        return self._ledger.shapes

    @property
    def synced(self) -> bool:
        """Whether all nodes and bound pods of a cluster have been listed."""
        return self._synced

    @property
    def residents(self) -> int:
        """Bound pods that are known."""
        return len(self._residents)

    def knows(self, name: str) -> bool | None:
        """Whether the cluster has a node of this name; None until all nodes have been listed."""
        return name in self._cluster if self._synced else None

    def resources(self) -> tuple[str, ...]:
        """The names of the resource columns."""
        return self._encoder.axis.names

    def resident_shape(self, uid: str) -> Shape | None:
        """The shape of a bound pod, where it is known."""
        resident = self._residents.get(uid)
        return None if resident is None else resident.shape

    # ---- nodes

    def report_received(self, report: NodeReport) -> None:
        """A node reported. A node that no other source knows has its size from the report."""
        self._reports.pop(report.node, None)
        self._reports[report.node] = report  # in order of arrival
        row = self.rows.get(report.node)
        if row is None:
            if len(self.rows) > self._max_nodes:
                self._forget_one()
            row = self._add(_sized(report))
        elif not self.listed[row]:
            self._encoder.update_node(_sized(report))
        self._write_report(row, report)

    def node_in_request(self, node: Node) -> None:
        """A node inside a request; what the cluster itself has takes precedence."""
        if node.name not in self._cluster:
            self.unusable.pop(node.name, None)
            self._given[node.name] = node
            self._list(node)

    def node_seen(self, node: Node) -> None:
        """A node of the cluster was added or changed."""
        self.unusable.pop(node.name, None)
        self._cluster[node.name] = node
        self._given.pop(node.name, None)
        self._list(node)

    def node_unusable(self, name: str, why: str) -> None:
        """A node, of the cluster or inside a request, that can hold no pod; no other node or report of its name
        counts.
        """
        self.node_gone(name)
        self._given.pop(name, None)
        self.unusable[name] = why

    def node_gone(self, name: str) -> None:
        """A node left the cluster. Its residents are kept until it returns, or until they end."""
        self.unusable.pop(name, None)
        self._cluster.pop(name, None)
        self._reports.pop(name, None)
        row = self.rows.get(name)
        if row is None:
            return
        self._remove_residents([self._residents[uid] for uid in self._by_node.get(name, ())])
        self._remove_residents([resident for resident in self._moving.values() if resident.row == row])
        self._remove(name)

    def forget_unused(self, more: int = 0) -> None:
        """Before a request: forget unused nodes and shapes where there are too many. `more` nodes may be added by the
        request.

        Rows and shapes may be renumbered, so it must not be called while a request is answered.
        """
        if len(self.shapes.tenant) > self._max_shapes:
            self._build()
            self._max_shapes = max(self._max_shapes, 2 * len(self.shapes.tenant))
        if (self._given or self.unusable) and len(self.rows) + len(self.unusable) + more > self._max_nodes:
            self._given.clear()
            if not self._synced:
                self.unusable.clear()  # learnt again from the next request
            self._max_nodes = max(self._max_nodes, 2 * more)
            self._build()

    def sync(self) -> None:
        """Everything in the cluster has been listed; residents count from now on."""
        self._synced = True
        sizes = [node.allocatable.get(CPU_NAME) / 1000.0 for node in self._cluster.values()]
        if sizes:
            self._half_node_cores = float(np.median(sizes)) / 2.0
        self._build()

    # ---- residents

    def pod_seen(self, uid: str, node: str, shape: Shape) -> None:
        """A bound pod that has not ended was added or changed."""
        resident = self._residents.get(uid)
        if resident is None:
            resident = self._moving.get(uid)  # gone a moment ago, and not yet removed from its row
            if resident is None:
                resident = _Resident(node, shape)
            resident.node, resident.shape = node, shape
            self._residents[uid] = resident
        elif (resident.node, resident.shape) == (node, shape):
            return
        else:
            self._by_node[resident.node].discard(uid)
            resident.node, resident.shape = node, shape
        self._by_node.setdefault(node, set()).add(uid)
        self._moving[uid] = resident

    def pod_gone(self, uid: str) -> None:
        """A bound pod ended or was deleted."""
        resident = self._residents.pop(uid, None)
        if resident is None:
            return
        uids = self._by_node[resident.node]
        uids.discard(uid)
        if not uids:
            del self._by_node[resident.node]
        if resident.row < 0:
            self._moving.pop(uid, None)  # it came and went between two requests, of which there may be none
        else:
            self._moving[uid] = resident

    def apply(self) -> None:
        """Apply pending changes to the arrays."""
        if self._moving:
            moving = list(self._moving.items())
            self._moving.clear()
            self._remove_residents([resident for _, resident in moving])
            self._add_residents([resident for uid, resident in moving if self._residents.get(uid) is resident])

    def intern(self, shape: Shape) -> int:
        """The row of a shape."""
        k = self._encoder.intern(shape)
        self._adopt()
        return k

    def validate(self) -> None:
        """Recompute every sum from the residents; `Permanent` with the first difference."""
        self.apply()
        self._ledger.validate()

    # ---- inside

    def _build(self) -> None:
        """Rebuild everything from the facts, without rows and shapes that are no longer needed."""
        self._encoder = Encoder(self._half_node_cores, self._pressure_factor)
        self._ledger = Ledger(self._encoder.nodes(), self._encoder.shapes(), 0, 0)
        self._counted_requests = 0  # `requests_revision` of the encoder when the ledger last counted them
        self._numbers, self._free = 0, []
        self._add(Node(_UNKNOWN_NAME, Amounts.of({CPU_NAME: 1000, MEMORY_NAME: 1 << 30})))
        for node in (*self._cluster.values(), *self._given.values()):
            self._list(node)
        while len(self._reports) > self._max_nodes:
            del self._reports[next(iter(self._reports))]
        for report in self._reports.values():
            row = self.rows.get(report.node)
            self._write_report(self._add(_sized(report)) if row is None else row, report)
        for resident in self._residents.values():
            resident.number = resident.row = -1
        self._moving = dict(self._residents)
        self.changed = set(self.rows.values())
        self.generation += 1
        self.apply()

    def _list(self, node: Node) -> None:
        bare = Node(node.name, node.allocatable)
        row = self.rows.get(node.name)
        if row is None:
            row = self._add(bare)
            for uid in self._by_node.get(node.name, ()):
                self._moving[uid] = self._residents[uid]
        else:
            self._encoder.update_node(bare)
            self._adopt()
        self.listed[row] = True
        self.counted[row] = self._synced and node.name in self._cluster
        self.changed.add(row)

    def _add(self, node: Node) -> int:
        row = self._encoder.add_node(node)
        size = self._encoder.all_rows
        if size > len(self.listed):
            longer = 2 * size
            unknown = np.full((longer - len(self.offered), 2), np.nan)
            self.at_s = np.concatenate([self.at_s, unknown[:, 0]])
            self.offered, self.whole = np.concatenate([self.offered, unknown]), np.concatenate([self.whole, unknown])
            self.listed = np.concatenate([self.listed, np.zeros(longer - len(self.listed), dtype=np.bool_)])
            self.counted = np.concatenate([self.counted, np.zeros(longer - len(self.counted), dtype=np.bool_)])
        self.offered[row] = self.whole[row] = self.at_s[row] = np.nan
        self.listed[row] = self.counted[row] = False
        self.generation += 1
        self.changed.add(row)
        self._adopt()
        return row

    def _write_report(self, row: int, report: NodeReport) -> None:
        self._encoder.nodes().report[row] = report.row()
        self.at_s[row] = report.at_s
        self.whole[row] = report.cpu_allocatable * 1000.0, report.memory_allocatable
        self.offered[row] = (
            round((report.cpu_allocatable - report.cpu_used) * 1000.0, 3),  # 8 - 7.6 cores are 400 milli-CPU
            report.memory_allocatable - report.memory_used,
        )
        self.reported.add(row)

    def _remove(self, name: str) -> None:
        self._encoder.remove_node(name)
        self.generation += 1

    def _forget_one(self) -> None:
        """Forget the node that has been silent longest, of those known only by their reports."""
        for name in self._reports:
            row = self.rows.get(name)
            if row is not None and not self.listed[row]:
                del self._reports[name]
                self._remove(name)
                return

    def _remove_residents(self, residents: Sequence[_Resident]) -> None:
        """Remove residents from their rows."""
        placed = [resident for resident in residents if resident.row >= 0]
        if placed:
            self._ledger.remove(np.array([resident.number for resident in placed], dtype=np.int64))
            for resident in placed:
                self.changed.add(resident.row)
                self._free.append(resident.number)
                resident.number = resident.row = -1

    def _add_residents(self, residents: Iterable[_Resident]) -> None:
        numbers, rows, shapes = [], [], []
        for resident in residents:
            row = self.rows.get(resident.node)
            if row is None:
                continue
            if self._free:
                resident.number = self._free.pop()
            else:
                resident.number = self._numbers
                self._numbers += 1
            resident.row = row
            self.changed.add(row)
            numbers.append(resident.number)
            rows.append(row)
            shapes.append(self._encoder.intern(resident.shape))
        self._adopt()
        if numbers:
            self._ledger.place(np.array(numbers), np.array(rows), np.array(shapes))

    def _adopt(self) -> None:
        nodes, shapes, tenants = self._encoder.nodes(), self._encoder.shapes(), self._encoder.tenant_rows
        before = self._ledger
        if (
            nodes.capacity.shape != before.nodes.capacity.shape
            or nodes.labels.shape != before.nodes.labels.shape
            or nodes.group_count.shape != before.nodes.group_count.shape
            or len(shapes.tenant) != len(before.shapes.tenant)
            or shapes.request.shape != before.shapes.request.shape
            or tenants != len(before.tenants.weight)
        ):
            before.adopt(nodes, shapes, tenants)
        if self._counted_requests != self._encoder.requests_revision:
            self._counted_requests = self._encoder.requests_revision
            before.recount()


def _sized(report: NodeReport) -> Node:
    """The node of a report: CPU and memory only."""
    cpu = min(MAX_AMOUNT - 1, max(1, round(report.cpu_allocatable * 1000.0)))
    memory = min(MAX_AMOUNT - 1, max(1, round(report.memory_allocatable)))
    return Node(report.node, Amounts.of({CPU_NAME: cpu, MEMORY_NAME: memory}))


assert (CPU, MEMORY) == (0, 1)  # the two columns of `offered` and `whole`
