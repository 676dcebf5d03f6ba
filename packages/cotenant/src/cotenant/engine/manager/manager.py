"""The manager: nodes, pods, measurements and the ConfigMap in; writes of amounts, NodeSLOs and metric policies out.

Amounts follow every measurement of every node, and must be written rarely, survive a restart and a bad ConfigMap, and
be withdrawn when measurements stop. Events mark nodes as dirty; `decide` computes those and returns only what differs
enough from what the watch shows on the node. A write that the watch does not show within a while is issued again, so a
lost write heals. Nothing that cannot be rebuilt from watches and node annotations is kept, apart from the history of
the peak policy, which starts from the annotation's reserve. A measurement counts as fresh when its update time changes
while this process looks on, whatever the agent's clock says; only the first sight of a measurement relies on both
clocks, and one that is too old then withdraws nothing until it was watched for longer than agents report.
Limits: single-threaded; times are of one clock that does not jump.
Source: Koordinator, pkg/slo-controller (noderesource, nodeslo, nodemetric controllers).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from math import inf, isnan, nan

from cotenant.engine.autonomy.permissions import Permissions
from cotenant.engine.manager.active_pods import active_pod
from cotenant.engine.manager.collecting import collect_policy
from cotenant.engine.manager.consistency import check
from cotenant.engine.manager.explanation import OfferExplanation
from cotenant.engine.manager.instructions import (
    Instruction,
    NodeObjectKind,
    WriteAmounts,
)
from cotenant.engine.manager.lending import Lending, annotation_of, not_raised, peak_resources, targets
from cotenant.engine.manager.pools import PoolLedger
from cotenant.engine.manager.record import UNKNOWN, Computed, NodeRecord, ZoneRecord
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.engine.manager.spec_writes import SpecWrites
from cotenant.engine.manager.zone_writes import ZoneWrites
from cotenant.model.autonomy.autonomy import Action, Autonomy
from cotenant.model.cluster.managed import ManagedNode
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.machine.zones import NodeZones
from cotenant.policy.overcommit.configuration import ColocationState, colocation_read
from cotenant.policy.overcommit.node_slo import DEFAULT_CONFIG, read_slo_config, render
from cotenant.policy.overcommit.strategy import DEFAULTS, ColocationStrategy, is_enabled, merge, strategy_of
from cotenant.policy.overcommit.writing import status_is_due

_SLO, _METRIC = NodeObjectKind.NODE_SLO, NodeObjectKind.NODE_METRIC


class Manager:
    """Events correct facts; `decide` returns instructions. Times are seconds of one steady clock."""

    def __init__(self, settings: ManagerSettings | None = None) -> None:
        self.settings = settings or ManagerSettings()
        self.lending = Lending(self.settings)
        self.permissions = Permissions()
        self.pools = PoolLedger(lambda: self._nodes.values(), self.permissions, self.settings.confirm_s)
        self._spec_writes = SpecWrites(self.settings.confirm_s, self._later)
        self._zone_writes = ZoneWrites(self.settings.confirm_s, self._later)
        self.colocation = ColocationState()
        self.slo = DEFAULT_CONFIG
        self.counts: dict[str, int] = {}
        self._nodes: dict[str, NodeRecord] = {}
        self._node_of: dict[str, str] = {}  # by pod UID
        self._dirty: set[str] = set()
        self._timers: list[tuple[float, str]] = []
        self.has_config = False

    # ---- events

    def config_seen(self, data: Mapping[str, str] | None) -> None:
        """The ConfigMap's data; None = there is none. What cannot be read leaves the last good configuration in
        force.
        """
        before = self.colocation
        self.colocation = colocation_read(data, before)
        self.pools.config_seen(self.colocation.config)
        slo = read_slo_config(data, self.slo)
        if not self.has_config or self.colocation.changed_from(before) or slo != self.slo:
            self._dirty.update(self._nodes)
        self.slo = slo
        self.has_config = True

    def autonomy_seen(self, found: Autonomy) -> None:
        """What may be done, as it is stored: a freeze holds amounts from rising."""
        self.permissions.seen(found)
        self._dirty.update(self._nodes)

    def autonomy_gone(self, name: str) -> None:
        """Deleted."""
        self.permissions.gone(name)
        self._dirty.update(self._nodes)

    def may_write(self, write: WriteAmounts, now_s: float) -> bool:
        """Whether amounts that were decided may still be written."""
        record = self._nodes.get(write.node)
        leave = self.pools.leave(record.pool, now_s) if record is not None else None
        if (leave is None or leave.lends) and not self.permissions.of(Action.LENDING, "", now_s).is_frozen:
            return True
        lent = record.node.lent if record is not None and record.node is not None else {}
        return all(amount is None or amount <= lent.get(name, 0) for name, amount in write.amounts.items())

    @property
    def config_errors(self) -> tuple[str, ...]:
        """Why keys of the ConfigMap are not in force."""
        ignored = self.colocation.config.ignored if self.colocation.config is not None else ()
        return tuple(filter(None, (self.colocation.error, *ignored, *self.slo.refused)))

    def node_seen(self, node: ManagedNode) -> None:
        """A node as it is now."""
        record = self._record(node.name)
        if record.node == node:
            return
        if record.node is not None and record.node.uid != node.uid:
            self._forget_writes(record)
        record.node = node
        if record.sent is not None and all(node.lent.get(name) == amount for name, amount in record.sent.items()):
            record.sent = None
        self._dirty.add(node.name)

    def node_gone(self, name: str) -> None:
        """The node was deleted, or cannot be read."""
        record = self._nodes.get(name)
        if record is not None:
            record.node = record.metric = None
            record.updated_s = record.seen_s = nan
            record.computed = UNKNOWN
            record.history.clear()
            self._forget_writes(record)
            self._dirty.add(name)

    def pod_seen(self, pod: ObservedPod, now_s: float) -> None:
        """A pod as it is now; one that has no node or has ended does not count."""
        counts = pod.node and pod.phase in (PodPhase.PENDING, PodPhase.RUNNING) and not pod.reservation
        before = self._node_of.get(pod.uid)
        if before is not None and before != pod.node:
            self.pod_gone(pod.uid, now_s)
        if not counts:
            self.pod_gone(pod.uid, now_s)
            return
        active = active_pod(pod)
        record = self._record(pod.node)
        if record.pods.get(pod.uid) != active:
            record.pods[pod.uid] = active
            self._node_of[pod.uid] = pod.node
            self._later(pod.node, now_s + self.settings.settle_s)

    def pod_gone(self, uid: str, now_s: float) -> None:
        """The pod was deleted, has ended or moved."""
        name = self._node_of.pop(uid, None)
        if name is not None:
            self._nodes[name].pods.pop(uid, None)
            self._later(name, now_s + self.settings.settle_s)

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """A node's measurement; the same one may be seen many times."""
        record = self._record(metric.node)
        before = record.metric
        is_same = before is not None and (
            before.updated_s == metric.updated_s or (isnan(before.updated_s) and isnan(metric.updated_s))
        )
        record.metric = metric
        if is_same:
            return
        if before is not None and not before.is_empty:
            # it changed while we looked on: it is new whatever its clock says
            record.updated_s, record.seen_s = now_s, nan
        else:
            record.updated_s, record.seen_s = now_s - metric.age_s, now_s
        if self.colocation.config is not None and record.node is not None:
            view = strategy_of(self.colocation.config, record.node.labels, record.node.annotations)
            if peak_resources(view.strategy):
                self.lending.learn(record, view, now_s)
        self.pools.measured(record, now_s)
        self._dirty.add(metric.node)

    def metric_gone(self, node: str, now_s: float) -> None:
        """The object was deleted or cannot be read: the last measurement counts until it is too old."""
        record = self._nodes.get(node)
        if record is not None:
            record.specs.pop(_METRIC, None)
            if record.node is None:
                record.metric = None
            self._later(node, now_s + self.settings.settle_s)

    def spec_seen(self, kind: NodeObjectKind, node: str, spec: Mapping[str, object] | None) -> None:
        """The spec of a node's NodeSLO, or the collect policy of its NodeMetric, as stored."""
        record = self._record(node)
        stored = dict(spec or {})
        if record.specs.get(kind) != stored:
            record.specs[kind] = stored
            record.specs_sent.pop(kind, None)
            self._dirty.add(node)

    def spec_gone(self, kind: NodeObjectKind, node: str) -> None:
        """The object was deleted."""
        record = self._nodes.get(node)
        if record is not None:
            record.specs.pop(kind, None)
            record.specs_sent.pop(kind, None)
            self._dirty.add(node)

    def zones_seen(self, zones: NodeZones) -> None:
        """The NUMA zones of a node as stored."""
        record = self._record(zones.node)
        if record.zones is None:
            record.zones = ZoneRecord(zones)
        elif record.zones.seen == zones:
            return
        record.zones.seen = zones
        self._dirty.add(zones.node)

    def zones_gone(self, node: str) -> None:
        """The NodeResourceTopology was deleted."""
        record = self._nodes.get(node)
        if record is not None:
            record.zones = None
            self._dirty.add(node)

    def leads_now(self, now_s: float) -> None:
        """This replica begins to lead: what an earlier term sent may never have been written."""
        for record in self._nodes.values():
            record.sent = None
            if record.zones is not None:
                record.zones.sent = None
            record.specs_sent.clear()
        self.pools.leads_now(now_s)
        self._dirty.update(self._nodes)

    # ---- decisions

    def next_s(self) -> float:
        """When `decide` has something to do; -inf = now, inf = not before the next event."""
        if self._dirty:
            return -inf
        return min(self._timers[0][0] if self._timers else inf, self.pools.next_s())

    def decide(self, now_s: float) -> tuple[Instruction, ...]:
        """What is to be written now."""
        while self._timers and self._timers[0][0] <= now_s:
            at_s, name = heapq.heappop(self._timers)
            timed = self._nodes.get(name)
            if timed is not None and timed.timer_s == at_s:  # others were replaced by an earlier one
                timed.timer_s = inf
                self._dirty.add(name)
        self.pools.turn(now_s)
        if self.pools.changed:
            self._dirty.update(self._nodes)
        self.pools.changed = False
        dirty, self._dirty = sorted(self._dirty), set()
        found: list[Instruction] = []
        for name in dirty:
            record = self._nodes.get(name)
            if record is None:
                continue
            if record.node is None:
                found += self._spec_writes.cleaned(record, now_s)
                if record.is_empty:
                    del self._nodes[name]
                continue
            if self.has_config:
                found += self._amounts(record, now_s)
                found += self._zone_writes.due(record, self.colocation.config, now_s)
                found += self._specs(record, now_s)
        return tuple(found) + tuple(self.pools.writes(now_s) if self.has_config else ())

    def _amounts(self, record: NodeRecord, now_s: float) -> list[Instruction]:
        config = self.colocation.config
        if config is None:  # no configuration was ever good: nothing is written and nothing withdrawn
            record.computed = Computed("unknown", self.colocation.error)
            return []
        assert record.node is not None
        computed = self.lending.compute(record, config, now_s)
        record.pool = computed.view.pool if computed.view is not None else ""
        computed = self.pools.limited(record, computed, now_s)
        allowed = self.permissions.of(Action.LENDING, "", now_s)
        if allowed.is_frozen:
            computed = not_raised(computed, record.node.lent, "frozen")
        record.computed = computed
        view = computed.view
        strategy = merge(DEFAULTS, view.strategy if view is not None else DEFAULTS)
        self._watch_age(record, strategy, now_s)
        present = record.node.lent
        wanted = targets(record)
        differing = {name: amount for name, amount in wanted.items() if present.get(name) != amount}
        if not differing:
            record.sent = None
            return []
        if record.sent == wanted and now_s - record.sent_s < self.settings.confirm_s:
            return []  # on its way
        after = {**present, **{name: amount for name, amount in wanted.items() if amount is not None}}
        after = {name: amount for name, amount in after.items() if wanted.get(name, 0) is not None}
        held = set(peak_resources(strategy)) if computed.state not in ("withdrawn", "suggested") else set()
        since_s = record.written_s if isnan(record.written_s) else now_s - record.written_s
        if not held & differing.keys() and not status_is_due(
            {name: amount for name, amount in present.items() if name not in held},
            {name: amount for name, amount in after.items() if name not in held},
            strategy.resource_diff_threshold or 0.0,
            since_s,
            float(strategy.update_time_threshold_seconds or 0),
        ):
            self._later(record.name, record.written_s + float(strategy.update_time_threshold_seconds or 0) + 1.0)
            return []
        record.sent, record.sent_s, record.written_s = wanted, now_s, now_s
        record.writes += 1
        self._later(record.name, now_s + self.settings.confirm_s)
        reason = computed.reason or "amounts changed"
        return [WriteAmounts(record.name, record.node.uid, wanted, annotation_of(computed), reason)]

    def _watch_age(self, record: NodeRecord, strategy: ColocationStrategy, now_s: float) -> None:
        """Look again when the measurement will be too old."""
        if not isnan(record.updated_s):
            too_old_s = record.updated_s + 60.0 * (strategy.degrade_time_minutes or 0) + 1.0
            if too_old_s > now_s:
                self._later(record.name, too_old_s)
            elif record.computed.state == "unknown":
                self._later(record.name, record.seen_s + self.settings.first_look_s)

    def _specs(self, record: NodeRecord, now_s: float) -> list[Instruction]:
        assert record.node is not None
        rendered = render(self.slo, record.node.labels, record.node.annotations)
        found = self._spec_writes.due(record, _SLO, rendered.spec, now_s)
        config = self.colocation.config
        if config is not None:
            strategy = strategy_of(config, record.node.labels, record.node.annotations).strategy
            policy = collect_policy(strategy if is_enabled(config, strategy) else DEFAULTS)
            found += self._spec_writes.due(record, _METRIC, policy, now_s)
        return found

    # ---- questions

    def explain(self, name: str, now_s: float) -> OfferExplanation | None:
        """Why a node offers what it offers; None where it is not known."""
        record = self._nodes.get(name)
        if record is None or record.node is None:
            return None
        view = record.computed.view
        return OfferExplanation(
            node=name,
            computed=record.computed,
            lent=record.node.lent,
            written=record.node.written,
            metric_age_s=now_s - record.updated_s,
            written_age_s=now_s - record.written_s,
            zones=record.zones,
            ignored=(*record.node.ignored, *(view.ignored if view is not None else ())),
            config_error="; ".join(self.config_errors),
        )

    def capacity_of(self, name: str) -> Use | None:
        """What a node has; None = it is not known."""
        record = self._nodes.get(name)
        return record.node.capacity if record is not None and record.node is not None else None

    def nodes(self) -> tuple[str, ...]:
        """Names of the known nodes, sorted."""
        return tuple(sorted(name for name, record in self._nodes.items() if record.node is not None))

    def totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """What is lent in all by resource, and how many nodes are in each state."""
        lent: dict[str, int] = {}
        states: dict[str, int] = {}
        for record in self._nodes.values():
            if record.node is not None:
                states[record.computed.state] = states.get(record.computed.state, 0) + 1
                for name, amount in record.node.lent.items():
                    lent[name] = lent.get(name, 0) + amount
        return lent, states

    def validate(self) -> None:
        """Raise `Inconsistent` where derived state disagrees with the facts."""
        check(self._nodes, self._node_of)

    # ---- inside

    def _record(self, name: str) -> NodeRecord:
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = NodeRecord(name)
        return found

    def _forget_writes(self, record: NodeRecord) -> None:
        record.sent = None
        record.specs_sent.clear()

    def _later(self, name: str, at_s: float) -> None:
        """Look at the node again, at the latest then."""
        record = self._nodes[name]
        if at_s < record.timer_s:
            record.timer_s = at_s
            heapq.heappush(self._timers, (at_s, name))
