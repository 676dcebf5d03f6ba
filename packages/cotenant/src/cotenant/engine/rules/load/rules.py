"""Load-aware placement: which nodes use too much or will soon, and which use the least.

A node's use is reported once a minute, by an object that may be late, absent or wrong, while pods are placed by the
thousand; and the rule applies to every pod, so nothing may be computed per node and pod. Facts by node name; rows of
room and use that follow them (engine/rules/load/rows.py); a pod counts by its estimate from its placement until a
metric includes it. Off unless it has settings. Pods of a DaemonSet are not filtered, but they count.
Limits: no preemption for load: evicting a pod does not lower a metric at once; a pod that fits by its estimate may use
more. Which figures count for a node: policy/placement/load_aware/standing.py.

Source: Koordinator, the load-aware scheduling plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf, isnan, nan, nextafter

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.rules.load.annotations import LoadAnnotations
from cotenant.engine.rules.load.load_view import LoadView, figures, view
from cotenant.engine.rules.load.rows import PROD, LoadAsk, LoadRows
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.placement.load_aware.estimate import class_of, estimate
from cotenant.policy.placement.load_aware.filtering import REASON_CPU, REASON_EXPIRED, REASON_MEMORY, is_filtered
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.load_aware.standing import LoadFacts, LoadSource, LoadStanding, standing
from cotenant.policy.placement.load_aware.usage import Resident
from cotenant.policy.placement.preference import PreferencePart

NAME = "LoadAwareScheduling"

_MAX_REMEMBERED = 4096
_SAME_S = 0.5  # a metric whose time differs by less is the previous metric


@dataclass(slots=True, eq=False)
class _Pod:
    """A watched pod. `since_s` is kept while it is unassigned, so that assigning it again restores its state."""

    key: str
    ask: LoadAsk
    is_filtered: bool
    started_s: float = nan  # from its status
    since_s: float = nan
    row: int = -1
    last_row: int = -1

    def resident(self) -> Resident:
        return Resident(self.key, self.ask.estimate, self.since_s, self.ask.is_prod)


class LoadAware:
    """The load rule (`NodeRules`). Times are on the engine's clock."""

    name = NAME

    def __init__(self, settings: LoadAwareSettings | None = None) -> None:
        """Without settings it is off: no state is kept and no pod is watched."""
        self.settings = settings or LoadAwareSettings()
        self.is_on = settings is not None
        self.counts: dict[str, int] = {}  # inconsistencies, by name
        self.opened: Callable[[], None] = lambda: None  # called when a node may take more than before
        self._facts: dict[str, LoadFacts] = {}  # by node's name
        self._now_s = -inf
        self._annotations = LoadAnnotations(self.counts)
        self._estimates: dict[Hashable, LoadAsk] = {}
        self.attach(Encoder(1.0))

    def capture(self) -> Callable[[], LoadAware]:
        """A maker of the same rule with the same figures and no pods, for a copy of the engine; it reads nothing of
        this one later.
        """
        settings, facts, now_s = self.settings if self.is_on else None, dict(self._facts), self._now_s

        def make() -> LoadAware:
            made = LoadAware(settings)
            made._facts, made._now_s = facts.copy(), now_s
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`: the clock, and since when pods are where they are."""
        memento = Memento((self, *self._pods.values()))

        def put_back() -> None:
            now_s, touched = self._now_s, self._stale.copy()
            memento.restore()
            self._stale.update(touched if now_s == self._now_s else range(len(self._names)))

        return put_back

    # ---- facts about nodes

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """Record a node's metric; repeating the same metric only updates its age."""
        self.at(now_s)
        facts = self._facts.get(metric.node, LoadFacts())
        updated_s = nan if metric.is_empty else self._now_s - metric.age_s
        history = facts.history
        forecast = self.settings.forecast
        if (
            forecast is not None
            and metric.use is not None
            and not isnan(updated_s)
            and not updated_s <= facts.updated_s + _SAME_S
        ):
            history = history.with_use(metric.use, updated_s, forecast)
        self._set_facts(metric.node, replace(facts, metric=metric, updated_s=updated_s, history=history))

    def metric_gone(self, node: str, now_s: float) -> None:
        """The node's metric was deleted, or cannot be read."""
        self.at(now_s)
        facts = self._facts.get(node)
        if facts is not None:
            self._set_facts(node, replace(facts, metric=None, updated_s=nan))

    def report_seen(self, report: NodeReport, now_s: float) -> None:
        """Record a report of the node's agent: used where there is no valid metric."""
        if not self.is_on:
            return
        self.at(now_s)
        facts = self._facts.get(report.node, LoadFacts())
        use = Use(round(report.cpu_used * 1000.0), round(report.memory_used))
        reported_s = min(report.at_s, self._now_s)
        history = facts.history
        forecast = self.settings.forecast
        if forecast is not None and facts.metric is None:
            history = history.with_use(use, reported_s, forecast)
        as_metric = NodeMetric(report.node, max(0.0, self._now_s - reported_s), use=use, pods=None)
        self._set_facts(report.node, replace(facts, report=as_metric, reported_s=reported_s, history=history))

    def at(self, now_s: float) -> None:
        """Advance the clock, which never goes back. Figures that have expired no longer count."""
        self._now_s = max(self._now_s, now_s)
        opened = False
        while self._due and self._due[0][0] <= self._now_s:
            _, row = heappop(self._due)
            if self._due_s[row] <= self._now_s:
                opened |= self._renew_row(row)
        if opened:
            self.opened()

    def next_s(self) -> float:
        """When a node may next take more than before without any event; inf for never."""
        waits = self.settings.schedule_when_expired or self.settings.expects_s > 0
        return self._due[0][0] if waits and self._due else inf

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no pods; facts about nodes stay."""
        self._encoder = encoder
        self._revision = 0
        self._rows = LoadRows(self.settings)
        self._names: list[str] = []  # row -> node's name
        self._stale: set[int] = set()
        self._due: list[tuple[float, int]] = []
        self._due_s: list[float] = []
        self._pods: dict[int, _Pod] = {}
        self._here: dict[int, dict[int, _Pod]] = {}  # row -> number -> pod

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Every pod is watched while the rule is on."""
        if not self.is_on:
            return False
        self._pods[number] = _Pod(pod.key, self.ask_of(pod), is_filtered(pod))
        return True

    def started(self, number: int, started_s: float) -> None:
        """Set the start time of a watched pod, from its status; NaN = not known."""
        pod = self._pods.get(number)
        if pod is not None:
            pod.started_s = started_s

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Pods hold nothing of this rule."""

    def rules(self, number: int) -> Iterator[RuleResult]:
        """The rows that fit the pod's estimate, by reason."""
        pod = self._pods[number]
        if not pod.is_filtered:
            return
        self.renew()
        rows = self._rows
        cpu, memory = rows.masks(pod.ask)
        if rows.closed.any():
            yield RuleResult(NAME, REASON_EXPIRED, ~rows.closed, False)
        for resource, reason, left in ((CPU_NAME, REASON_CPU, cpu), (MEMORY_NAME, REASON_MEMORY, memory)):
            if not left.all():
                yield RuleResult(NAME, reason, left.copy(), False, _Nearest(self, pod.ask, resource))

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """Prefer rows with lower use."""
        if not self.settings.score_weight:
            return ()
        self.renew()
        return (PreferencePart("load", self.settings.score_weight * self._rows.scores(self._pods[number].ask)[rows]),)

    def allocate(self, number: int, row: int) -> None:
        """The pod was placed on the row just now, so no metric includes it yet."""
        self.renew()
        pod = self._pods[number]
        pod.since_s = max(self._now_s, nextafter(self._rows.updated_s[row], inf))
        self._put(number, pod, row)
        if row not in self._stale:
            self._rows.place(row, pod.ask)

    def assign(self, number: int, row: int) -> None:
        """The pod is assigned to the row, since its start or since it was first seen."""
        pod = self._pods[number]
        if row != pod.last_row or isnan(pod.since_s):
            pod.since_s = self._now_s if isnan(pod.started_s) else pod.started_s
        self._put(number, pod, row)
        self._stale.add(row)

    def unassign(self, number: int) -> None:
        """Unassign the pod; the metric reflects it later."""
        pod = self._pods[number]
        del self._here[pod.row][number]
        self._stale.add(pod.row)
        pod.row = -1

    def remove_pod(self, number: int) -> None:
        """The pod has left the cluster."""
        del self._pods[number]

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """Unchanged: pods hold nothing of this rule."""
        return holds

    def validate(self) -> None:
        """Check that every row equals its recomputed value. Raises `Permanent`."""
        self.renew()
        fresh = LoadRows(self.settings)
        fresh.grow(len(self._rows.closed))
        for row in range(len(self._names)):
            fresh.write(row, self._standing(row))
        for kept, anew, what in (
            (self._rows.room, fresh.room, "room"),
            (self._rows.total, fresh.total, "use"),
        ):
            wrong = np.argwhere(kept != anew)
            if len(wrong):
                side, row, resource = wrong[0].tolist()
                raise Permanent(
                    f"the {what} of node {self._names[row] or row} is stored as {kept[side, row, resource]}, but "
                    f"should be {anew[side, row, resource]}"
                )
        if (self._rows.closed != fresh.closed).any() or (self._rows.scored != fresh.scored).any():
            raise Permanent("the stored closed or scored flag of a node is wrong")
        assigned = {number: pod.row for number, pod in self._pods.items() if pod.row >= 0}
        if assigned != {number: row for row, pods in self._here.items() for number in pods}:
            raise Permanent("the rows of pods and the pods of rows disagree")

    # ---- runs of equal pods (engine/state/narrowing.py)

    def alike(self, number: int) -> Hashable:
        """Pods with equal values take the same of every row, one after the other; None for a pod that is judged
        alone.
        """
        pod = self._pods[number]
        return pod.ask if pod.is_filtered and not self.settings.score_weight else None

    def times(self, number: int) -> Int:
        """How many pods like this one each row can take."""
        self.renew()
        return self._rows.times(self._pods[number].ask)

    def ask_of(self, pod: Pod) -> LoadAsk:
        """The pod's expected use, and whether it is judged as production."""
        key = (pod.requests, pod.limits, pod.priority_class, pod.qos)
        found = self._estimates.get(key)
        if found is None:
            its = class_of(pod.priority_class, pod.qos, pod.requests, pod.limits)
            if len(self._estimates) >= _MAX_REMEMBERED:
                self._estimates.clear()
            found = self._estimates[key] = LoadAsk(
                estimate(pod.requests, pod.limits, its, self.settings), its is PriorityClass.PROD
            )
        return found

    # ---- queries

    def sources(self) -> dict[str, int]:
        """Number of nodes by the source of their figures."""
        found = {source.value: 0 for source in LoadSource}
        for source in self._rows.sources:
            if source is not None:
                found[source.value] += 1
        return found

    def numbers(self) -> frozenset[int]:
        """Numbers of the watched pods."""
        return frozenset(self._pods)

    def describe(self, node: str) -> LoadView | None:
        """A node's load for display; None for an unknown node, or where the rule is off."""
        row = self._encoder.node_rows.get(node)
        if not self.is_on or row is None:
            return None
        self.renew()
        state = self._standing(row)
        return None if state is None else view(node, state, len(self._here.get(row, ())))

    def nearest(self, ask: LoadAsk, resource: str, among: Int) -> str:
        """Figures of the row, of `among`, with the smallest shortage of a resource."""
        column = 0 if resource == CPU_NAME else 1
        short = ask.estimate[column] - self._rows.room[ask.side, among, column]
        row = int(among[int(short.argmin())])
        state = self._standing(row)
        if state is None:
            return ""
        return figures(self._names[row], state, state.prod if ask.side == PROD else state.usual, ask.estimate, resource)

    # ---- rows

    def renew(self) -> None:
        """Bring the rows up to date with nodes and residents."""
        encoder = self._encoder
        if encoder.revision != self._revision:
            self._stale.update(encoder.changed_since(self._revision))
            self._revision = encoder.revision
            size = encoder.all_rows
            self._rows.grow(size)
            self._names += [""] * (size - len(self._names))
            self._due_s += [inf] * (size - len(self._due_s))
        while self._stale:
            self._renew_row(self._stale.pop())

    def _renew_row(self, row: int) -> bool:
        state = self._standing(row)
        self._due_s[row] = inf if state is None else state.due_s
        if state is not None and state.due_s < inf:
            heappush(self._due, (state.due_s, row))
            if len(self._due) > 4 * len(self._names) + 1024:
                self._due = sorted((due_s, at) for at, due_s in enumerate(self._due_s) if due_s < inf)
        self._stale.discard(row)
        return self._rows.write(row, state)

    def _standing(self, row: int) -> LoadStanding | None:
        try:
            node = self._encoder.node(row)
        except InvalidInput:
            self._names[row] = ""
            return None
        self._names[row] = node.name
        own, raw = self._annotations.of(node)
        size = raw or Use(node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME))
        residents = [pod.resident() for pod in self._here.get(row, {}).values()]
        return standing(size, own, self._facts.get(node.name, LoadFacts()), residents, self.settings, self._now_s)

    def _set_facts(self, node: str, facts: LoadFacts) -> None:
        if facts == LoadFacts(history=facts.history):
            self._facts.pop(node, None)
        else:
            self._facts[node] = facts
        row = self._encoder.node_rows.get(node)
        if row is None:
            return
        self.renew()
        if self._renew_row(row):
            self.opened()

    def _put(self, number: int, pod: _Pod, row: int) -> None:
        pod.row = pod.last_row = row
        self._here.setdefault(row, {})[number] = pod


@dataclass(frozen=True, slots=True)
class _Nearest:
    """Formats the figures of the row with the smallest shortage, on request."""

    rules: LoadAware
    ask: LoadAsk
    resource: str

    def __call__(self, rows: Mask) -> str:
        return self.rules.nearest(self.ask, self.resource, np.flatnonzero(rows))
