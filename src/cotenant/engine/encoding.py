"""From pods and nodes as values to rows of arrays.

Problem: compiled filters see integers and bits, while pods and nodes speak in names, taints and expressions. Choice: everything with a
name is interned here. Equal pods share a shape's row. Each distinct repelling taint has a bit of the nodes' taint word. Each distinct
*whole* demand (a nodeSelector, a required affinity, a preferred term) has a bit among the nodes' label words, set where the plain
evaluation says so, so that a check of any size is one word operation. Rows grow by doubling.

The arrays handed out are views of the encoder's own memory: what a ledger adds to `requested`, `sums` or `group_count` stays when rows
are added, but after any call that adds something the owner must take `nodes()` and `shapes()` anew.

More than 64 distinct repelling taints: the word is full, and every further taint is judged by a demand bit instead, one for each distinct
list of tolerations ("all overflowing taints of this node are tolerated"). It is as exact, and costs one bit a list.

Limits: bits and numbers are never given back, so a cluster whose taints or selectors change without end needs a new encoder now and
then. A new demand is evaluated on every node in plain Python (about 4 us each).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cotenant.model.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.arrays import CPU, MEMORY, PODS, Int, NodeArrays, Param, Report, ShapeArrays, Sum
from cotenant.model.errors import InvalidInput
from cotenant.model.labels import Labels
from cotenant.model.node import Node
from cotenant.model.pod import Estimate, Pod, Shape
from cotenant.model.qos import PriorityClass
from cotenant.model.resources import ResourceAxis
from cotenant.model.taints import Taint, Toleration, tolerated
from cotenant.model.topology import Domains
from cotenant.policy.placement.contribution import contribution

WORD_BITS = 64
_FIRST_ROWS = 8

# The founding score's base by priority: its document gives the maximum of 35; the other bands fall evenly.
PRIORITY_BASE = {
    PriorityClass.PROD: 35.0,
    PriorityClass.MID: 25.0,
    PriorityClass.BATCH: 15.0,
    PriorityClass.FREE: 5.0,
    PriorityClass.NONE: 0.0,
}


@dataclass(frozen=True, slots=True)
class _Tolerates:
    """The demand that a list of tolerations makes of a node whose taints do not all have a bit."""

    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class _HasTaint:
    """Not a demand but a fact: the node has this PreferNoSchedule taint."""

    taint: Taint


_Demand = Labels | NodeSelector | NodeSelectorTerm | _Tolerates | _HasTaint


class Encoder:
    """Interns nodes and pods of one cluster.

    `half_node_cores` is half a node's capacity in cores, the unit of own pressure; `pressure_factor` is what a node's cache partition
    leaves of batch pressure (policy/placement/contribution.py).
    """

    def __init__(self, half_node_cores: float, pressure_factor: float = 1.0) -> None:
        if not (half_node_cores > 0 and half_node_cores < inf):
            raise InvalidInput("half_node_cores", half_node_cores, "cores above 0")
        self._half_node_cores = half_node_cores
        self._pressure_factor = pressure_factor
        self.axis = ResourceAxis()
        self.tenants: dict[str, int] = {}  # name -> number, in order
        self.groups: dict[str, int] = {}
        self.pod_numbers: dict[str, int] = {}  # namespace/name -> number; never given twice
        self.node_rows: dict[str, int] = {}
        self.revision = 0  # changes whenever a node does
        self._next_pod = 0
        self._row_nodes: list[Node | None] = []  # None = a row whose node is gone
        self._free_rows: list[int] = []
        self._shape_rows: dict[Shape, int] = {}
        self._row_shapes: list[Shape] = []
        self._taint_bits: dict[Taint, int] = {}
        self._overflowing: set[Taint] = set()
        self._demands: dict[_Demand, int] = {}
        self._soft_taints: list[Taint] = []
        self._nodes = _empty_nodes(_FIRST_ROWS, len(self.axis))
        self._shapes = _empty_shapes(_FIRST_ROWS, len(self.axis))

    # ---- arrays

    def nodes(self) -> NodeArrays:
        """A row a node, in the order of `node_rows`; a row whose node is gone is not ready."""
        return NodeArrays._make(column[: len(self._row_nodes)] for column in self._nodes)

    def shapes(self) -> ShapeArrays:
        """A row a shape, in the order they were first seen."""
        return ShapeArrays._make(column[: len(self._row_shapes)] for column in self._shapes)

    def node(self, row: int) -> Node:
        """The node of a row; `InvalidInput` where it is gone."""
        node = self._row_nodes[row]
        if node is None:
            raise InvalidInput("node row", row, "the row of a node that exists")
        return node

    def domains(self, key: str) -> Domains:
        """The domains of a topology key over all rows."""
        return Domains.of(key, self._row_nodes)

    def shape(self, row: int) -> Shape:
        """The shape of a row."""
        return self._row_shapes[row]

    # ---- nodes

    def add_node(self, node: Node) -> int:
        """The new node's row. `InvalidInput` for a name that is already there."""
        if node.name in self.node_rows:
            raise InvalidInput("node", node.name, "a name that no other node has", "use update_node for a changed node")
        if self._free_rows:
            row = self._free_rows.pop()
        else:
            row = len(self._row_nodes)
            self._row_nodes.append(None)
            if row >= len(self._nodes.ready):
                self._nodes = NodeArrays._make(_longer(column, 2 * row) for column in self._nodes)
        self.node_rows[node.name] = row
        self._nodes.report[row] = np.nan
        self._write_node(row, node)
        return row

    def update_node(self, node: Node) -> int:
        """Take over a node's new allocatable, labels, taints and condition; its residents stay. `InvalidInput` for an unknown name."""
        row = self._row_of(node.name)
        self._write_node(row, node)
        return row

    def remove_node(self, name: str) -> int:
        """Forget a node. Its residents must have been removed: the row is given to the next new node."""
        row = self._row_of(name)
        if self._nodes.requested[row].any():
            raise InvalidInput("node", name, "a node without residents", "remove its pods first")
        self.revision += 1
        del self.node_rows[name]
        self._row_nodes[row] = None
        self._nodes.ready[row] = False
        self._free_rows.append(row)
        return row

    def _row_of(self, name: str) -> int:
        try:
            return self.node_rows[name]
        except KeyError:
            raise InvalidInput("node", name, "a node that was added") from None

    def _write_node(self, row: int, node: Node) -> None:
        self.revision += 1
        self._row_nodes[row] = node
        self._extend_axis(node.allocatable.names())
        self._nodes.capacity[row] = self.axis.row(node.allocatable)
        self._nodes.ready[row] = node.ready
        word = 0
        overflowed = False
        for taint in node.effective_taints:
            if not taint.repels:
                self._bit_of(_HasTaint(taint))
                if taint not in self._soft_taints:
                    self._soft_taints.append(taint)
            elif taint in self._taint_bits or len(self._taint_bits) < WORD_BITS:
                word |= 1 << self._bit_of_taint(taint)
            elif taint not in self._overflowing:
                self._overflowing.add(taint)
                overflowed = True
        self._nodes.taints[row] = np.uint64(word)
        if overflowed:
            for k, shape in enumerate(self._row_shapes):
                self._demand(k, _Tolerates(shape.tolerations))
        words = [0] * self._nodes.labels.shape[1]
        for demand, bit in self._demands.items():
            if self._satisfies(node, demand):
                words[bit // WORD_BITS] |= 1 << bit % WORD_BITS
        self._nodes.labels[row] = np.array(words, dtype=np.uint64)

    # ---- pods

    def add_pod(self, pod: Pod) -> tuple[int, int]:
        """The new pod's number and its shape's row. `InvalidInput` for a pod that is already there."""
        if pod.key in self.pod_numbers:
            raise InvalidInput("pod", pod.key, "a namespace and name that no other pod has")
        shape = self.intern(pod.shape())
        number = self._next_pod
        self._next_pod += 1
        self.pod_numbers[pod.key] = number
        return number, shape

    def remove_pod(self, key: str) -> int:
        """Forget a pod's name, `namespace/name`, and return its number, which is not used again."""
        try:
            return self.pod_numbers.pop(key)
        except KeyError:
            raise InvalidInput("pod", key, "a pod that was added") from None

    def intern(self, shape: Shape) -> int:
        """The row of a shape, a new one if it was not seen before."""
        row = self._shape_rows.get(shape)
        if row is not None:
            return row
        row = len(self._row_shapes)
        self._extend_axis(shape.requests.names())
        if row >= len(self._shapes.tenant):
            self._shapes = ShapeArrays._make(_longer(column, 2 * row) for column in self._shapes)
        self._shape_rows[shape] = row
        self._row_shapes.append(shape)
        self._write_shape(row, shape)
        return row

    def _write_shape(self, row: int, shape: Shape) -> None:
        arrays = self._shapes
        request = self.axis.row(shape.requests)
        request[PODS] = 1
        arrays.request[row] = request
        estimate = shape.estimate or Estimate(request[CPU] / 1000.0, request[MEMORY])
        arrays.params[row, Param.USE_CPU] = estimate.use_cpu_cores
        arrays.params[row, Param.USE_MEMORY] = estimate.use_memory_bytes
        arrays.params[row, Param.SENSITIVITY] = estimate.sensitivity
        arrays.params[row, Param.PRESSURE] = estimate.pressure
        arrays.params[row, Param.ALLOWANCE] = estimate.allowance
        arrays.params[row, Param.IS_SERVICE] = float(shape.is_service)
        arrays.params[row, Param.PRIORITY_BASE] = PRIORITY_BASE[shape.priority_class]
        arrays.params[row, Param.LOAD_LIMIT] = shape.load_limit
        arrays.params[row, Param.DURATION] = estimate.duration_s
        one = slice(row, row + 1)
        arrays.sums[one] = contribution(
            arrays.request[one], arrays.params[one], self._half_node_cores, self._pressure_factor
        )
        arrays.tenant[row] = self.tenants.setdefault(shape.tenant, len(self.tenants))
        arrays.group[row] = self._group(shape.group) if shape.group else -1
        arrays.group_limit[row] = shape.group_limit
        word = 0
        for taint, bit in self._taint_bits.items():
            if tolerated(taint, shape.tolerations):
                word |= 1 << bit
        arrays.tolerated[row] = np.uint64(word)
        arrays.selector[row] = 0
        if shape.node_selector:
            self._demand(row, shape.node_selector)
        if shape.node_affinity is not None and shape.node_affinity.required is not None:
            self._demand(row, shape.node_affinity.required)
        if self._overflowing:
            self._demand(row, _Tolerates(shape.tolerations))

    # ---- scores

    def preferred(self, k: int) -> tuple[Int, Int]:
        """The requirement bits and weights of shape k's preferred node affinity. Bits that are new change `nodes()`."""
        affinity = self._row_shapes[k].node_affinity
        terms = affinity.preferred if affinity is not None else ()
        bits = [self._bit_of(preferred.term) for preferred in terms]
        return np.array(bits, dtype=np.int64), np.array([preferred.weight for preferred in terms], dtype=np.int64)

    def disliked(self, k: int) -> Int:
        """The bits of all PreferNoSchedule taints in the cluster that shape k does not tolerate."""
        tolerations = self._row_shapes[k].tolerations
        bits = [self._demands[_HasTaint(taint)] for taint in self._soft_taints if not tolerated(taint, tolerations)]
        return np.array(bits, dtype=np.int64)

    # ---- interning

    def _group(self, name: str) -> int:
        number = self.groups.get(name)
        if number is None:
            number = self.groups[name] = len(self.groups)
            self._nodes = self._nodes._replace(group_count=_wider(self._nodes.group_count, len(self.groups)))
        return number

    def _extend_axis(self, names: tuple[str, ...]) -> None:
        axis = self.axis.extended(names)
        if axis is not self.axis:
            self.axis = axis
            capacity, requested = (_wider(c, len(axis)) for c in (self._nodes.capacity, self._nodes.requested))
            self._nodes = self._nodes._replace(capacity=capacity, requested=requested)
            self._shapes = self._shapes._replace(request=_wider(self._shapes.request, len(axis)))

    def _bit_of_taint(self, taint: Taint) -> int:
        bit = self._taint_bits.get(taint)
        if bit is None:
            bit = self._taint_bits[taint] = len(self._taint_bits)
            for k, shape in enumerate(self._row_shapes):
                if tolerated(taint, shape.tolerations):
                    self._shapes.tolerated[k] |= np.uint64(1 << bit)
        return bit

    def _demand(self, k: int, demand: _Demand) -> None:
        bit = self._bit_of(demand)
        self._shapes.selector[k, bit // WORD_BITS] |= np.uint64(1 << bit % WORD_BITS)

    def _bit_of(self, demand: _Demand) -> int:
        bit = self._demands.get(demand)
        if bit is not None:
            return bit
        bit = self._demands[demand] = len(self._demands)
        words = bit // WORD_BITS + 1
        if words > self._nodes.labels.shape[1]:
            self._nodes = self._nodes._replace(labels=_wider(self._nodes.labels, words))
            self._shapes = self._shapes._replace(selector=_wider(self._shapes.selector, words))
        mark = np.uint64(1 << bit % WORD_BITS)
        for row, node in enumerate(self._row_nodes):
            if node is not None and self._satisfies(node, demand):
                self._nodes.labels[row, bit // WORD_BITS] |= mark
        return bit

    def _satisfies(self, node: Node, demand: _Demand) -> bool:
        """The plain evaluation that every bit stands for."""
        match demand:
            case Labels():
                return node.labels.contains(demand)
            case NodeSelector() | NodeSelectorTerm():
                return demand.matches(node.name, node.labels)
            case _HasTaint(taint):
                return taint in node.effective_taints
            case _Tolerates(tolerations):
                return all(
                    tolerated(taint, tolerations) for taint in node.effective_taints if taint in self._overflowing
                )


def _longer(column: NDArray[Any], rows: int) -> NDArray[Any]:
    """A copy with at least `rows` rows, the new ones zero."""
    grown = np.zeros((rows, *column.shape[1:]), dtype=column.dtype)
    grown[: column.shape[0]] = column
    return grown


def _wider(column: NDArray[Any], width: int) -> NDArray[Any]:
    """A copy with `width` columns, the new ones zero."""
    grown = np.zeros((column.shape[0], width), dtype=column.dtype)
    grown[:, : column.shape[1]] = column
    return grown


def _empty_nodes(rows: int, resources: int) -> NodeArrays:
    return NodeArrays(
        capacity=np.zeros((rows, resources), dtype=np.int64),
        requested=np.zeros((rows, resources), dtype=np.int64),
        sums=np.zeros((rows, len(Sum)), dtype=np.int64),
        report=np.full((rows, len(Report)), np.nan),
        taints=np.zeros(rows, dtype=np.uint64),
        labels=np.zeros((rows, 1), dtype=np.uint64),
        ready=np.zeros(rows, dtype=np.bool_),
        group_count=np.zeros((rows, 0), dtype=np.int64),
    )


def _empty_shapes(rows: int, resources: int) -> ShapeArrays:
    return ShapeArrays(
        request=np.zeros((rows, resources), dtype=np.int64),
        sums=np.zeros((rows, len(Sum)), dtype=np.int64),
        params=np.zeros((rows, len(Param)), dtype=np.float64),
        tolerated=np.zeros(rows, dtype=np.uint64),
        selector=np.zeros((rows, 1), dtype=np.uint64),
        tenant=np.zeros(rows, dtype=np.int64),
        group=np.full(rows, -1, dtype=np.int64),
        group_limit=np.zeros(rows, dtype=np.int64),
    )
