"""The cluster as the machine map shows it: one row per node, and in it one cell per tenant and class.

5,000 nodes with 100,000 pods change all the time, and hundreds of viewers want the same picture. Pods are kept as small
rows by node; a change marks its node, and `recompute` recomputes the marked nodes only. A row whose integers changed
gets the next sequence number, so what changed since any earlier number is known without a log: a viewer that was away
for an hour and one that was away for a second ask the same question. The set of nodes, their labels and their sizes
have a number of their own, the epoch; when it changes, viewers load everything again.
Limits: a cell is a tenant and a class, not a pod; pods by name are in `pods`. CPU in milli-CPU, memory in MiB, cells in
thousandths of the node's allocatable amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from cotenant.model.cluster.node import Node
from cotenant.model.cluster.objective import misses_objective
from cotenant.model.machine.node_metric import Use
from cotenant.model.resources import BATCH_CPU, CPU_NAME, MEMORY_NAME, MID_CPU
from cotenant.services.console.pod_rows import PodRow

UNKNOWN = 0xFFFFFFFF  # of a node's column: not measured
UNMEASURED = 0xFFFF  # the same of a cell
MAX_TENANTS = 0xFFFE
NOT_READY, CORDONED = 1 << 16, 1 << 17  # flags beside the share of services that miss their objective
COLUMNS = 9
CELL = 6
_MIB = 1 << 20
_MAX_SHARE = 0xFFFE
_SPARE = 1000  # measurements of pods that are not known, before they are dropped


@dataclass(slots=True)
class NodeRow:
    """One node. `columns` and `cells` are what viewers see; `seq`: when they last changed."""

    node: Node
    at: int  # position in the map
    pods: dict[str, PodRow] = field(default_factory=dict)
    columns: tuple[int, ...] = (0,) * COLUMNS
    cells: tuple[int, ...] = ()
    seq: int = 0


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """Sums over the cluster. `used_m` is None where no node is measured."""

    nodes: int = 0
    pods: int = 0
    pending: int = 0
    cpu_m: int = 0
    requested_m: int = 0
    used_m: int | None = None
    lent_m: int = 0
    lent_requested_m: int = 0
    memory_mib: int = 0
    memory_requested_mib: int = 0
    memory_used_mib: int | None = None
    burning: int = 0  # nodes on which services miss their objective
    unmeasured: int = 0  # nodes with pods whose use is not known: not in the sums of use


class MeasuredFleet:
    """Nodes, pods and what was measured of them."""

    def __init__(self) -> None:
        self.epoch = 1
        self.seq = 1
        self.nodes: dict[str, NodeRow] = {}
        self.pods: dict[str, PodRow] = {}
        self.pending: dict[str, None] = {}  # keys of pods without a node, oldest first
        self.tenants: list[str] = []
        self.tenant_seq: list[int] = []
        self._tenant_at: dict[str, int] = {}
        self._order: list[str] = []
        self._homeless: dict[str, dict[str, PodRow]] = {}  # pods of nodes that are not there (yet)
        self._dirty: dict[str, None] = {}
        self._node_use: dict[str, Use] = {}
        self._pod_use: dict[str, Use] = {}
        self._latency_ms: dict[str, float] = {}
        self._numa: dict[str, str] = {}  # what a node's NodeResourceTopology says, in words
        self._missing: dict[str, int] = {}  # thousandths of a node's services that miss their objective
        self._totals: ClusterTotals | None = None
        self._moved = False
        self._counted = False  # the number of waiting pods changed

    # ---- facts

    def node_seen(self, node: Node) -> None:
        """A node was added or changed."""
        row = self.nodes.get(node.name)
        if row is None:
            self.nodes[node.name] = NodeRow(node, len(self._order), self._homeless.pop(node.name, {}))
            self._order.append(node.name)
            self._moved = True
        else:
            self._moved = self._moved or row.node.labels != node.labels
            row.node = node
        self._dirty[node.name] = None

    def node_gone(self, name: str) -> None:
        """A node was deleted."""
        row = self.nodes.pop(name, None)
        if row is None:
            return
        if row.pods:
            self._homeless[name] = row.pods
        self._order.remove(name)
        for at, other in enumerate(self._order):
            self.nodes[other].at = at
        self._dirty.pop(name, None)
        self._node_use.pop(name, None)
        self._missing.pop(name, None)
        self._moved = True

    def pod_seen(self, row: PodRow) -> None:
        """A pod was added or changed."""
        self._take_off(self.pods.get(row.key))
        self.pods[row.key] = row
        self._counted = self._counted or (row.key in self.pending) != (not row.node and not row.phase.is_final)
        self.pending.pop(row.key, None)
        if row.phase.is_final:
            self._pod_use.pop(row.key, None)
            return
        if row.node:
            self._place(row)
        else:
            self.pending[row.key] = None
        self._totals = None

    def pod_gone(self, key: str) -> None:
        """A pod was deleted."""
        self._take_off(self.pods.pop(key, None))
        self._counted = self._counted or key in self.pending
        self.pending.pop(key, None)
        self._pod_use.pop(key, None)
        self._latency_ms.pop(key, None)
        self._totals = None

    def measured(
        self,
        nodes: Mapping[str, Use],
        pods: Mapping[str, Use],
        latencies_ms: Mapping[str, float | None] | None = None,
    ) -> None:
        """What nodes and pods use now; those that are not named keep their last measurement. A latency of None: it
        is not measured any more.
        """
        for name, use in nodes.items():
            if self._node_use.get(name) != use:
                self._node_use[name] = use
                self._dirty[name] = None
        for key, use in pods.items():
            if self._pod_use.get(key) != use:  # the pod itself may be listed later
                self._pod_use[key] = use
                self._touch(key)
        for key, latency in (latencies_ms or {}).items():
            if self._latency_ms.get(key) != latency:
                self._latency_ms.pop(key, None)
                if latency is not None:
                    self._latency_ms[key] = latency
                self._touch(key)
        if len(self._pod_use) > 2 * len(self.pods) + _SPARE:  # of pods that ended before they were listed
            self._pod_use = {key: use for key, use in self._pod_use.items() if key in self.pods}
            self._latency_ms = {key: value for key, value in self._latency_ms.items() if key in self.pods}

    def unmeasured(self, nodes: Collection[str]) -> None:
        """What these nodes and their pods use is not known any more."""
        for name in nodes:
            row = self.nodes.get(name)
            pods = row.pods if row is not None else {}
            for key in pods:
                self._pod_use.pop(key, None)
                self._latency_ms.pop(key, None)
            self._node_use.pop(name, None)
            if row is not None:
                self._dirty[name] = None

    def numa_seen(self, node: str, words: str) -> None:
        """A node's NUMA nodes were reported; empty: they are not known any more."""
        if self._numa.get(node, "") == words:
            return
        if words:
            self._numa[node] = words
        else:
            self._numa.pop(node, None)
        self._moved = self._moved or node in self.nodes

    def numa_of(self, node: str) -> str:
        """A node's NUMA nodes in words; empty where they are not known."""
        return self._numa.get(node, "")

    def missing(self, shares: Mapping[str, float]) -> None:
        """The share of each node's services that miss their objective, by the nodes' reports."""
        for name, share in shares.items():
            thousandths = max(0, min(1000, round(share * 1000)))
            if self._missing.get(name, 0) != thousandths:
                self._missing[name] = thousandths
                self._dirty[name] = None

    # ---- what viewers see

    @property
    def order(self) -> list[str]:
        """Names of nodes by position."""
        return self._order

    @property
    def has_changes(self) -> bool:
        """Whether `recompute` has something to do."""
        return bool(self._dirty) or self._moved or self._counted

    def recompute(self, most: int = 1 << 30) -> bool:
        """Recompute at most so many changed nodes; whether viewers have something new to see."""
        changed, self._counted = self._counted, False
        if self._moved:
            self._moved = False
            self.epoch += 1
            changed = True
        following = self.seq + 1
        for name in list(self._dirty)[:most]:
            del self._dirty[name]
            row = self.nodes.get(name)
            if row is None:
                continue
            columns, cells = self._computed(row, following)
            if (columns, cells) != (row.columns, row.cells):
                row.columns, row.cells, row.seq = columns, cells, following
                changed = True
        if changed:
            self.seq = following
            self._totals = None
        return changed

    def changed_since(self, seq: int) -> Iterator[NodeRow]:
        """The rows that changed after a sequence number of this epoch."""
        return (row for row in self.nodes.values() if row.seq > seq)

    def use_of(self, key: str) -> Use | None:
        """What a pod uses; None where it is not measured."""
        return self._pod_use.get(key)

    def latency_of(self, key: str) -> float | None:
        """A pod's p99 in milliseconds; None where it is not measured."""
        return self._latency_ms.get(key)

    def is_late(self, pod: PodRow) -> bool:
        """Whether a pod misses its objective."""
        return misses_objective(self.latency_of(pod.key), pod.objective_p99_ms)

    def unnamed_late(self) -> int:
        """The nodes that report missed objectives and not whose, or not all."""
        found = 0
        for row in self.nodes.values():
            late = [self.is_late(pod) for pod in row.pods.values() if pod.objective_p99_ms is not None]
            found += row.columns[8] & 0xFFFF > (round(1000 * sum(late) / len(late)) if late else 0)
        return found

    def totals(self) -> ClusterTotals:
        """Sums, as of the last `recompute`."""
        if self._totals is None:
            self._totals = self._summed()
        return self._totals

    # ---- internals

    def _touch(self, key: str) -> None:
        row = self.pods.get(key)
        if row is not None and row.node:
            self._dirty[row.node] = None

    def _place(self, row: PodRow) -> None:
        node = self.nodes.get(row.node)
        if node is None:
            self._homeless.setdefault(row.node, {})[row.key] = row
        else:
            node.pods[row.key] = row
            self._dirty[row.node] = None

    def _take_off(self, row: PodRow | None) -> None:
        if row is None or not row.node:
            return
        node = self.nodes.get(row.node)
        if node is not None:
            if node.pods.pop(row.key, None) is not None:
                self._dirty[row.node] = None
        elif row.node in self._homeless:
            self._homeless[row.node].pop(row.key, None)
            if not self._homeless[row.node]:
                del self._homeless[row.node]

    def _tenant(self, name: str, seq: int) -> int:
        at = self._tenant_at.get(name)
        if at is None:
            if len(self.tenants) >= MAX_TENANTS:
                return 0
            at = self._tenant_at[name] = len(self.tenants)
            self.tenants.append(name)
            self.tenant_seq.append(seq)
        return at

    def _computed(self, row: NodeRow, seq: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        node = row.node
        cpu = node.allocatable.get(CPU_NAME)
        memory = node.allocatable.get(MEMORY_NAME)
        lent = node.allocatable.get(BATCH_CPU) + node.allocatable.get(MID_CPU)
        requested = lent_requested = memory_requested = used = memory_used = 0
        services = known = late = measured = 0
        cells: dict[tuple[int, int], list[int]] = {}
        for pod in row.pods.values():
            cell = cells.setdefault((int(pod.kind), self._tenant(pod.tenant, seq)), [0, 0, 0, 0, 0])
            requested += pod.cpu_m
            lent_requested += pod.lent_cpu_m
            memory_requested += pod.memory
            cell[0] += pod.cpu_m + pod.lent_cpu_m
            cell[2] += pod.memory
            use = self._pod_use.get(pod.key)
            if use is not None:
                cell[1] += use.cpu_m
                cell[3] += use.memory_bytes
                cell[4] += 1
                used += use.cpu_m
                memory_used += use.memory_bytes
                measured += 1
            if pod.objective_p99_ms is not None:
                services += 1
                known += pod.key in self._latency_ms
                late += self.is_late(pod)
        # A report says how many and not which: it counts where not every pod's latency is known.
        reported = self._missing.get(node.name, 0) if known < services or not services else 0
        missing = max(round(1000 * late / services) if services else 0, reported)
        of_node = self._node_use.get(node.name)
        if of_node is not None:
            used, memory_used = of_node.cpu_m, of_node.memory_bytes
        elif not measured and row.pods:
            used = memory_used = -1
        elif not row.pods:
            used = memory_used = 0
        flags = (0 if node.ready else NOT_READY) | (CORDONED if node.unschedulable else 0)
        columns = (
            cpu,
            requested,
            UNKNOWN if used < 0 else used,
            lent,
            lent_requested,
            memory // _MIB,
            memory_requested // _MIB,
            UNKNOWN if memory_used < 0 else memory_used // _MIB,
            missing | flags,
        )
        flat: list[int] = []
        for (kind, tenant), amounts in sorted(cells.items()):
            flat += (
                tenant,
                kind,
                _share(amounts[0], cpu),
                _share(amounts[1], cpu) if amounts[4] else UNMEASURED,
                _share(amounts[2], memory),
                _share(amounts[3], memory) if amounts[4] else UNMEASURED,
            )
        return columns, tuple(flat)

    def _summed(self) -> ClusterTotals:
        sums = [0] * COLUMNS
        burning = pods = unmeasured = measured = 0
        for row in self.nodes.values():
            pods += len(row.pods)
            for column in (0, 1, 3, 4, 5, 6):
                sums[column] += row.columns[column]
            for column in (2, 7):
                if row.columns[column] != UNKNOWN:
                    sums[column] += row.columns[column]
            unmeasured += row.columns[2] == UNKNOWN
            measured += row.columns[2] != UNKNOWN and bool(row.pods)
            burning += (row.columns[8] & 0xFFFF) > 0
        is_measured = measured > 0 or (bool(self.nodes) and not unmeasured)
        return ClusterTotals(
            len(self.nodes),
            pods,
            len(self.pending),
            sums[0],
            sums[1],
            sums[2] if is_measured else None,
            sums[3],
            sums[4],
            sums[5],
            sums[6],
            sums[7] if is_measured else None,
            burning,
            unmeasured,
        )


def _share(amount: int, of: int) -> int:
    return min(_MAX_SHARE, amount * 1000 // of) if of > 0 else 0
