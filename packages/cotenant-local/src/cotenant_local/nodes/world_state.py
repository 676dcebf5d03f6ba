"""Allocation of the world's records: empty at first, doubled when full, rows of names that are no longer used
reused.
"""

from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int, ReportColumn
from cotenant.model.results.forms import FrameCell
from cotenant_lab.world import state as lab
from cotenant_lab.world.records import (
    JOB,
    NODE,
    OUTAGE,
    POD,
    RUN,
    SERVICE,
    SHAPE,
    STAGE,
    TENANT,
    TICK,
    Records,
    records,
)
from cotenant_lab.world.state import WorldState

FIRST = 256
MAX_WORKERS = 128


class NamedRows:
    """Rows by name, each with the number of its users. The row of a name without users is given to the next new
    name.
    """

    __slots__ = ("_free", "_rows", "_users", "names")

    def __init__(self) -> None:
        self.names: list[str] = []  # by row, "" where the row is free
        self._rows: dict[str, int] = {}
        self._users: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """The rows that are or were in use; every row is below it."""
        return len(self.names)

    def use(self, name: str) -> tuple[int, bool]:
        """Add a user of a name. Returns its row, and whether the name is new."""
        row = self._rows.get(name)
        if row is not None:
            self._users[row] += 1
            return row, False
        if self._free:
            row = self._free.pop()
            self.names[row], self._users[row] = name, 1
        else:
            row = len(self.names)
            self.names.append(name)
            self._users.append(1)
        self._rows[name] = row
        return row, True

    def leave(self, row: int) -> bool:
        """Remove a user of a row. Returns whether it was the last."""
        self._users[row] -= 1
        if self._users[row]:
            return False
        del self._rows[self.names[row]]
        self.names[row] = ""
        self._free.append(row)
        return True


def empty() -> WorldState:
    """An empty state at time 0."""
    nodes = records(FIRST, NODE)
    nodes.first = -1
    run = records(1, RUN)
    run.last_tick_s = np.nan
    return WorldState(
        run=run,
        pods=records(FIRST, POD),
        services=records(FIRST, SERVICE),
        stages=records(1, STAGE),
        jobs=records(1, JOB),
        nodes=nodes,
        tenants=records(FIRST, TENANT),
        outages=records(0, OUTAGE),
        shapes=records(1, SHAPE),
        ticks=records(1, TICK),
        load=np.zeros((FIRST, 1)),
        replica_pods=np.zeros(0, np.int64),
        job_order=np.zeros(0, np.int64),
        report=np.full((FIRST, len(ReportColumn)), np.nan),
        tree=np.full(2 * FIRST, np.inf),
        outbox=np.zeros((0, len(ReportColumn))),  # simulated nodes send their reports themselves
        p99_table=np.full((MAX_WORKERS, 100), np.nan),
        decay_table=np.zeros((0, 100)),  # their p99 is exact
        ready=np.zeros(FIRST, np.int64),
        finished=np.zeros(FIRST, np.int64),
        evicted=np.zeros(FIRST, np.int64),
        evictions=np.zeros(len(lab.CAUSES), np.int64),
        frames=np.zeros((0, 0, len(FrameCell)), np.uint8),
        frame_nodes=np.zeros(0, np.int64),
    )


def _resized_records(table: Records, size: int) -> Records:
    out = records(size, table.dtype)
    out[: len(table)] = table
    return out


def _resized_column(column: Int, size: int) -> Int:
    out = np.zeros(size, np.int64)
    out[: len(column)] = column
    return out


def more_pods(s: WorldState, size: int) -> WorldState:
    """A copy of the state with room for `size` pods."""
    return s._replace(
        pods=_resized_records(s.pods, size),
        ready=np.zeros(size, np.int64),
        finished=_resized_column(s.finished, size),
        evicted=_resized_column(s.evicted, size),
    )


def more_nodes(s: WorldState, size: int) -> WorldState:
    """A copy of the state with room for `size` nodes; the tree of next completions is rebuilt."""
    old = len(s.nodes)
    nodes = _resized_records(s.nodes, size)
    nodes.first[old:] = -1
    leaves = 1 << (size - 1).bit_length()
    tree = np.full(2 * leaves, np.inf)
    tree[leaves : leaves + old] = s.tree[len(s.tree) // 2 :][:old]
    for i in range(leaves - 1, 0, -1):
        tree[i] = min(tree[2 * i], tree[2 * i + 1])
    report = np.full((size, len(ReportColumn)), np.nan)
    report[:old] = s.report[:old]
    return s._replace(nodes=nodes, tree=tree, report=report)


def more_services(s: WorldState, size: int) -> WorldState:
    """A copy of the state with room for `size` services."""
    load = np.zeros((size, 1))
    load[: len(s.load)] = s.load
    return s._replace(services=_resized_records(s.services, size), load=load)


def more_tenants(s: WorldState, size: int) -> WorldState:
    """A copy of the state with room for `size` tenants."""
    return s._replace(tenants=_resized_records(s.tenants, size))
