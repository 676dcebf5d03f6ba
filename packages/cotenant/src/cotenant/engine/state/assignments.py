"""Assignments of a cluster's pods to its nodes, by name, over the encoder, the ledger and the narrowing.

The arrays use rows and numbers; a cluster has names that are deleted and reused, and pods on nodes that are not known
yet. A pod is assigned to a node's *name*; it has a row only while that node is known, so no order of events loses a pod
or counts it twice. Changes are written to the arrays together, before the next scheduling round; rows and bits of
removed pods are reclaimed from time to time.
Limits: resources keep their columns for good, as in the encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import NodeRules
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.plugin_rules import PluginRules
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.roster import Roster
from cotenant.engine.state.assignment_checks import check_residents, rows_over_capacity
from cotenant.engine.state.estimates import Estimates
from cotenant.engine.state.learned_profiles import LearnedProfiles, ProfileStore
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.engine.state.pod_columns import PodColumns
from cotenant.engine.state.verdict_cache import VerdictCache
from cotenant.model.arrays import CPU, Float, Int, Mask
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.knobs import Knobs

_RECLAIM_AFTER = 20_000  # removed pods
_MAX_UNUSED = 512  # shapes without pods, besides as many as are in use: each may use a bit of every node
_MAX_REMOVED = 1024
_HALF_NODE_CORES = 8.0  # until the first node is known


class Assignments:
    """Nodes, pods, and which pod is assigned to which node."""

    def __init__(
        self,
        knobs: Knobs,
        verdict_cache: VerdictCache,
        node_rules: tuple[NodeRules, ...] = (),
        roster: Roster | None = None,
        profiles: ProfileStore | None = None,
    ) -> None:
        """`profiles`: what was learned of applications, None where the policy does not use it."""
        self.encoder = Encoder(_HALF_NODE_CORES, knobs.pressure_factor)
        self.encoder.on_row_changed = self._touched
        self.encoder.on_row_tightened = self._touch
        self.narrowing = Narrowing(self.encoder, node_rules)
        self._roster = roster or Roster(())
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        learned = LearnedProfiles(self.encoder, self.ledger, knobs, profiles) if profiles is not None else None
        self.estimates = Estimates(self.encoder, self.ledger, knobs, learned)
        self.residents: dict[str, dict[str, PodInfo]] = {}  # node's name -> uid -> pod, also for unknown nodes
        self.reserved: dict[str, PodInfo] = {}  # uid -> pod with resources reserved on its nominated node
        self.changed: set[int] = set()  # rows with more free resources, or changed otherwise, since last read
        self.stirred: set[str] = set()  # nodes that changed, got or lost a pod, or have one that ends, since last read
        self.names: list[str] = []  # row -> node's name
        self.verdict_cache = verdict_cache  # invalidated for every row that changes
        self.pods = PodColumns()
        for rule in node_rules:
            if isinstance(rule, PluginRules):
                rule.entry_of = self.pods.by_number.__getitem__
        self._moved: dict[int, PodInfo] = {}  # by identity: pods whose assignment is not written to the arrays yet
        self._removed: list[PodInfo] = []
        self._sizes_changed = False  # whether half of the median node may differ from the encoder's value
        self._is_held = False  # nothing is reclaimed: pods that are gone come back
        self._released = 0  # numbers released since shapes were last reclaimed
        self._grown = True  # whether nodes or reclaimed rows may have changed the arrays
        self._adopted_shapes = 0  # `shapes_written` of the encoder when the ledger last adopted its arrays
        self._counted_requests = 0  # its `requests_revision` then

    # ---- nodes

    def set_node(self, node: Node) -> bool:
        """Add or update a node. Whether anything changed."""
        self.narrowing.images.set(node.name, node.images)
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
        self.stirred.add(node.name)
        self._touch(row)
        return True

    def set_closed(self, name: str, is_closed: bool) -> None:
        """See `Encoder.set_closed`."""
        self.encoder.set_closed(name, is_closed)
        self.touched(name)

    def touched(self, name: str) -> None:
        """What a node offers changed, beside its Node object: pods may fit there now, or evict for it."""
        row = self.encoder.node_rows.get(name)
        if row is not None:
            self._touched(row)

    def remove_node(self, name: str) -> bool:
        """Remove a node; its pods stay assigned to its name. Whether it was known."""
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
        self.narrowing.images.set(name, ())
        self.names[row] = ""
        self.changed.discard(row)
        self._touch(row)
        self._grown = True
        return True

    def report(self, name: str, values: tuple[float, ...]) -> None:
        """Store what a node reported, in the order of `arrays.Report`; ignored for an unknown node."""
        row = self.encoder.node_rows.get(name)
        if row is not None:
            self.encoder.nodes().report[row] = values
            self._touch(row)

    def report_all(self, names: Sequence[str], values: Float) -> None:
        """Store reports of several nodes, `float64[len(names), len(Report)]`; unknown nodes and rows with NaN are
        ignored.
        """
        rows = np.fromiter((self.encoder.node_rows.get(name, -1) for name in names), dtype=np.int64, count=len(names))
        fresh = (rows >= 0) & ~np.isnan(values).any(axis=1)
        self.encoder.nodes().report[rows[fresh]] = values[fresh]
        self.verdict_cache.changed(rows[fresh & (rows < len(self.verdict_cache.version))])

    def _touched(self, row: int) -> None:
        """A row changed other than by its Node object: pending pods may fit there now, or no longer."""
        self._grown = True
        self.changed.add(row)
        self.stirred.add(self.names[row] if row < len(self.names) else "")
        self._touch(row)

    def _touch(self, row: int) -> None:
        if row < len(
            self.verdict_cache.version
        ):  # else no verdict of it is cached; the cache grows for all new rows together
            self.verdict_cache.changed(row)

    # ---- pods

    def add(self, entry: PodInfo) -> None:
        """Add an unassigned pod; it gets a number and a shape."""
        entry.number, entry.shape = self.encoder.add_pod(entry.seen.pod, entry.violation_surcharge)
        entry.row = entry.wanted = -1
        self.estimates.arrived(entry.shape, entry.seen.pod)
        self.pods.add(entry)
        seen = entry.seen
        holds = seen.holds if seen.holds != NO_HOLDINGS else entry.holds
        entry.kind = kind = self.narrowing.add_pod(
            entry.number, seen.pod, entry.shape, seen.volumes, seen.demands, holds
        )
        if entry.seen.terminating:
            self.narrowing.set_terminating(entry.number)
        entry.calls = self._roster.calls((kind, entry.shape, seen.pod.qos), seen.pod, seen.demands)
        for call in entry.calls.pod_arrived:
            call(entry)

    def unskip(self, plugin: Plugin, pods: Iterable[PodInfo]) -> None:
        """A plugin skips fewer pods than before: those that it needs now are reported to it."""
        self._roster.forget()
        self.narrowing.forget_alike()
        rule = next(
            (
                node_rules
                for node_rules in self.narrowing.node_rules
                if isinstance(node_rules, PluginRules) and node_rules.plugin is plugin
            ),
            None,
        )
        for entry in pods:
            before, seen = entry.calls, entry.seen
            entry.calls = self._roster.calls((entry.kind, entry.shape, seen.pod.qos), seen.pod, seen.demands)
            if plugin not in entry.calls.plugins or plugin in before.plugins:
                continue
            plugin.pod_arrived(entry)
            if rule is not None:
                self.narrowing.offer(rule, entry.number, entry.seen.pod, entry.seen.demands, NO_HOLDINGS)
            elif entry.node:
                plugin.reserve(entry, entry.node)

    def remove(self, entry: PodInfo) -> None:
        """Remove a pod for good; the entry must not be added again (see `replace`)."""
        self.unassign(entry)
        if entry.seen.uid in self.reserved:
            self.release(entry)
        for call in entry.calls.pod_left:
            call(entry)
        self.encoder.remove_pod(entry.seen.pod.key)
        if entry.row >= 0:
            self._removed.append(entry)
            if len(self._removed) > _MAX_REMOVED:
                self.write()  # a replica that is not the leader runs no scheduling rounds
        else:
            self._forget(entry)
            self._reclaim()

    def replace(self, entry: PodInfo, before: str) -> None:
        """Re-add a pod whose shape or rules changed; it stays assigned. `before` is its previous namespace/name."""
        name = entry.node
        self.unassign(entry)
        if entry.seen.uid in self.reserved:
            self.release(entry)
        self.write()
        for call in entry.calls.pod_left:
            call(entry)
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
        """Reclaim the rows and bits of shapes without pods, when there are many."""
        if self._is_held or not self._released:
            return
        unused = self.encoder.reclaimable
        if self._released < _RECLAIM_AFTER and 2 * unused <= self.encoder.shape_rows + _MAX_UNUSED:
            return
        self._released = 0
        self.estimates.forget(self.encoder.reclaim().tolist())
        self.verdict_cache.forget()  # verdicts of a reclaimed row must not apply to the shape that gets it next
        self._roster.forget()
        self.narrowing.forget_alike()
        self._grown = True

    def suspend_reclaim(self) -> None:
        """Reclaim nothing until `resume_reclaim`: pods that leave meanwhile come back as they were."""
        self._is_held = True
        self.narrowing.hold_kinds()

    def resume_reclaim(self) -> None:
        """Reclaim again."""
        self._is_held = False
        self.narrowing.let_go()

    def update(self, entry: PodInfo, before: ObservedPod) -> None:
        """The pod's claims or holdings changed, or it started to terminate; its shape did not change."""
        if entry.seen.holds not in (before.holds, NO_HOLDINGS):
            self.narrowing.set_holdings(entry.number, entry.seen.holds)
        if entry.seen.volumes != before.volumes:
            self.narrowing.update_volumes(entry.number, entry.seen.volumes)
        if entry.seen.terminating and not before.terminating:
            self.narrowing.set_terminating(entry.number)
            self.stirred.add(entry.node)
        self.pods.update(entry)
        for call in entry.calls.pod_updated:
            call(entry)

    def assign(self, entry: PodInfo, name: str) -> None:
        """Assign a pod to a node, known or not. Raises `Permanent` if it is assigned already."""
        if entry.node:
            raise Permanent(f"pod {entry.seen.pod.key} is already assigned to node {entry.node}")
        if entry.seen.uid in self.reserved:
            self.release(entry)
        entry.node = name
        self.stirred.add(name)
        self.residents.setdefault(name, {})[entry.seen.uid] = entry
        entry.wanted = self.encoder.node_rows.get(name, -1)
        self._moved[id(entry)] = entry
        for call in entry.calls.reserve:
            call(entry, entry.node)

    def unassign(self, entry: PodInfo) -> None:
        """Unassign a pod; no effect if it is not assigned."""
        if not entry.node:
            return
        here = self.residents[entry.node]
        self.stirred.add(entry.node)
        del here[entry.seen.uid]
        if not here:
            del self.residents[entry.node]
        for call in entry.calls.unreserve:
            call(entry)
        entry.node = ""
        entry.wanted = -1
        self._moved[id(entry)] = entry

    def note_placed(self, entry: PodInfo, row: int) -> None:
        """Record the assignment of a pod that the placement has already added to the ledger and the narrowing."""
        entry.node = self.names[row]
        self.stirred.add(entry.node)
        entry.row = entry.wanted = row
        self.residents.setdefault(entry.node, {})[entry.seen.uid] = entry
        entry.holds = self.narrowing.holdings(entry.number)
        for call in entry.calls.reserve:
            call(entry, entry.node)

    # ---- resources reserved for nominated pods

    def reserve(self, entry: PodInfo, name: str) -> bool:
        """Reserve resources for a nominated pod: its requests count on the node. False if the node is unknown, or
        the pod is assigned or has reserved already.
        """
        row = self.encoder.node_rows.get(name)
        if row is None or entry.node or entry.seen.uid in self.reserved:
            return False
        self.write()
        self._place(entry, row)
        entry.row = entry.wanted = row
        self.reserved[entry.seen.uid] = entry
        return True

    def release(self, entry: PodInfo, freed: bool = True) -> None:
        """Release a pod's reserved resources. `freed` False = only for a moment, so pending pods need not be tried
        again.
        """
        del self.reserved[entry.seen.uid]
        self._adopt()
        self.ledger.remove(np.array([entry.number]))
        self.verdict_cache.changed(entry.row)
        if freed:
            self.changed.add(entry.row)
        entry.row = entry.wanted = -1

    def suspend(self, entries: Iterable[PodInfo]) -> None:
        """Hide these reserved resources from an evaluation, until `resume`."""
        self._adopt()
        hidden = list(entries)
        self.ledger.remove(_column(entry.number for entry in hidden))
        self.verdict_cache.changed(_column(entry.row for entry in hidden))

    def resume(self, entries: Iterable[PodInfo]) -> None:
        """Restore reserved resources after `suspend`."""
        for entry in entries:
            self._place(entry, entry.row)

    def _place(self, entry: PodInfo, row: int) -> None:
        self._adopt()
        self.ledger.place(np.array([entry.number]), np.array([row]), np.array([entry.shape]))
        self.verdict_cache.changed(row)

    def _adopt(self) -> None:
        if self._grown or self._adopted_shapes != self.encoder.shapes_written:
            self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), self.encoder.tenant_rows)
            self._grown = False
            self._adopted_shapes = self.encoder.shapes_written
        if self._counted_requests != self.encoder.requests_revision:
            self._counted_requests = self.encoder.requests_revision
            self.ledger.recount()

    # ---- arrays

    def write(self) -> None:
        """Write pending changes of assignments to the arrays."""
        self._reclaim()
        self._adopt()
        self.verdict_cache.resize(len(self.ledger.nodes.ready))
        if self._sizes_changed:
            self._sizes_changed = False
            self._resize_half_node()
        self._offer_again()
        if not self._moved:
            return
        moved = [entry for entry in self._moved.values() if entry.row != entry.wanted]
        self._moved.clear()
        leaving = [entry for entry in moved if entry.row >= 0]
        if leaving:
            self.ledger.remove(_column(entry.number for entry in leaving))
            self._stale(_column(entry.row for entry in leaving))
            for entry in leaving:
                self.narrowing.unassign(entry.number)
                self.changed.add(entry.row)
                entry.row = -1
            for entry in self._removed:
                self._forget(entry)
            self._removed.clear()
        self._reclaim()
        self._adopt()
        coming = [entry for entry in moved if entry.wanted >= 0]
        if coming:
            self.ledger.place(
                _column(entry.number for entry in coming),
                _column(entry.wanted for entry in coming),
                _column(entry.shape for entry in coming),
            )
            self._stale(_column(entry.wanted for entry in coming))
            for entry in coming:
                self.narrowing.assign(entry.number, entry.wanted)
                entry.row = entry.wanted

    def _stale(self, rows: Int) -> None:
        """Verdicts of these rows are not current; that of a closed one stays as it is until it is opened."""
        if self.encoder.closed:
            rows = rows[~self.encoder.closed_rows()[rows]]
        self.verdict_cache.changed(rows)

    def _offer_again(self) -> None:
        """Offer all pods to node rules that now apply to more of them."""
        for rule in self.narrowing.widened():
            for number, entry in enumerate(self.pods.by_number):
                if entry.number == number:
                    seen = entry.seen
                    holds = seen.holds if seen.holds != NO_HOLDINGS else entry.holds
                    self.narrowing.offer(rule, number, seen.pod, seen.demands, holds)

    def _resize_half_node(self) -> None:
        """Set the unit of own pressure to half of the median node again, after nodes were added, resized or removed."""
        cpu = (self.ledger.nodes.capacity[:, CPU] + self.encoder.withheld_m())[sorted(self.encoder.node_rows.values())]
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
        """Count assigned pods with the current sums of their shapes; the rows that change are evaluated again."""
        rows = self.ledger.revise()
        self.verdict_cache.changed(rows)
        self.changed.update(rows.tolist())

    def correct_waiting(self, shapes: Set[int], now_s: float, slack: bool, use: bool) -> None:
        """Update the estimates of pending shapes before they are evaluated."""
        changed = self.estimates.correct_waiting(shapes, now_s, slack, use)
        if len(changed):
            self.verdict_cache.forget_shapes(changed)

    def validate(self) -> None:
        """Check that the arrays agree with the assignments by name. Raises `Permanent`."""
        self.write()
        self.ledger.validate()
        for rule in self.narrowing.node_rules:
            rule.validate()
        check_residents(self.residents, self.reserved.values(), self.encoder.node_rows, self.ledger)

    def on_nodes(self, numbers: Int) -> Mask:
        """Which of these numbers, -1 for none, belong to assigned pods. The arrays must be up to date."""
        row = self.ledger.row
        inside = (numbers >= 0) & (numbers < len(row))
        return inside & (row[np.where(inside, numbers, 0)] >= 0) if len(row) else inside

    def over_capacity(self) -> tuple[str, ...]:
        """Nodes whose pods request more than the capacity, without resources reserved for nominated pods."""
        self.write()
        return tuple(self.names[row] for row in rows_over_capacity(self.reserved.values(), self.ledger))


def _column(values: Iterable[int]) -> Int:
    return np.fromiter(values, dtype=np.int64)
