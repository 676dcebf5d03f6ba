"""Who sits where in a real cluster: nodes and pods by name, behind them the encoder, the ledger and the narrowing.

Problem: the arrays know rows and numbers; a cluster knows names that vanish and return, and pods on nodes nobody has told of yet.
Choice: a pod is counted on a node's *name*; it has a row while that node is known, and none while it is not, so no order of events loses or
doubles anything. Changes are written to the arrays together, before the next judgement; what pods that are gone had asked for is given back now
and then. Limits: tenants, groups and resources keep their columns for good, as the encoder has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import NodeRules
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.state.estimates import Estimates
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.engine.state.verdict_cache import VerdictCache
from cotenant.model.arrays import CPU, Float, Int, Mask
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.knobs import Knobs

_RECLAIM_AFTER = 20_000  # pods gone
_MOST_UNUSED = 512  # shapes that no pod has, beyond as many as have one: each may cost a bit of every node
_MOST_CLOSING = 1024
_NEVER_A_VICTIM = 2**62
_HALF_NODE_CORES = 8.0  # until the first node is known


class Assignments:
    """The cluster's seats."""

    def __init__(
        self,
        knobs: Knobs,
        verdict_cache: VerdictCache,
        node_rules: tuple[NodeRules, ...] = (),
        plugins: tuple[Plugin, ...] = (),
    ) -> None:
        self.encoder = Encoder(_HALF_NODE_CORES, knobs.pressure_factor)
        self.encoder.on_row_changed = self._touched
        self.narrowing = Narrowing(self.encoder, node_rules)
        self._plugins = plugins  # told of who sits and who stands
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        self.estimates = Estimates(self.encoder, self.ledger, knobs)
        self.residents: dict[
            str, dict[str, PodInfo]
        ] = {}  # node's name -> uid -> pod, also of nodes that are not there
        self.reserved: dict[str, PodInfo] = {}  # uid -> pod whose room is kept on its nominated node
        self.changed: set[int] = set()  # rows with more room, or that changed otherwise, since the last look
        self.names: list[str] = []  # row -> node's name
        self.verdict_cache = verdict_cache  # of judgements: told of every row that changes
        self.by_number: list[PodInfo] = []
        self.priorities: Int = np.zeros(64, dtype=np.int64)  # by number
        self.started_s: Float = np.full(64, np.nan)
        self.generation: Int = np.zeros(64, dtype=np.int64)  # by number: how many pods have had it
        self._moved: dict[int, PodInfo] = {}  # by identity: pods whose rows are not written yet
        self._closing: list[PodInfo] = []
        self._sizes_changed = False  # whether half a node may be another amount than the encoder's
        self._released = 0  # numbers given back since shapes were last reclaimed
        self._grown = True

    # ---- nodes

    def node_seen(self, node: Node) -> bool:
        """A new or changed node; whether anything is different."""
        row = self.encoder.node_rows.get(node.name)
        if row is not None and self.encoder.node(row) == node:
            return False
        self._sizes_changed = True
        if row is None:
            row = self.encoder.add_node(node)
            while len(self.names) <= row:
                self.names.append("")
            self.names[row] = node.name
            for entry in self.residents.get(node.name, {}).values():
                entry.wanted = row
                self._moved[id(entry)] = entry
        else:
            self.encoder.update_node(node)
        self._grown = True
        self.changed.add(row)
        self._touch(row)
        return True

    def node_gone(self, name: str) -> bool:
        """The node is gone; its residents keep its name. Whether it was there."""
        row = self.encoder.node_rows.get(name)
        if row is None:
            return False
        for entry in self.residents.get(name, {}).values():
            entry.wanted = -1
            self._moved[id(entry)] = entry
        for entry in [entry for entry in self.reserved.values() if entry.row == row]:
            self.release(entry)
        self.write()
        self.encoder.remove_node(name)
        self.names[row] = ""
        self.changed.discard(row)
        self._touch(row)
        self._grown = True
        return True

    def report(self, name: str, values: tuple[float, ...]) -> None:
        """What a node reported, in the order of `arrays.Report`; nothing for one that is not there."""
        row = self.encoder.node_rows.get(name)
        if row is not None:
            self.encoder.nodes().report[row] = values
            self._touch(row)

    def report_all(self, names: Sequence[str], values: Float) -> None:
        """What several nodes reported, `float64[len(names), len(Report)]`; nothing for those that are not there and for rows with NaN."""
        rows = np.fromiter((self.encoder.node_rows.get(name, -1) for name in names), dtype=np.int64, count=len(names))
        fresh = (rows >= 0) & ~np.isnan(values).any(axis=1)
        self.encoder.nodes().report[rows[fresh]] = values[fresh]
        self.verdict_cache.changed(rows[fresh & (rows < len(self.verdict_cache.version))])

    def _touched(self, row: int) -> None:
        """Something that no node object says changed there: who waits may fit now, or not any more."""
        self._grown = True
        self.changed.add(row)
        self._touch(row)

    def _touch(self, row: int) -> None:
        if row < len(
            self.verdict_cache.version
        ):  # else it is remembered of nobody; room is made for all new rows together
            self.verdict_cache.changed(row)

    # ---- pods

    def add(self, entry: PodInfo) -> None:
        """Give the pod a number and a shape."""
        entry.number, entry.shape = self.encoder.add_pod(entry.seen.pod)
        entry.row = entry.wanted = -1
        self.estimates.arrived(entry.shape, entry.seen.pod)
        self._grown = True
        self._note(entry)
        seen = entry.seen
        holds = seen.holds if seen.holds != NO_HOLDINGS else entry.holds
        self.narrowing.add_pod(entry.number, seen.pod, entry.shape, seen.volumes, seen.demands, holds)
        if entry.seen.terminating:
            self.narrowing.set_terminating(entry.number)
        for each in self._plugins:
            each.pod_arrived(entry)

    def remove(self, entry: PodInfo) -> None:
        """The pod is gone for good; the entry must not be opened again (see `replace`)."""
        self.unassign(entry)
        if entry.seen.uid in self.reserved:
            self.release(entry)
        for each in self._plugins:
            each.pod_left(entry)
        self.encoder.remove_pod(entry.seen.pod.key)
        if entry.row >= 0:
            self._closing.append(entry)
            if len(self._closing) > _MOST_CLOSING:
                self.write()  # nobody judges here: a replica that does not lead
        else:
            self._forget(entry)
            self._reclaim()

    def replace(self, entry: PodInfo, before: str) -> None:
        """What placement sees of the pod has changed; it keeps its seat. `before` is its namespace/name until now."""
        name = entry.node
        self.unassign(entry)
        if entry.seen.uid in self.reserved:
            self.release(entry)
        self.write()
        for each in self._plugins:
            each.pod_left(entry)
        self.encoder.remove_pod(before)
        self._forget(entry)
        self.add(entry)
        if name:
            self.assign(entry, name)

    def _forget(self, entry: PodInfo) -> None:
        self._moved.pop(id(entry), None)
        self.narrowing.remove_pod(entry.number)
        self.encoder.release_pod(entry.number)
        self._released += 1
        entry.number = entry.shape = -1

    def _reclaim(self) -> None:
        """Give back the rows and bits of shapes that no pod has, where they have become many."""
        unused = self.encoder.reclaimable
        if self._released < _RECLAIM_AFTER and 2 * unused <= self.encoder.shape_rows + _MOST_UNUSED:
            return
        self._released = 0
        self.estimates.forget(self.encoder.reclaim().tolist())
        self.verdict_cache.forget()  # a row that is given to another shape must not be judged by what is remembered of it
        self._grown = True

    def _note(self, entry: PodInfo) -> None:
        number = entry.number
        if number >= len(self.priorities):
            more = max(number + 1, len(self.priorities))
            self.priorities = np.concatenate([self.priorities, np.zeros(more, dtype=np.int64)])
            self.started_s = np.concatenate([self.started_s, np.full(more, np.nan)])
            self.generation = np.concatenate([self.generation, np.zeros(more, dtype=np.int64)])
        if number >= len(self.by_number):
            self.by_number.extend([entry] * (number + 1 - len(self.by_number)))
        self.by_number[number] = entry
        self.generation[number] += 1
        # what stands for a reservation is nobody's victim
        self.priorities[number] = _NEVER_A_VICTIM if entry.seen.reservation else entry.seen.pod.priority
        self.started_s[number] = entry.seen.started_s

    def updated(self, entry: PodInfo, before: ObservedPod) -> None:
        """The pod's claims or holdings changed, or it began to terminate; what its shape is made of did not."""
        if entry.seen.holds not in (before.holds, NO_HOLDINGS):
            self.narrowing.set_holdings(entry.number, entry.seen.holds)
        if entry.seen.volumes != before.volumes:
            self.narrowing.update_volumes(entry.number, entry.seen.volumes)
        if entry.seen.terminating and not before.terminating:
            self.narrowing.set_terminating(entry.number)
        self.started_s[entry.number] = entry.seen.started_s
        for each in self._plugins:
            each.pod_updated(entry)

    def assign(self, entry: PodInfo, name: str) -> None:
        """The pod is counted on a node, known or not."""
        if entry.node:
            raise Permanent(f"pod {entry.seen.pod.key} already sits on node {entry.node}")
        if entry.seen.uid in self.reserved:
            self.release(entry)
        entry.node = name
        self.residents.setdefault(name, {})[entry.seen.uid] = entry
        entry.wanted = self.encoder.node_rows.get(name, -1)
        self._moved[id(entry)] = entry
        for each in self._plugins:
            each.reserve(entry)

    def unassign(self, entry: PodInfo) -> None:
        """The pod leaves its node; nothing where it sits on none."""
        if not entry.node:
            return
        here = self.residents[entry.node]
        del here[entry.seen.uid]
        if not here:
            del self.residents[entry.node]
        for each in self._plugins:
            each.unreserve(entry)
        entry.node = ""
        entry.wanted = -1
        self._moved[id(entry)] = entry

    def placed(self, entry: PodInfo, row: int) -> None:
        """The placement has put the pod there, and the ledger and the narrowing know."""
        entry.node = self.names[row]
        entry.row = entry.wanted = row
        self.residents.setdefault(entry.node, {})[entry.seen.uid] = entry
        entry.holds = self.narrowing.holdings(entry.number)
        for each in self._plugins:
            each.reserve(entry)

    # ---- room kept for nominated pods

    def reserve(self, entry: PodInfo, name: str) -> bool:
        """Keep room for a nominated pod: its requests count on the node. Whether the node is there."""
        row = self.encoder.node_rows.get(name)
        if row is None or entry.node or entry.seen.uid in self.reserved:
            return False
        self.write()
        self._keep(entry, row)
        entry.row = entry.wanted = row
        self.reserved[entry.seen.uid] = entry
        return True

    def release(self, entry: PodInfo, freed: bool = True) -> None:
        """Keep the room no longer. `freed` False = only for a moment, nobody need look at it."""
        del self.reserved[entry.seen.uid]
        self._adopt()
        self.ledger.remove(np.array([entry.number]))
        self.verdict_cache.changed(entry.row)
        if freed:
            self.changed.add(entry.row)
        entry.row = entry.wanted = -1

    def suspend(self, entries: Iterable[PodInfo]) -> None:
        """Let a judgement not see these reservations, until `resume`."""
        self._adopt()
        lifted = list(entries)
        self.ledger.remove(_column(entry.number for entry in lifted))
        self.verdict_cache.changed(_column(entry.row for entry in lifted))

    def resume(self, entries: Iterable[PodInfo]) -> None:
        """Put back reservations that were lifted."""
        for entry in entries:
            self._keep(entry, entry.row)

    def _keep(self, entry: PodInfo, row: int) -> None:
        self._adopt()
        self.ledger.place(np.array([entry.number]), np.array([row]), np.array([entry.shape]))
        self.verdict_cache.changed(row)

    def _adopt(self) -> None:
        if self._grown:
            self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), len(self.encoder.tenants))
            self._grown = False

    # ---- arrays

    def write(self) -> None:
        """Bring the arrays up to date with who sits where."""
        self._reclaim()
        self._adopt()
        self.verdict_cache.resize(len(self.encoder.nodes().ready))
        if self._sizes_changed:
            self._sizes_changed = False
            self._resize_half_node()
        if not self._moved:
            return
        moved = [entry for entry in self._moved.values() if entry.row != entry.wanted]
        self._moved.clear()
        leaving = [entry for entry in moved if entry.row >= 0]
        if leaving:
            self.ledger.remove(_column(entry.number for entry in leaving))
            self.verdict_cache.changed(_column(entry.row for entry in leaving))
            for entry in leaving:
                self.narrowing.unassign(entry.number)
                self.changed.add(entry.row)
                entry.row = -1
            for entry in self._closing:
                self._forget(entry)
            self._closing.clear()
        self._reclaim()
        self._adopt()
        coming = [entry for entry in moved if entry.wanted >= 0]
        if coming:
            self.ledger.place(
                _column(entry.number for entry in coming),
                _column(entry.wanted for entry in coming),
                _column(entry.shape for entry in coming),
            )
            self.verdict_cache.changed(_column(entry.wanted for entry in coming))
            for entry in coming:
                self.narrowing.assign(entry.number, entry.wanted)
                entry.row = entry.wanted

    def _resize_half_node(self) -> None:
        """Take half of the median node as the unit of own pressure again, where nodes of other sizes came or went."""
        cpu = self.ledger.nodes.capacity[sorted(self.encoder.node_rows.values()), CPU]
        if not len(cpu):
            return
        half = float(np.median(cpu)) / 2000.0
        if half <= 0 or half == self.encoder.half_node_cores:
            return
        self.encoder.half_node_cores = half
        shapes = np.arange(len(self.ledger.shapes.tenant))
        self.estimates.rewrite(shapes)
        self.revise()
        self.verdict_cache.forget()

    def revise(self) -> None:
        """Pods on nodes count with what their shapes add to the sums now; the rows that this changes are judged again."""
        rows = self.ledger.revise()
        self.verdict_cache.changed(rows)
        self.changed.update(rows.tolist())

    def correct_waiting(self, shapes: Int, now_s: float, slack: bool) -> None:
        """Bring the estimates of shapes that wait up to date before they are judged."""
        changed = self.estimates.correct_waiting(shapes, now_s, slack)
        if len(changed):
            self.verdict_cache.forget_shapes(changed)

    def validate(self) -> None:
        """The arrays say what the names say. Raises `Permanent`."""
        self.write()
        self.ledger.validate()
        for each in self.narrowing.node_rules:
            each.validate()
        seated = {}
        for name, here in self.residents.items():
            row = self.encoder.node_rows.get(name, -1)
            for uid, entry in here.items():
                if entry.node != name or entry.row != row or entry.seen.uid != uid:
                    raise Permanent(
                        f"pod {entry.seen.pod.key} is counted on {name} and says {entry.node}, row {entry.row}"
                    )
                if row >= 0:
                    seated[entry.number] = row
        for entry in self.reserved.values():
            seated[entry.number] = entry.row
        found = {int(number): int(self.ledger.row[number]) for number in np.flatnonzero(self.ledger.row >= 0)}
        if found != seated:
            raise Permanent(f"{len(found)} pods sit in the ledger, {len(seated)} by name, or elsewhere")

    def on_nodes(self, numbers: Int) -> Mask:
        """Which of these numbers, -1 for none, are of pods on nodes; the arrays are up to date."""
        row = self.ledger.row
        inside = (numbers >= 0) & (numbers < len(row))
        return inside & (row[np.where(inside, numbers, 0)] >= 0) if len(row) else inside

    def over_capacity(self) -> tuple[str, ...]:
        """Nodes on which pods request more than there is, room kept for nominated pods aside."""
        self.write()
        requested = self.ledger.nodes.requested.copy()
        for entry in self.reserved.values():
            requested[entry.row] -= self.ledger.shapes.request[entry.shape]
        over = np.flatnonzero((requested > self.ledger.nodes.capacity).any(axis=1))
        return tuple(self.names[row] for row in over)


def _column(values: Iterable[int]) -> Int:
    return np.fromiter(values, dtype=np.int64)
