"""Load-aware placement: which nodes use too much, or soon will, and which use least.

Problem: what a node uses is told once a minute, by an object that may be late, absent or wrong, while pods are placed by the thousand; and every pod is concerned, so nothing
may be asked of every node for every pod. Choice: facts by node's name; rows of room and use that follow them (engine/rules/load/rows.py); a pod counts by its estimate from the moment
it is placed until a metric knows it. Off unless it has settings. Pods that are made for one node (a DaemonSet's) are not filtered, but they count.
Limits: the filter does not ask for preemption: evicting a pod lowers no metric; one that fits by its estimate may use more. What is held against a node:
policy/placement/load_aware/standing.py.

Source: Koordinator, the load-aware scheduling plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf, isnan, nan, nextafter

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import Rule
from cotenant.engine.rules.load.rows import PROD, Ask, LoadRows
from cotenant.engine.rules.load.views import LoadView, figures, view
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.annotations import RAW_ALLOCATABLE, USAGE_THRESHOLDS
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.qos import PriorityClass
from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.policy.placement.load_aware.custom import node_thresholds, raw_allocatable
from cotenant.policy.placement.load_aware.estimate import class_of, estimate
from cotenant.policy.placement.load_aware.filtering import REASON_CPU, REASON_EXPIRED, REASON_MEMORY
from cotenant.policy.placement.load_aware.settings import NO_THRESHOLDS, LoadAwareSettings, NodeThresholds
from cotenant.policy.placement.load_aware.standing import Facts, Source, Standing, standing
from cotenant.policy.placement.load_aware.usage import Resident
from cotenant.policy.placement.preference import Part

NAME = "LoadAwareScheduling"

_MOST_REMEMBERED = 4096
_SAME_S = 0.5  # a metric whose time differs by less is the one that was there before


@dataclass(slots=True, eq=False)
class _Pod:
    """A watched pod. `since_s` is kept while it is away, so that a seat given back is the same seat."""

    key: str
    ask: Ask
    is_bound: bool  # made for one node
    started_s: float = nan  # as told
    since_s: float = nan
    row: int = -1
    last_row: int = -1

    def resident(self) -> Resident:
        return Resident(self.key, self.ask.estimate, self.since_s, self.ask.is_prod)


class LoadAware:
    """The keeper of loads (`NodeRules`). Times are those of the engine's clock."""

    name = NAME

    def __init__(self, settings: LoadAwareSettings | None = None) -> None:
        """Without settings it is off: nothing is kept, no pod is concerned."""
        self.settings = settings or LoadAwareSettings()
        self.is_on = settings is not None
        self.counts: dict[str, int] = {}  # what was odd, by name
        self.helped: Callable[[], None] = lambda: None  # called when some node may take more than before
        self._facts: dict[str, Facts] = {}  # by node's name
        self._now_s = -inf
        self._annotations: dict[tuple[str | None, str | None], tuple[NodeThresholds, Use | None]] = {}
        self._estimates: dict[Hashable, Ask] = {}
        self.attach(Encoder(1.0))

    # ---- what was told

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """A node's metric as the API server has it now; the same one again changes nothing but its age."""
        self.at(now_s)
        facts = self._facts.get(metric.node, Facts())
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
        self._tell(metric.node, replace(facts, metric=metric, updated_s=updated_s, history=history))

    def metric_gone(self, node: str, now_s: float) -> None:
        """There is no metric of this node, or it cannot be read."""
        self.at(now_s)
        facts = self._facts.get(node)
        if facts is not None:
            self._tell(node, replace(facts, metric=None, updated_s=nan))

    def report_seen(self, report: NodeReport, now_s: float) -> None:
        """A node's agent reported to us directly: it counts where there is no metric that does."""
        if not self.is_on:
            return
        self.at(now_s)
        facts = self._facts.get(report.node, Facts())
        use = Use(round(report.cpu_used * 1000.0), round(report.memory_used))
        told_s = min(report.at_s, self._now_s)
        history = facts.history
        forecast = self.settings.forecast
        if forecast is not None and facts.metric is None:
            history = history.with_use(use, told_s, forecast)
        told = NodeMetric(report.node, max(0.0, self._now_s - told_s), use=use, pods=None)
        self._tell(report.node, replace(facts, report=told, reported_s=told_s, history=history))

    def at(self, now_s: float) -> None:
        """The time. It never goes back; figures that have grown too old meanwhile count no more."""
        self._now_s = max(self._now_s, now_s)
        opened = False
        while self._due and self._due[0][0] <= self._now_s:
            _, row = heappop(self._due)
            if self._due_s[row] <= self._now_s:
                opened |= self._renew_row(row)
        if opened:
            self.helped()

    def next_s(self) -> float:
        """When a node may take more than before although nothing happens; inf for never."""
        waits = self.settings.schedule_when_expired or self.settings.expects_s > 0
        return self._due[0][0] if waits and self._due else inf

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Begin anew: no pod is known, rows are this encoder's; what nodes told stays."""
        self._encoder = encoder
        self._revision = 0
        self._rows = LoadRows(self.settings)
        self._names: list[str] = []  # row -> node's name
        self._stale: set[int] = set()
        self._due: list[tuple[float, int]] = []
        self._due_s: list[float] = []
        self._pods: dict[int, _Pod] = {}
        self._here: dict[int, dict[int, _Pod]] = {}  # row -> number -> pod

    def watch(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Every pod counts."""
        if not self.is_on:
            return False
        self._pods[number] = _Pod(pod.key, self.ask_of(pod), pod.pinned is not None)
        return True

    def started(self, number: int, started_s: float) -> None:
        """When a watched pod was started, as its status says; NaN = it does not."""
        pod = self._pods.get(number)
        if pod is not None:
            pod.started_s = started_s

    def held(self, number: int, holds: Holdings) -> None:
        """Nothing is given out here."""

    def rules(self, number: int) -> Iterator[Rule]:
        """What the pod's estimate leaves, by reason."""
        pod = self._pods[number]
        if pod.is_bound:
            return
        self.renew()
        rows = self._rows
        cpu, memory = rows.masks(pod.ask)
        if rows.closed.any():
            yield Rule(NAME, REASON_EXPIRED, ~rows.closed, False)
        for resource, reason, left in ((CPU_NAME, REASON_CPU, cpu), (MEMORY_NAME, REASON_MEMORY, memory)):
            if not left.all():
                yield Rule(NAME, reason, left.copy(), False, _Nearest(self, pod.ask, resource))

    def wishes(self, number: int, rows: Int) -> tuple[Part, ...]:
        """The less a row uses, the better."""
        if not self.settings.score_weight:
            return ()
        self.renew()
        return (Part("load", self.settings.score_weight * self._rows.scores(self._pods[number].ask)[rows]),)

    def choose(self, number: int, row: int) -> None:
        """It was placed there now: no metric can know it yet."""
        self.renew()
        pod = self._pods[number]
        pod.since_s = max(self._now_s, nextafter(self._rows.updated_s[row], inf))
        self._put(number, pod, row)
        if row not in self._stale:
            self._rows.place(row, pod.ask)

    def assign(self, number: int, row: int) -> None:
        """It sits there, since it was started, or was seen for the first time."""
        pod = self._pods[number]
        if row != pod.last_row or isnan(pod.since_s):
            pod.since_s = self._now_s if isnan(pod.started_s) else pod.started_s
        self._put(number, pod, row)
        self._stale.add(row)

    def leave(self, number: int) -> None:
        """It left; the metric knows that later."""
        pod = self._pods[number]
        del self._here[pod.row][number]
        self._stale.add(pod.row)
        pod.row = -1

    def forget(self, number: int) -> None:
        """It is gone."""
        del self._pods[number]

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """Nothing is given out here."""
        return holds

    def validate(self) -> None:
        """Every row is what it would be if it were written now. Raises `Permanent`."""
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
                    f"the {what} of node {self._names[row] or row} is kept as {kept[side, row, resource]}, and is {anew[side, row, resource]}"
                )
        if (self._rows.closed != fresh.closed).any() or (self._rows.scored != fresh.scored).any():
            raise Permanent("a node is kept as open or scored, and is not")
        seated = {number: pod.row for number, pod in self._pods.items() if pod.row >= 0}
        if seated != {number: row for row, pods in self._here.items() for number in pods}:
            raise Permanent("pods' rows and rows' pods disagree")

    # ---- a run of pods that are alike (engine/state/narrowing.py)

    def alike(self, number: int) -> Hashable:
        """Pods of one value take the same of every row, one after the other; None for a pod that is judged by itself."""
        pod = self._pods[number]
        return None if pod.is_bound or self.settings.score_weight else pod.ask

    def times(self, number: int) -> Int:
        """How many pods like this one each row takes."""
        self.renew()
        return self._rows.times(self._pods[number].ask)

    def ask_of(self, pod: Pod) -> Ask:
        """What a pod is expected to use, and as what it is judged."""
        key = (pod.requests, pod.limits, pod.priority_class, pod.qos)
        found = self._estimates.get(key)
        if found is None:
            its = class_of(pod.priority_class, pod.qos, pod.requests, pod.limits)
            if len(self._estimates) >= _MOST_REMEMBERED:
                self._estimates.clear()
            found = self._estimates[key] = Ask(
                estimate(pod.requests, pod.limits, its, self.settings), its is PriorityClass.PROD
            )
        return found

    # ---- questions

    def sources(self) -> dict[str, int]:
        """Nodes by whose figures count."""
        found = {source.value: 0 for source in Source}
        for source in self._rows.sources:
            if source is not None:
                found[source.value] += 1
        return found

    def numbers(self) -> frozenset[int]:
        """The pods that are watched."""
        return frozenset(self._pods)

    def describe(self, node: str) -> LoadView | None:
        """How a node stands now, for people; None for one that is not there, or where this is off."""
        row = self._encoder.node_rows.get(node)
        if not self.is_on or row is None:
            return None
        self.renew()
        told = self._standing(row)
        return None if told is None else view(node, told, len(self._here.get(row, ())))

    def nearest(self, ask: Ask, resource: str, among: Int) -> str:
        """The figures of the row, of these, that lacks least of a resource."""
        column = 0 if resource == CPU_NAME else 1
        short = ask.estimate[column] - self._rows.room[ask.side, among, column]
        row = int(among[int(short.argmin())])
        told = self._standing(row)
        if told is None:
            return ""
        return figures(self._names[row], told, told.prod if ask.side == PROD else told.usual, ask.estimate, resource)

    # ---- rows

    def renew(self) -> None:
        """Bring the rows up to date with nodes and residents."""
        encoder = self._encoder
        if encoder.revision != self._revision:
            self._stale.update(encoder.changed_since(self._revision))
            self._revision = encoder.revision
            size = len(encoder.nodes().ready)
            self._rows.grow(size)
            self._names += [""] * (size - len(self._names))
            self._due_s += [inf] * (size - len(self._due_s))
        while self._stale:
            self._renew_row(self._stale.pop())

    def _renew_row(self, row: int) -> bool:
        told = self._standing(row)
        self._due_s[row] = inf if told is None else told.due_s
        if told is not None and told.due_s < inf:
            heappush(self._due, (told.due_s, row))
            if len(self._due) > 4 * len(self._names) + 1024:
                self._due = sorted((due_s, at) for at, due_s in enumerate(self._due_s) if due_s < inf)
        self._stale.discard(row)
        return self._rows.write(row, told)

    def _standing(self, row: int) -> Standing | None:
        try:
            node = self._encoder.node(row)
        except InvalidInput:
            self._names[row] = ""
            return None
        self._names[row] = node.name
        own, raw = self._own(node)
        size = raw or Use(node.allocatable.get(CPU_NAME), node.allocatable.get(MEMORY_NAME))
        residents = [pod.resident() for pod in self._here.get(row, {}).values()]
        return standing(size, own, self._facts.get(node.name, Facts()), residents, self.settings, self._now_s)

    def _own(self, node: Node) -> tuple[NodeThresholds, Use | None]:
        """What the node's annotations say; what cannot be read of them is counted, and the cluster's stands."""
        if not node.annotations:
            return NO_THRESHOLDS, None
        key = node.annotations.get(USAGE_THRESHOLDS), node.annotations.get(RAW_ALLOCATABLE)
        found = self._annotations.get(key)
        if found is None:
            own, raw = NO_THRESHOLDS, None
            try:
                own = node_thresholds(key[0]) if key[0] is not None else own
                raw = raw_allocatable(key[1]) if key[1] is not None else raw
            except InvalidInput as error:
                self._count(f"{error.field} cannot be read")
            if len(self._annotations) >= _MOST_REMEMBERED:
                self._annotations.clear()
            found = self._annotations[key] = own, raw
        return found

    def _tell(self, node: str, facts: Facts) -> None:
        if facts == Facts(history=facts.history):
            self._facts.pop(node, None)
        else:
            self._facts[node] = facts
        row = self._encoder.node_rows.get(node)
        if row is None:
            return
        self.renew()
        if self._renew_row(row):
            self.helped()

    def _put(self, number: int, pod: _Pod, row: int) -> None:
        pod.row = pod.last_row = row
        self._here.setdefault(row, {})[number] = pod

    def _count(self, what: str) -> None:
        if what in self.counts or len(self.counts) < 100:
            self.counts[what] = self.counts.get(what, 0) + 1


@dataclass(frozen=True, slots=True)
class _Nearest:
    """Says the figures of the row that lacks least, when somebody asks."""

    keeper: LoadAware
    ask: Ask
    resource: str

    def __call__(self, rows: Mask) -> str:
        return self.keeper.nearest(self.ask, self.resource, np.flatnonzero(rows))
