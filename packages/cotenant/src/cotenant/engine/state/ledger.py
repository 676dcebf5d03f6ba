"""The ledger: assignments and the resources that they leave, as arrays.

Every scheduling decision needs the state of all nodes at once, and float bookkeeping drifts over millions of changes.
Structure of arrays (`NodeArrays`) changed by events only; what a pod added is kept as a row of integers, and exactly
that is subtracted again. `validate()` recomputes every sum from the residents.
Limits: pods are small integers here (the caller maps names), and a pod is assigned to at most one node.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Float, Int, NodeArrays, ReportColumn, ShapeArrays, Sum, TenantArrays
from cotenant.model.errors import Permanent


class Ledger:
    """Assigned pods. `nodes` and `shapes` are used without copying: the ledger is their only writer (but see
    `note_placed`).
    """

    def __init__(self, nodes: NodeArrays, shapes: ShapeArrays, tenants: int, pods: int) -> None:
        """`pods` is a hint of the number of pods; the columns grow."""
        self.nodes = nodes
        self.shapes = shapes
        self.tenants = TenantArrays(
            allocated=np.zeros((tenants, nodes.capacity.shape[1]), dtype=np.int64),
            weight=np.ones(tenants, dtype=np.float64),
        )
        self.row = np.full(pods, -1, dtype=np.int64)  # [P] node of each pod, -1 = none
        self.shape = np.zeros(pods, dtype=np.int64)  # [P]
        self._added = np.zeros((pods, len(Sum)), dtype=np.int64)  # [P, S] what the pod added to its node's sums

    def adopt(self, nodes: NodeArrays, shapes: ShapeArrays, tenants: int) -> None:
        """Switch to arrays that have grown: nodes, shapes, resources, groups or tenants were added. They include
        what residents added so far.
        """
        self.nodes, self.shapes = nodes, shapes
        before = self.tenants
        allocated = np.zeros((tenants, nodes.capacity.shape[1]), dtype=np.int64)
        allocated[: before.allocated.shape[0], : before.allocated.shape[1]] = before.allocated
        weight = np.ones(tenants, dtype=np.float64)
        weight[: len(before.weight)] = before.weight
        self.tenants = TenantArrays(allocated, weight)

    def recount(self) -> None:
        """Add up what residents request anew, after columns of `shapes.request` were exchanged."""
        pods = np.flatnonzero(self.row >= 0)
        rows, request = self.row[pods], self.shapes.request[self.shape[pods]]
        for column, places in (
            (self.nodes.requested, rows),
            (self.tenants.allocated, self.shapes.tenant[self.shape[pods]]),
        ):
            column[:] = 0
            np.add.at(column, places, request)

    def copy(self, nodes: NodeArrays, shapes: ShapeArrays) -> Ledger:
        """An independent ledger with the same residents, over copies of this ledger's arrays."""
        made = Ledger(nodes, shapes, 0, 0)
        made.tenants = TenantArrays(self.tenants.allocated.copy(), self.tenants.weight.copy())
        if made.tenants.allocated.shape[1] != nodes.capacity.shape[1]:
            made.adopt(nodes, shapes, len(made.tenants.weight))
        made.row, made.shape, made._added = self.row.copy(), self.shape, self._added
        return made

    def note_placed(self, pods: Int, rows: Int, shapes: Int) -> None:
        """Record pods whose requests and sums a compiled placement has already added to `nodes`."""
        self._grow(pods)
        if (self.row[pods] >= 0).any():
            taken = pods[self.row[pods] >= 0][0]
            raise Permanent(f"pod {taken} is already assigned to row {self.row[taken]}")
        self.row[pods] = rows
        self.shape[pods] = shapes
        self._added[pods] = self.shapes.sums[shapes]
        np.add.at(self.tenants.allocated, self.shapes.tenant[shapes], self.shapes.request[shapes])

    def place(self, pods: Int, rows: Int, shapes: Int) -> None:
        """Assign pods to rows (the result of a round policy, or pods found running at start)."""
        self.note_placed(pods, rows, shapes)
        np.add.at(self.nodes.requested, rows, self.shapes.request[shapes])
        np.add.at(self.nodes.sums, rows, self._added[pods])
        group = self.shapes.group[shapes]
        grouped = group >= 0
        np.add.at(self.nodes.group_count, (rows[grouped], group[grouped]), 1)

    def remove(self, pods: Int) -> None:
        """Unassign pods: finished, evicted, or their node is lost."""
        rows, shapes = self.row[pods], self.shape[pods]
        if (rows < 0).any():
            raise Permanent(f"pod {pods[rows < 0][0]} is not assigned")
        request = self.shapes.request[shapes]
        np.subtract.at(self.nodes.requested, rows, request)
        np.subtract.at(self.nodes.sums, rows, self._added[pods])
        np.subtract.at(self.tenants.allocated, self.shapes.tenant[shapes], request)
        group = self.shapes.group[shapes]
        grouped = group >= 0
        np.subtract.at(self.nodes.group_count, (rows[grouped], group[grouped]), 1)
        self.row[pods] = -1

    def revise(self) -> Int:
        """Count every assigned pod with the current `shapes.sums`, after estimates were corrected. Returns the rows
        that changed, each once.
        """
        pods = np.flatnonzero(self.row >= 0)
        change = self.shapes.sums[self.shape[pods]] - self._added[pods]
        changed = change.any(axis=1)
        np.add.at(self.nodes.sums, self.row[pods[changed]], change[changed])
        self._added[pods[changed]] += change[changed]
        return np.unique(self.row[pods[changed]])

    def report(self, values: Float) -> None:
        """Store what nodes reported, `float64[N, len(Report)]`; NaN rows keep their previous report."""
        fresh = ~np.isnan(values).any(axis=1)
        self.nodes.report[fresh] = values[fresh]

    def set_ready(self, rows: Int, ready: bool) -> None:
        """Set nodes ready or not; residents of a lost node are removed by their own events."""
        self.nodes.ready[rows] = ready

    def added(self, pods: Int, column: Sum) -> Int:
        """`int64[len(pods)]`: what each resident adds to one of its node's sums."""
        return self._added[:, column][pods]

    def residents(self, row: int) -> Int:
        """The pods on a node."""
        return np.flatnonzero(self.row == row)

    def validate(self) -> None:
        """Recompute every sum from the residents. Raises `Permanent` with the first difference."""
        pods = np.flatnonzero(self.row >= 0)
        rows, shapes = self.row[pods], self.shape[pods]
        for name, column, values in (
            ("requested", self.nodes.requested, self.shapes.request[shapes]),
            ("sums", self.nodes.sums, self._added[pods]),
        ):
            expected = np.zeros_like(column)
            np.add.at(expected, rows, values)
            self._compare(name, column, expected)
        groups = np.zeros_like(self.nodes.group_count)
        group = self.shapes.group[shapes]
        np.add.at(groups, (rows[group >= 0], group[group >= 0]), 1)
        self._compare("group_count", self.nodes.group_count, groups)
        tenants = np.zeros_like(self.tenants.allocated)
        np.add.at(tenants, self.shapes.tenant[shapes], self.shapes.request[shapes])
        self._compare("tenants.allocated", self.tenants.allocated, tenants)

    def over_capacity(self) -> Int:
        """Nodes whose residents request more than is allocatable."""
        return np.flatnonzero((self.nodes.requested > self.nodes.capacity).any(axis=1))

    @staticmethod
    def _compare(name: str, found: Int, expected: Int) -> None:
        if not np.array_equal(found, expected):
            row, column = np.argwhere(found != expected)[0]
            raise Permanent(
                f"ledger drifted: {name}[{row}, {column}] is {found[row, column]}, residents add up to "
                f"{expected[row, column]}"
            )

    def _grow(self, pods: Int) -> None:
        needed = int(pods.max(initial=-1)) + 1
        if needed > len(self.row):
            more = max(needed, 2 * len(self.row)) - len(self.row)
            self.row = np.concatenate([self.row, np.full(more, -1, dtype=np.int64)])
            self.shape = np.concatenate([self.shape, np.zeros(more, dtype=np.int64)])
            self._added = np.concatenate([self._added, np.zeros((more, len(Sum)), dtype=np.int64)])


def empty_nodes(capacity: Int, groups: int = 0, label_words: int = 1) -> NodeArrays:
    """Nodes with nothing on them and nothing reported, from `capacity[N, R]`."""
    size = capacity.shape[0]
    return NodeArrays(
        capacity=np.ascontiguousarray(capacity, dtype=np.int64),
        requested=np.zeros(capacity.shape, dtype=np.int64),
        sums=np.zeros((size, len(Sum)), dtype=np.int64),
        report=np.full((size, len(ReportColumn)), np.nan),
        taints=np.zeros(size, dtype=np.uint64),
        labels=np.zeros((size, label_words), dtype=np.uint64),
        ready=np.ones(size, dtype=np.bool_),
        group_count=np.zeros((size, groups), dtype=np.int64),
    )
