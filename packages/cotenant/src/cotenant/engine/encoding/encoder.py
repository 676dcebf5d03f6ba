"""Encodes nodes and pods as rows of arrays.

Compiled filters read integers and bits, while pods and nodes have names, taints and expressions. Everything with a name
is interned here. Equal pods share one shape row. Labels, selectors and taints become bits (engine/encoding/demands.py,
engine/encoding/taints.py). Rows grow by doubling.

The arrays returned are views of the encoder's own memory: what a ledger adds to `requested`, `sums` or `group_count` is
kept when rows are added, but after any call that adds something the owner must fetch `nodes()` and `shapes()` again.

Freed: a node's row and its taints' bits when the node is removed; a pod's number by `release_pod`, once the ledger, the
queue and all other holders have dropped it; rows and bits of shapes without pods by `reclaim`, which returns the rows,
so that estimates of them can be dropped too.
A pod's owner names its tenant, so the number of a tenant without pods goes to the next one, as rows of shapes do.
A resource that some node has offered keeps its column for good, and so do the first `MAX_UNOFFERED` that only pods ask
for; further ones share a column, in which no node has anything, until a node offers them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from math import inf

import numpy as np

from cotenant.engine.encoding.columns import FIRST_GROUPS, EncodedArrays, longer, wider
from cotenant.engine.encoding.node_encoder import NodeEncoder
from cotenant.engine.encoding.pod_numbers import PodNumbers
from cotenant.engine.encoding.shape_params import write_shape_params
from cotenant.model.arrays import Int, Mask, ShapeArrays
from cotenant.model.cluster.pod import NODE_AFFINITY, Pod, Shape
from cotenant.model.cluster.taints import first_repelling
from cotenant.model.devices.request import RESOURCES
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import EPHEMERAL_STORAGE, FIRST, LENT_CPU, LENT_MEMORY, NOWHERE
from cotenant.policy.placement.contribution import contribution

MAX_UNOFFERED = 64  # names of resources with columns that only pods ask for
_KNOWN = frozenset((*FIRST, EPHEMERAL_STORAGE, *LENT_CPU, *LENT_MEMORY, *RESOURCES))  # whoever offers them, or judges
_REMEMBERED = 16384  # keys of shapes, all forgotten when there are more
_NO_TERMS = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


class Encoder(NodeEncoder):
    """Interns nodes and pods of one cluster: the nodes by `NodeEncoder`.

    `half_node_cores` is half a node's capacity in cores, the unit of own pressure; `pressure_factor` is what a node's
    cache partition leaves of batch pressure (policy/placement/contribution.py).
    """

    def __init__(self, half_node_cores: float, pressure_factor: float = 1.0) -> None:
        if not (half_node_cores > 0 and half_node_cores < inf):
            raise InvalidInput("half_node_cores", half_node_cores, "cores above 0")
        super().__init__()
        self.half_node_cores = half_node_cores
        self._pressure_factor = pressure_factor
        self._tenants: dict[str, int] = {}  # name -> number
        self._free_tenants: list[int] = []
        self.groups: dict[str, int] = {}
        self._free_groups: list[int] = []
        self._unoffered: set[str] = set()  # resources with a column that only shapes have asked for
        self._nowhere: dict[str, set[int]] = {}  # resources without a column: rows of the shapes that ask for them
        self.requests_revision = 0  # increases when requests of shapes in use get other columns
        self._pods = PodNumbers()
        self._shape_rows: dict[Shape, int] = {}
        self._rows_by_key: dict[Hashable, int] = {}  # of pods seen lately, by `Pod.shape_key`
        self._free_shapes: list[int] = []
        self._shape_users: list[int] = []
        self._unused_shapes = 0
        self.shapes_written = 0  # so far: increases with every row that `shapes` has anew
        self._unsummed: list[int] = []  # rows of shapes whose sums are not computed yet
        self._shape_preferred: list[tuple[Int, Int]] = []  # bits and weights
        self.preferring: set[int] = set()  # rows of shapes with a preferred node affinity; read only elsewhere

    # ---- arrays

    def shapes(self) -> ShapeArrays:
        """One row per shape, in the order they were first seen."""
        if self._unsummed:  # together: the formula costs as much for one row as for a hundred
            self._write_sums(np.array(self._unsummed, dtype=np.int64))
            self._unsummed.clear()
        return ShapeArrays._make(column[: len(self._arrays.row_shapes)] for column in self._arrays.shapes)

    def shape(self, row: int) -> Shape:
        """The shape of a row; `InvalidInput` if it was reclaimed."""
        shape = self._arrays.row_shapes[row]
        if shape is None:
            raise InvalidInput("shape row", row, "the row of a shape in use")
        return shape

    def shape_row(self, shape: Shape) -> int:
        """The row of a shape, -1 if it has none."""
        return self._shape_rows.get(shape, -1)

    # ---- pods

    @property
    def pod_numbers(self) -> dict[str, int]:
        """Number by namespace/name."""
        return self._pods.by_key

    def add_pod(self, pod: Pod, violation_surcharge: float = 0.0) -> tuple[int, int]:
        """The new pod's number and its shape's row. `InvalidInput` if the name is taken."""
        self._pods.check(pod.key)
        key = pod.shape_key(violation_surcharge)
        row = self._rows_by_key.get(key)
        if row is None:
            row = self._use_shape(pod.shape(violation_surcharge))
            if len(self._rows_by_key) >= _REMEMBERED:
                self._rows_by_key.clear()
            self._rows_by_key[key] = row
        else:
            self._use_row(row)
        return self._pods.add(pod.key, row), row

    def remove_pod(self, key: str) -> int:
        """Remove a pod's name, `namespace/name`, and return its number, which stays taken until `release_pod`."""
        return self._pods.remove(key)

    def release_pod(self, number: int) -> None:
        """Free the number of a removed pod. The ledger and all other holders must have dropped it."""
        shape = self._pods.release(number)
        self._shape_users[shape] -= 1
        self._unused_shapes += self._shape_users[shape] == 0

    def free_numbers(self) -> tuple[tuple[int, ...], int]:
        """The free numbers of pods, and one more than the largest that a pod has had; see `offer_numbers`."""
        return tuple(self._pods.free), len(self._pods)

    def offer_numbers(self, numbers: Sequence[int], before: tuple[tuple[int, ...], int]) -> None:
        """Give these free numbers to the next pods, and after them those that `before`, a former `free_numbers`,
        would give.
        """
        self._pods.offer(numbers, *before)

    def shape_of(self, number: int) -> int:
        """The shape's row of a pod that is not released."""
        return self._pods.shape_of(number)

    def with_extra_pod(self, number: int, shape: Shape) -> tuple[Encoder, int]:
        """A copy with one more pod like pod `number`, for a what-if question, and that pod's number. This encoder is
        not changed.

        Columns that assignments change are copied, the others shared; of groups there is only the pod's own. `shape`
        may differ from that of pod `number` in its requests, estimate and node selector. The copy may be read, and a
        ledger may add pods to its arrays.
        """
        k = self.shape_of(number)
        made = copy(self)
        nodes, shapes = self.nodes(), self.shapes()
        own = int(shapes.group[k])
        made._arrays = EncodedArrays()
        made._arrays.axis = axis = self.axis.extended(shape.requests.names())
        made._arrays.row_nodes = self._arrays.row_nodes
        made._arrays.row_shapes = [*self._arrays.row_shapes, shape]
        made._arrays.nodes = nodes._replace(
            capacity=wider(nodes.capacity, len(axis)),
            requested=wider(nodes.requested, len(axis)),
            sums=nodes.sums.copy(),
            group_count=nodes.group_count[:, own : own + 1 if own >= 0 else own].copy(),
        )
        extended = ShapeArrays._make(np.concatenate([column, column[k : k + 1]]) for column in shapes)
        extended.group[:] = np.where((extended.group == own) & (own >= 0), 0, -1)
        made._arrays.shapes = extended._replace(request=wider(extended.request, len(axis)))
        row = len(self._arrays.row_shapes)
        made._shape_preferred = [*self._shape_preferred, self._shape_preferred[k]]
        if k in self.preferring:
            made.preferring = {*self.preferring, row}
        made._pods = self._pods.with_unnamed(row)
        made._unsummed = []
        asked = self.shape(k)
        if shape != asked:
            made._write_params(row, shape)
        if shape.node_selector != asked.node_selector and NODE_AFFINITY not in shape.unfiltered:
            self._demands.select_instead(made._arrays, row, asked.node_selector, shape.node_selector)
        return made, len(self._pods)

    # ---- shapes

    def intern(self, shape: Shape) -> int:
        """The row of a shape, a new one if needed, kept for good; a row of a pod's shape is kept only while there
        are such pods.
        """
        return self._use_shape(shape)

    @property
    def pod_rows(self) -> int:
        """One more than the largest number that a pod has had."""
        return len(self._pods)

    @property
    def shape_rows(self) -> int:
        """Rows of shapes: in use, reclaimable, and free."""
        return len(self._arrays.row_shapes)

    @property
    def tenant_rows(self) -> int:
        """One more than the largest number that a tenant has had."""
        return len(self._tenants) + len(self._free_tenants)

    @property
    def reclaimable(self) -> int:
        """Number of shapes without pods."""
        return self._unused_shapes

    def reclaim(self) -> Int:
        """Drop the shapes without pods and free the bits only they used. Returns their rows, which later shapes
        reuse.
        """
        rows = [k for k, users in enumerate(self._shape_users) if users == 0 and self._arrays.row_shapes[k] is not None]
        for k in rows:
            del self._shape_rows[self.shape(k)]
            self._forget_nowhere(k, self.shape(k))
            self._arrays.row_shapes[k] = None
            self._demands.drop_shape(k)
            self._shape_preferred[k] = _NO_TERMS
            self.preferring.discard(k)
        self._rows_by_key.clear()
        self._free_shapes.extend(reversed(rows))
        kept = {shape.tenant for shape in self._arrays.row_shapes if shape is not None}
        for name in [name for name in self._tenants if name not in kept]:
            self._free_tenants.append(self._tenants.pop(name))
        kept = {shape.group for shape in self._arrays.row_shapes if shape is not None}
        for name in [name for name in self.groups if name not in kept]:  # nobody is left in it: its column is zero
            self._free_groups.append(self.groups.pop(name))
        self._unused_shapes = 0
        self._taints.compact_lists()
        return np.array(rows, dtype=np.int64)

    def has_preferences(self, k: int) -> bool:
        """Whether shape k prefers some nodes by their labels or taints."""
        if k in self.preferring:
            return True
        return bool(self.soft_taints) and self._taints.has_untolerated_soft(self.shape(k).tolerations)

    def preferred(self, k: int) -> tuple[Int, Int]:
        """The demand bits and weights of shape k's preferred node affinity."""
        return self._shape_preferred[k]

    def untolerated(self, k: int) -> Int:
        """The demand bits of all PreferNoSchedule taints in the cluster that shape k does not tolerate."""
        return self._taints.untolerated_soft(self.shape(k).tolerations)

    def own_terms_mask(self, k: int) -> tuple[Mask, Mask]:
        """`bool[N]` twice: rows that shape k selects, and those whose taints it tolerates, whatever it is filtered
        by.
        """
        shape = self.shape(k)
        selectors = [shape.node_selector] if shape.node_selector else []
        required = shape.node_affinity.required if shape.node_affinity is not None else None
        selected = np.zeros(len(self._arrays.row_nodes), dtype=np.bool_)
        selected[self._demands.satisfying(*selectors, *(() if required is None else (required,)))] = True
        tolerated = np.zeros(len(selected), dtype=np.bool_)
        for row in self.node_rows.values():
            tolerated[row] = first_repelling(self.node(row).effective_taints, shape.tolerations) is None
        return selected, tolerated

    def _use_shape(self, shape: Shape) -> int:
        row = self._shape_rows.get(shape)
        if row is None:
            row = self._new_shape(shape)
            self._unused_shapes += 1
        self._use_row(row)
        return row

    def _use_row(self, row: int) -> None:
        if self._shape_users[row] == 0:
            self._unused_shapes -= 1
        self._shape_users[row] += 1

    def _new_shape(self, shape: Shape) -> int:
        nowhere = self._extend_by(shape.requests.names())
        arrays = self._arrays
        if self._free_shapes:
            row = self._free_shapes.pop()
            arrays.row_shapes[row] = shape
        else:
            row = len(arrays.row_shapes)
            if row >= len(arrays.shapes.tenant):
                arrays.shapes = ShapeArrays._make(longer(column, 2 * row) for column in arrays.shapes)
            arrays.row_shapes.append(shape)
            self._shape_users.append(0)
            self._demands.add_shape()
            self._shape_preferred.append(_NO_TERMS)
        self._shape_rows[shape] = row
        for name in nowhere:
            self._nowhere.setdefault(name, set()).add(row)
        self.shapes_written += 1
        self._write_shape(row, shape)
        return row

    def _tenant(self, name: str) -> int:
        number = self._tenants.get(name)
        if number is None:
            number = self._tenants[name] = self._free_tenants.pop() if self._free_tenants else self.tenant_rows
        return number

    def _write_shape(self, row: int, shape: Shape) -> None:
        self._write_params(row, shape)
        arrays = self._arrays.shapes
        arrays.tenant[row] = self._tenant(shape.tenant)
        arrays.group[row] = self._group(shape.group) if shape.group else -1
        arrays.group_limit[row] = shape.group_limit
        self._taints.write_shape(row, shape)
        arrays.selector[row] = 0
        affinity = shape.node_affinity
        if NODE_AFFINITY not in shape.unfiltered:
            if shape.node_selector:
                self._demands.require(row, shape.node_selector)
            if affinity is not None and affinity.required is not None:
                self._demands.require(row, affinity.required)
        if affinity is not None and affinity.preferred:
            bits = self._demands.prefer(row, [preferred.term for preferred in affinity.preferred])
            weights = [preferred.weight for preferred in affinity.preferred]
            self.preferring.add(row)
            self._shape_preferred[row] = np.array(bits, dtype=np.int64), np.array(weights, dtype=np.int64)
        self._taints.require_overflowing(row, shape)

    def _write_params(self, row: int, shape: Shape) -> None:
        write_shape_params(self._arrays.shapes, self.axis, row, shape)
        self._unsummed.append(row)

    def _write_sums(self, rows: Int) -> None:
        """Compute what a pod of these shapes adds to its node's sums."""
        arrays = self._arrays.shapes
        arrays.sums[rows] = contribution(
            arrays.request[rows], arrays.params[rows], self.half_node_cores, self._pressure_factor
        )

    # ---- columns

    def _group(self, name: str) -> int:
        number = self.groups.get(name)
        if number is None:
            number = self._free_groups.pop() if self._free_groups else len(self.groups)
            self.groups[name] = number
            nodes = self._arrays.nodes
            if number >= nodes.group_count.shape[1]:
                width = max(FIRST_GROUPS, 2 * number)
                self._arrays.nodes = nodes._replace(group_count=wider(nodes.group_count, width))
        return number

    def set_provided(self, resources: frozenset[str]) -> None:
        """Those that shapes ask for get columns."""
        super().set_provided(resources)
        self._extend_axis(tuple(name for name in sorted(resources) if name in self._nowhere))

    def _extend_axis(self, names: tuple[str, ...]) -> None:
        """Give resources that nodes offer their columns, and write those of the shapes that ask for them anew."""
        super()._extend_axis(names)
        self._unoffered.difference_update(names)
        rows = {row for name in names for row in self._nowhere.pop(name, ())}
        for row in sorted(rows):
            self._write_params(row, self.shape(row))
        if rows:
            self.shapes_written += 1
            self.requests_revision += 1

    def _extend_by(self, names: tuple[str, ...]) -> list[str]:
        """Give resources that a shape asks for their columns, and return those that get none: whoever makes pods can
        make up as many names as pods, and each column is paid for by every node and every shape.
        """
        told, nowhere = list[str](), list[str]()
        for name in names:
            if name in self.axis.names or self._capacity.is_provided(name) or name in _KNOWN:
                told.append(name)
            elif len(self._unoffered) < MAX_UNOFFERED:
                self._unoffered.add(name)
                told.append(name)
            else:
                nowhere.append(name)
        super()._extend_axis((*told, NOWHERE) if nowhere else tuple(told))
        return nowhere

    def _forget_nowhere(self, row: int, shape: Shape) -> None:
        for name in shape.requests.names() if self._nowhere else ():
            rows = self._nowhere.get(name, set())
            rows.discard(row)
            if not rows:
                self._nowhere.pop(name, None)
