"""From pods and nodes as values to rows of arrays.

Problem: compiled filters see integers and bits, while pods and nodes speak in names, taints and expressions. Choice: everything with a
name is interned here. Equal pods share a shape's row. Each distinct repelling taint has a bit of the nodes' taint word. Each distinct
*whole* demand (a nodeSelector, a required affinity, a preferred term) has a bit among the nodes' label words, set where the plain
evaluation says so, so that a check of any size is one word operation. Rows grow by doubling.

The arrays handed out are views of the encoder's own memory: what a ledger adds to `requested`, `sums` or `group_count` stays when rows
are added, but after any call that adds something the owner must take `nodes()` and `shapes()` anew.

More than 64 distinct repelling taints: the word is full, and every further taint is judged by a demand bit instead, one for each distinct
list of tolerations ("all overflowing taints of this node are tolerated"). It is as exact, and costs one bit a list.

What is given back: a node's row and its taints' bits when it goes; a pod's number by `release_pod`, once the ledger, the queue and everybody
else have forgotten it; the rows and bits of shapes that no pod has by `reclaim`, which says which rows, so that estimates of
them can be forgotten too. Limits: tenants, groups and resources keep their columns for good. A new demand is evaluated on every node in
plain Python (about 4 us each).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from math import inf

import numpy as np

from cotenant.engine.encoding.columns import blank_nodes, blank_shapes, longer, wider
from cotenant.engine.encoding.interning import Bits
from cotenant.model.arrays import CPU, MEMORY, PODS, Int, NodeArrays, Param, ShapeArrays
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Estimate, Pod, Shape
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.taints import Taint, Toleration, tolerated
from cotenant.model.cluster.topology import Domains
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import MAX_AMOUNT, ResourceAxis
from cotenant.policy.placement.contribution import contribution

WORD_BITS = 64
REMEMBERED = 4096  # changes of nodes
_FIRST_ROWS = 8
_NO_TERMS = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

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


def _ignored(row: int) -> None:
    pass


_Demand = Labels | NodeSelector | NodeSelectorTerm | _Tolerates | _HasTaint


class Encoder:
    """Interns nodes and pods of one cluster.

    `half_node_cores` is half a node's capacity in cores, the unit of own pressure; `pressure_factor` is what a node's cache partition
    leaves of batch pressure (policy/placement/contribution.py).
    """

    def __init__(self, half_node_cores: float, pressure_factor: float = 1.0) -> None:
        if not (half_node_cores > 0 and half_node_cores < inf):
            raise InvalidInput("half_node_cores", half_node_cores, "cores above 0")
        self.half_node_cores = half_node_cores
        self._pressure_factor = pressure_factor
        self.axis = ResourceAxis()
        self.tenants: dict[str, int] = {}  # name -> number, in order
        self.groups: dict[str, int] = {}
        self.pod_numbers: dict[str, int] = {}  # namespace/name -> number
        self.node_rows: dict[str, int] = {}
        self._revision = 0
        self.labels_revision = 0  # changes whenever a node's labels do, or a node comes or goes
        self._changed_rows: deque[int] = deque(maxlen=REMEMBERED)  # the last ones, one a revision
        self._pods: list[tuple[str, int] | None] = []  # by number: name ("" = removed) and shape; None = free
        self._free_pods: list[int] = []
        self._row_nodes: list[Node | None] = []  # None = a row whose node is gone
        self._free_rows: list[int] = []
        self._shape_rows: dict[Shape, int] = {}
        self._row_shapes: list[Shape | None] = []  # None = a row that was reclaimed
        self._free_shapes: list[int] = []
        self._shape_users: list[int] = []
        self._unused_shapes = 0
        self._unsummed: list[int] = []  # rows of shapes whose sums are not computed yet
        self._shape_demands: list[list[_Demand]] = []  # what each shape uses of `_demands`
        self._shape_preferred: list[tuple[Int, Int]] = []  # bits and weights
        self._taints: Bits[Taint] = Bits()
        self._overflowing: Counter[Taint] = Counter()  # taints without a bit, and how many nodes have them
        self._demands: Bits[_Demand] = Bits()
        self._soft_taints: Counter[Taint] = Counter()
        self._taint_lists: dict[tuple[Taint, ...], int] = {(): 0}
        self._taint_list = np.zeros(_FIRST_ROWS, dtype=np.int64)  # which of them a node has
        self._nodes = blank_nodes(_FIRST_ROWS, len(self.axis))
        self._shapes = blank_shapes(_FIRST_ROWS, len(self.axis))
        self._elsewhere: dict[str, frozenset[str]] = {}  # node's name -> resources that somebody else counts there
        self.touched: Callable[[int], None] = (
            _ignored  # told of a row of which something changed that no node object says
        )

    # ---- arrays

    def nodes(self) -> NodeArrays:
        """A row a node, in the order of `node_rows`; a row whose node is gone is not ready."""
        return NodeArrays._make(column[: len(self._row_nodes)] for column in self._nodes)

    def shapes(self) -> ShapeArrays:
        """A row a shape, in the order they were first seen."""
        if self._unsummed:  # together: the formula costs as much for one row as for a hundred
            self._write_sums(np.array(self._unsummed, dtype=np.int64))
            self._unsummed.clear()
        return ShapeArrays._make(column[: len(self._row_shapes)] for column in self._shapes)

    def node(self, row: int) -> Node:
        """The node of a row; `InvalidInput` where it is gone."""
        node = self._row_nodes[row]
        if node is None:
            raise InvalidInput("node row", row, "the row of a node that exists")
        return node

    @property
    def revision(self) -> int:
        """Changes whenever a node does."""
        return self._revision

    def changed_since(self, revision: int) -> Sequence[int]:
        """Rows whose node has come, changed or gone since then, some perhaps more than once; all rows where that is long ago."""
        changes = self._revision - revision
        if changes > len(self._changed_rows):
            return range(len(self._row_nodes))
        return tuple(islice(reversed(self._changed_rows), changes))

    def domains(self, key: str) -> Domains:
        """The domains of a topology key over all rows."""
        return Domains.of(key, self._row_nodes)

    def shape(self, row: int) -> Shape:
        """The shape of a row; `InvalidInput` where it was reclaimed."""
        shape = self._row_shapes[row]
        if shape is None:
            raise InvalidInput("shape row", row, "the row of a shape in use")
        return shape

    def shape_row(self, shape: Shape) -> int:
        """The row of a shape, -1 where it has none."""
        return self._shape_rows.get(shape, -1)

    @property
    def taints_overflow(self) -> bool:
        """Whether some taint has no bit of its own, so that demand bits speak for it."""
        return bool(self._overflowing)

    def taint_lists(self) -> Int:
        """`int64[N]`: equal numbers for nodes with equal taints, 0 for none."""
        return self._taint_list[: len(self._row_nodes)]

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
                self._nodes = NodeArrays._make(longer(column, 2 * row) for column in self._nodes)
        self.node_rows[node.name] = row
        self.labels_revision += 1
        self._nodes.report[row] = np.nan
        self._write_size(row, node)
        self._write_taints(row, (), node)
        self._write_labels(row, node)
        return row

    def update_node(self, node: Node) -> int:
        """Take over a node's new allocatable, labels, taints and condition; its residents stay. `InvalidInput` for an unknown name."""
        row = self._row_of(node.name)
        before = self.node(row)
        self._write_size(row, node)
        if node.effective_taints != before.effective_taints:
            self._write_taints(row, before.effective_taints, node)
        elif node.labels == before.labels:
            return row
        if node.labels != before.labels:
            self.labels_revision += 1
        self._write_labels(row, node)
        return row

    def remove_node(self, name: str) -> int:
        """Forget a node. Its residents must have been removed: the row is given to the next new node."""
        row = self._row_of(name)
        if self._nodes.requested[row].any():
            raise InvalidInput("node", name, "a node without residents", "remove its pods first")
        self._note(row)
        self.labels_revision += 1
        del self.node_rows[name]
        self._drop_taints(self.node(row).effective_taints)
        self._row_nodes[row] = None
        self._nodes.ready[row] = False
        self._nodes.taints[row] = 0
        self._taint_list[row] = 0
        self._nodes.labels[row] = 0
        self._free_rows.append(row)
        return row

    def _row_of(self, name: str) -> int:
        try:
            return self.node_rows[name]
        except KeyError:
            raise InvalidInput("node", name, "a node that was added") from None

    def _note(self, row: int) -> None:
        self._revision += 1
        self._changed_rows.append(row)

    def _write_size(self, row: int, node: Node) -> None:
        self._note(row)
        self._row_nodes[row] = node
        self._extend_axis(node.allocatable.names())
        self._write_capacity(row, node)
        self._nodes.ready[row] = node.ready

    def _write_capacity(self, row: int, node: Node) -> None:
        capacity = self.axis.row(node.allocatable)
        for name in self._elsewhere.get(node.name, ()):
            if name in self.axis.names and name not in node.allocatable:
                capacity[self.axis.column(name)] = MAX_AMOUNT
        self._nodes.capacity[row] = capacity

    def count_elsewhere(self, name: str, resources: frozenset[str]) -> None:
        """Of a node, known or not: these resources are judged by somebody else where its allocatable does not name them; the row has no limit for them."""
        if self._elsewhere.get(name, frozenset()) == resources:
            return
        self._elsewhere[name] = resources
        if not resources:
            del self._elsewhere[name]
        row = self.node_rows.get(name)
        if row is not None:
            self._note(row)
            self._write_capacity(row, self.node(row))

    def _write_taints(self, row: int, before: tuple[Taint, ...], node: Node) -> None:
        word = 0
        overflowed = False
        for taint in node.effective_taints:
            if not taint.repels:
                self._bit_of(_HasTaint(taint))
                self._soft_taints[taint] += 1
            elif taint in self._taints or (taint not in self._overflowing and len(self._taints) < WORD_BITS):
                word |= 1 << self._bit_of_taint(taint)
            else:
                overflowed |= taint not in self._overflowing
                self._overflowing[taint] += 1
        self._drop_taints(before)
        self._nodes.taints[row] = np.uint64(word)
        if row >= len(self._taint_list):
            self._taint_list = longer(self._taint_list, len(self._nodes.ready))
        self._taint_list[row] = self._taint_lists.setdefault(node.effective_taints, len(self._taint_lists))
        if overflowed:
            for k, shape in enumerate(self._row_shapes):
                if shape is not None:
                    self._demand(k, _Tolerates(shape.tolerations))

    def _drop_taints(self, taints: tuple[Taint, ...]) -> None:
        for taint in taints:
            if not taint.repels:
                self._drop(_HasTaint(taint))
                self._soft_taints[taint] -= 1
                if not self._soft_taints[taint]:
                    del self._soft_taints[taint]
            elif taint in self._overflowing:
                self._overflowing[taint] -= 1
                if not self._overflowing[taint]:
                    del self._overflowing[taint]
            else:
                self._taints.drop(taint)

    def _write_labels(self, row: int, node: Node) -> None:
        words = [0] * self._nodes.labels.shape[1]
        for demand, bit in self._demands:
            if self._satisfies(node, demand):
                words[bit // WORD_BITS] |= 1 << bit % WORD_BITS
        self._nodes.labels[row] = np.array(words, dtype=np.uint64)

    # ---- pods

    def add_pod(self, pod: Pod) -> tuple[int, int]:
        """The new pod's number and its shape's row. `InvalidInput` for a pod that is already there."""
        if pod.key in self.pod_numbers:
            raise InvalidInput("pod", pod.key, "a namespace and name that no other pod has")
        shape = self._use_shape(pod.shape())
        if self._free_pods:
            number = self._free_pods.pop()
        else:
            number = len(self._pods)
            self._pods.append(None)
        self._pods[number] = (pod.key, shape)
        self.pod_numbers[pod.key] = number
        return number, shape

    def remove_pod(self, key: str) -> int:
        """Forget a pod's name, `namespace/name`, and return its number, which stays taken until `release_pod`."""
        try:
            number = self.pod_numbers.pop(key)
        except KeyError:
            raise InvalidInput("pod", key, "a pod that was added") from None
        self._pods[number] = ("", self.shape_of(number))
        return number

    def release_pod(self, number: int) -> None:
        """The number of a removed pod may be given to another: the ledger and everybody else have forgotten it."""
        held = self._pods[number] if 0 <= number < len(self._pods) else None
        if held is None or held[0]:
            raise InvalidInput("pod number", number, "the number of a pod that was removed and not released")
        self._shape_users[held[1]] -= 1
        self._unused_shapes += self._shape_users[held[1]] == 0
        self._pods[number] = None
        self._free_pods.append(number)

    def shape_of(self, number: int) -> int:
        """The shape's row of a pod that was not released."""
        held = self._pods[number] if 0 <= number < len(self._pods) else None
        if held is None:
            raise InvalidInput("pod number", number, "the number of a pod that was added")
        return held[1]

    def intern(self, shape: Shape) -> int:
        """The row of a shape, a new one if it was not seen before. It is kept for good; a pod's shape only while there are such pods."""
        return self._use_shape(shape)

    @property
    def pod_rows(self) -> int:
        """One more than the largest number that a pod has had."""
        return len(self._pods)

    @property
    def shape_rows(self) -> int:
        """Rows of shapes: in use, reclaimable, and free."""
        return len(self._row_shapes)

    @property
    def reclaimable(self) -> int:
        """How many shapes no pod has."""
        return self._unused_shapes

    def reclaim(self) -> Int:
        """Forget the shapes that no pod has; their rows, which the next new shapes get. Bits that nobody asks for become free."""
        rows = [k for k, users in enumerate(self._shape_users) if users == 0 and self._row_shapes[k] is not None]
        for k in rows:
            del self._shape_rows[self.shape(k)]
            self._row_shapes[k] = None
            for demand in self._shape_demands[k]:
                self._drop(demand)
            self._shape_demands[k] = []
            self._shape_preferred[k] = _NO_TERMS
        self._free_shapes.extend(reversed(rows))
        self._unused_shapes = 0
        in_use = {node.effective_taints for node in self._row_nodes if node is not None} | {()}
        if len(self._taint_lists) > 2 * len(in_use):
            self._taint_lists = {taints: i for i, taints in enumerate(sorted(in_use, key=lambda taints: taints != ()))}
            for row, node in enumerate(self._row_nodes):
                self._taint_list[row] = self._taint_lists[node.effective_taints] if node is not None else 0
        return np.array(rows, dtype=np.int64)

    def _use_shape(self, shape: Shape) -> int:
        row = self._shape_rows.get(shape)
        if row is None:
            row = self._new_shape(shape)
        elif self._shape_users[row] == 0:
            self._unused_shapes -= 1
        self._shape_users[row] += 1
        return row

    def _new_shape(self, shape: Shape) -> int:
        self._extend_axis(shape.requests.names())
        if self._free_shapes:
            row = self._free_shapes.pop()
            self._row_shapes[row] = shape
        else:
            row = len(self._row_shapes)
            if row >= len(self._shapes.tenant):
                self._shapes = ShapeArrays._make(longer(column, 2 * row) for column in self._shapes)
            self._row_shapes.append(shape)
            self._shape_users.append(0)
            self._shape_demands.append([])
            self._shape_preferred.append(_NO_TERMS)
        self._shape_rows[shape] = row
        self._write_shape(row, shape)
        return row

    def _write_amounts(self, row: int, shape: Shape) -> None:
        """What a shape requests and is expected to do."""
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
        self._unsummed.append(row)

    def _write_sums(self, rows: Int) -> None:
        """What a pod of these shapes adds to its node's sums."""
        arrays = self._shapes
        arrays.sums[rows] = contribution(
            arrays.request[rows], arrays.params[rows], self.half_node_cores, self._pressure_factor
        )

    def _write_shape(self, row: int, shape: Shape) -> None:
        arrays = self._shapes
        self._write_amounts(row, shape)
        arrays.tenant[row] = self.tenants.setdefault(shape.tenant, len(self.tenants))
        arrays.group[row] = self._group(shape.group) if shape.group else -1
        arrays.group_limit[row] = shape.group_limit
        word = 0
        for taint, bit in self._taints:
            if tolerated(taint, shape.tolerations):
                word |= 1 << bit
        arrays.tolerated[row] = np.uint64(word)
        arrays.selector[row] = 0
        if shape.node_selector:
            self._demand(row, shape.node_selector)
        if shape.node_affinity is not None and shape.node_affinity.required is not None:
            self._demand(row, shape.node_affinity.required)
        if shape.node_affinity is not None and shape.node_affinity.preferred:
            terms = [preferred.term for preferred in shape.node_affinity.preferred]
            weights = [preferred.weight for preferred in shape.node_affinity.preferred]
            bits = [self._bit_of(term) for term in terms]
            self._shape_demands[row].extend(terms)
            self._shape_preferred[row] = np.array(bits, dtype=np.int64), np.array(weights, dtype=np.int64)
        if self._overflowing:
            self._demand(row, _Tolerates(shape.tolerations))

    # ---- questions

    def with_guest(self, number: int, shape: Shape) -> tuple[Encoder, int]:
        """An encoder that reads as this one does and has one pod more, and its number; the columns that seats change are copies. This one stays as it is.

        `shape` may differ from that of pod `number` in its requests and estimate. The other may be read, and pods may be added to its arrays by a ledger.
        """
        k = self.shape_of(number)
        made = copy(self)
        made.axis = self.axis.extended(shape.requests.names())
        nodes, shapes = self.nodes(), self.shapes()
        made._nodes = nodes._replace(
            capacity=wider(nodes.capacity, len(made.axis)),
            requested=wider(nodes.requested, len(made.axis)),
            sums=nodes.sums.copy(),
            group_count=nodes.group_count.copy(),
        )
        one_more = ShapeArrays._make(np.concatenate([column, column[k : k + 1]]) for column in shapes)
        made._shapes = one_more._replace(request=wider(one_more.request, len(made.axis)))
        made._row_shapes = [*self._row_shapes, shape]
        made._shape_preferred = [*self._shape_preferred, self._shape_preferred[k]]
        made._pods = [*self._pods, ("", len(self._row_shapes))]
        made._unsummed = []
        if shape != self.shape(k):
            made._write_amounts(len(self._row_shapes), shape)
        return made, len(self._pods)

    # ---- scores

    def likes(self, k: int) -> bool:
        """Whether shape k prefers some nodes by their labels or taints."""
        shape = self.shape(k)
        if shape.node_affinity is not None and shape.node_affinity.preferred:
            return True
        return bool(self._soft_taints) and not all(tolerated(taint, shape.tolerations) for taint in self._soft_taints)

    def preferred(self, k: int) -> tuple[Int, Int]:
        """The requirement bits and weights of shape k's preferred node affinity."""
        return self._shape_preferred[k]

    def disliked(self, k: int) -> Int:
        """The bits of all PreferNoSchedule taints in the cluster that shape k does not tolerate."""
        tolerations = self.shape(k).tolerations
        bits = [self._demands[_HasTaint(taint)] for taint in self._soft_taints if not tolerated(taint, tolerations)]
        return np.array(bits, dtype=np.int64)

    # ---- interning

    def _group(self, name: str) -> int:
        number = self.groups.get(name)
        if number is None:
            number = self.groups[name] = len(self.groups)
            self._nodes = self._nodes._replace(group_count=wider(self._nodes.group_count, len(self.groups)))
        return number

    def _extend_axis(self, names: tuple[str, ...]) -> None:
        axis = self.axis.extended(names)
        if axis is not self.axis:
            new = frozenset(axis.names[len(self.axis) :])
            self.axis = axis
            capacity, requested = (wider(c, len(axis)) for c in (self._nodes.capacity, self._nodes.requested))
            self._nodes = self._nodes._replace(capacity=capacity, requested=requested)
            self._shapes = self._shapes._replace(request=wider(self._shapes.request, len(axis)))
            for name, resources in self._elsewhere.items():
                row = self.node_rows.get(name, -1)
                if new & resources and row >= 0 and self._row_nodes[row] is not None:
                    self._write_capacity(row, self.node(row))

    def _bit_of_taint(self, taint: Taint) -> int:
        bit, new = self._taints.use(taint)
        if new:
            mark = np.uint64(1 << bit)
            for k, shape in enumerate(self._row_shapes):
                if shape is not None and tolerated(taint, shape.tolerations):
                    self._shapes.tolerated[k] |= mark
                else:
                    self._shapes.tolerated[k] &= ~mark
        return bit

    def _demand(self, k: int, demand: _Demand) -> None:
        if demand in self._shape_demands[k] and isinstance(demand, _Tolerates):
            return
        bit = self._bit_of(demand)
        self._shape_demands[k].append(demand)
        self._shapes.selector[k, bit // WORD_BITS] |= np.uint64(1 << bit % WORD_BITS)

    def _bit_of(self, demand: _Demand) -> int:
        bit, new = self._demands.use(demand)
        if not new:
            return bit
        words = bit // WORD_BITS + 1
        if words > self._nodes.labels.shape[1]:
            self._nodes = self._nodes._replace(labels=wider(self._nodes.labels, words))
            self._shapes = self._shapes._replace(selector=wider(self._shapes.selector, words))
        mark = np.uint64(1 << bit % WORD_BITS)
        for row, node in enumerate(self._row_nodes):
            if node is not None and self._satisfies(node, demand):
                self._nodes.labels[row, bit // WORD_BITS] |= mark
        return bit

    def _drop(self, demand: _Demand) -> None:
        bit = self._demands.drop(demand)
        if bit is not None:
            self._nodes.labels[:, bit // WORD_BITS] &= ~np.uint64(1 << bit % WORD_BITS)

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
