"""Batch and mid pods fit a node only where its pods are predicted to use no more CPU and memory than it has.

A kubelet counts lent resources (batch-cpu and the like) apart from CPU and memory, so their sums say nothing about what
is used of the machine, and the amounts are as old as the manager's last write. Beside all requests, a pod with lent
requests needs room by predicted use: the predictions of all pods on the node, its system use and the pod's own request
at most its size. Services fit by requests alone. A pod's prediction changes when its node is measured, when that
measurement becomes stale, and when the pod is assigned; a node's sum of predictions is kept as integers (`int64[N,
2]`), so a filter is two comparisons of columns. The rule sleeps until some node offers lent resources, which is how a
scheduler knows that the cluster has a manager; then it counts all pods (`Widening`).

Which measurements count is in measurements.py. The node's size is its raw allocatable where it is amplified. Limits:
what a pod requests without history may be far from its use; nominated pods are counted by their requests of lent
resources only; a reservation counts with what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from math import nan

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.rules.use.facts import CountedPod, allocatable_use, size_of
from cotenant.engine.rules.use.measurements import NodeMeasurements
from cotenant.engine.rules.use.use_view import PodUseView, UseView, holders_of
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.annotations import LENT_TERMS
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import CPU_NAME, LENT_CPU, LENT_MEMORY, MEMORY_NAME, Amounts
from cotenant.policy.overcommit.predicted_use import LENT, PredictedUseSettings, is_lent_to, requested_use
from cotenant.policy.placement.preemption import ConstraintColumn
from cotenant.policy.placement.preference import PreferencePart

NAME = "PredictedUse"
REASON_CPU = "node(s) had insufficient cpu by predicted use"
REASON_MEMORY = "node(s) had insufficient memory by predicted use"
_RESOURCES = ((0, CPU_NAME, REASON_CPU), (1, MEMORY_NAME, REASON_MEMORY))
UNLIMITED = 1 << 60
_NOTHING_ASKED: Hashable = ()


class PredictedUse:
    """The rule (`NodeRules`). Times are on the engine's clock."""

    name = NAME

    def __init__(self, settings: PredictedUseSettings | None = None) -> None:
        """Without settings it is off."""
        self.settings = settings or PredictedUseSettings()
        self.is_on = settings is not None
        self.is_awake = False  # whether a node offers, or has offered, lent resources
        self.opened: Callable[[], None] = lambda: None  # called when a node may take more than before
        self.may_widen = False
        self._measured = NodeMeasurements(self.settings)
        self.attach(Encoder(1.0))

    def capture(self) -> Callable[[], PredictedUse]:
        """A maker of the same rule with the same measurements and no pods, for a copy of the engine; it reads
        nothing of this one later.
        """
        settings, is_on, measured = self.settings, self.is_on, self._measured.capture()

        def make() -> PredictedUse:
            made = PredictedUse(settings if is_on else None)
            made._measured = measured()
            return made

        return make

    @property
    def counts(self) -> dict[str, int]:
        """Inconsistencies, by name."""
        return self._measured.counts

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`: the clock, and what was measured of pods."""
        return Memento((self, *self._pods.values(), *self._measured.parts())).restore

    # ---- facts

    def node_seen(self, node: Node) -> None:
        """Wake when a node offers lent resources."""
        if self.is_on and not self.is_awake and any(node.allocatable.get(name) > 0 for name in LENT):
            self.is_awake = self.may_widen = True

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """Count a node's measurement; the same measurement again changes nothing."""
        if not self.is_on:
            return
        self.at(now_s)
        if metric.is_empty:
            self.metric_gone(metric.node, now_s)
        elif self._measured.seen(metric):
            self._recount(metric.node)

    def metric_gone(self, node: str, now_s: float) -> None:
        """The node's measurement was deleted, or cannot be read: its pods count by requests."""
        self.at(now_s)
        if self._measured.gone(node):
            self._recount(node)

    def at(self, now_s: float) -> None:
        """Advance the clock, which never goes back. Measurements that became stale no longer count."""
        for node in self._measured.advance(now_s):
            self._recount(node)

    def arrived(self, number: int, uid: str, started_s: float) -> None:
        """A pod has this number. Called for every pod, also while the rule sleeps."""
        if not self.is_on:
            return
        self._identities[number] = uid, started_s
        self._measured.arrived(uid)
        pod = self._pods.get(number)
        if pod is not None:
            self._identify(number, pod)

    def left(self, number: int, uid: str) -> None:
        """A pod is gone, or will arrive again before the next round."""
        if self._identities.pop(number, None) is not None:
            self._measured.left(uid)

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no pods; measurements stay."""
        self._encoder = encoder
        self._revision = -1
        self._names: list[str] = []  # row -> node's name
        self._limit: Int = np.empty((0, 2), dtype=np.int64)  # [N, 2] size less system use
        self._held: Int = np.empty((0, 2), dtype=np.int64)  # [N, 2] sum of predictions
        self._of: Int = np.zeros((64, 2), dtype=np.int64)  # [P, 2] prediction of each pod, by number
        self._pods: dict[int, CountedPod] = {}
        self._here: dict[int, dict[int, CountedPod]] = {}  # row -> number -> pod
        self._identities: dict[int, tuple[str, float]] = {}  # number -> UID, start

    def widened(self) -> bool:
        """Whether the rule woke up since the last call."""
        widens, self.may_widen = self.may_widen, False
        return widens

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Once the rule is awake, it applies to every pod: all are counted, those with lent requests are filtered."""
        if not self.is_awake:
            return False
        lent = pod.requests if is_lent_to(pod.requests) else None
        made = self._pods[number] = CountedPod(pod.key, requested_use(pod.requests), lent)
        if number >= len(self._of):
            more = np.zeros((max(number + 1 - len(self._of), len(self._of)), 2), dtype=np.int64)
            self._of = np.concatenate([self._of, more])
        self._of[number] = made.request
        if number in self._identities:
            self._identify(number, made)
        return True

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Pods hold nothing of this rule."""

    def rules(self, number: int) -> Iterator[RuleResult]:
        """The rows that have room for a pod with lent requests."""
        pod = self._pods[number]
        if pod.lent is None:
            return
        self.renew()
        for at, resource, reason in _RESOURCES:
            asked = pod.request[at]
            if asked > 0:
                left = self._held[:, at] + asked <= self._limit[:, at]
                if not left.all():
                    yield RuleResult(NAME, reason, left, True, partial(self._shortage, asked, at, resource))

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """None: the profile's score ranks nodes."""
        return ()

    def allocate(self, number: int, row: int) -> None:
        """The pod was placed on the row just now: no measurement includes it yet."""
        self.renew()
        pod, node = self._pods[number], self._names[row]
        self._measured.allocated(pod, node)
        self._put(number, pod, row)

    def assign(self, number: int, row: int) -> None:
        """The pod is assigned to the row, since its start or since it was first seen there."""
        self.renew()
        pod, node = self._pods[number], self._names[row]
        self._measured.assigned(pod, node)
        self._put(number, pod, row)

    def unassign(self, number: int) -> None:
        """The pod no longer counts on its row."""
        pod = self._pods[number]
        self._held[pod.row] -= self._of[number]
        del self._here[pod.row][number]
        pod.row = -1

    def remove_pod(self, number: int) -> None:
        """The pod has left the cluster."""
        del self._pods[number]

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """Unchanged: pods hold nothing of this rule."""
        return holds

    def validate(self) -> None:
        """Check that predictions, sums and limits equal recomputed ones. Raises `Permanent`."""
        self.renew()
        held = np.zeros_like(self._held)
        for row, pods in self._here.items():
            for number, pod in pods.items():
                if pod.row != row or tuple(self._of[number]) != self._measured.predicted(pod, self._names[row]):
                    raise Permanent(f"the predicted use of {pod.key} is outdated")
                held[row] += self._of[number]
        if (held != self._held).any():
            row = int(np.argwhere(held != self._held)[0][0])
            raise Permanent(f"the predicted use of node {self._names[row] or row} is not the sum over its pods")
        if sum(map(len, self._here.values())) != sum(pod.row >= 0 for pod in self._pods.values()):
            raise Permanent("the rows of pods and the pods of rows disagree")
        for row in range(len(self._names)):
            if tuple(self._limit[row]) != self._limit_of(row):
                raise Permanent(f"the room of node {self._names[row] or row} is outdated")

    # ---- runs of equal pods, and preemption

    def alike(self, number: int) -> Hashable:
        """Pods with equal requests take the same of every row; pods without lent requests are not filtered."""
        pod = self._pods[number]
        return pod.request if pod.lent is not None else _NOTHING_ASKED

    def times(self, number: int) -> Int:
        """How many pods like this one each row can take."""
        self.renew()
        answer = np.full(len(self._names), UNLIMITED, dtype=np.int64)
        pod = self._pods[number]
        if pod.lent is not None:
            room = np.maximum(0, self._limit - self._held)
            for at, asked in enumerate(pod.request):
                if asked > 0:
                    answer = np.minimum(answer, room[:, at] // asked)
        return answer

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[ConstraintColumn]:
        """What residents are predicted to use, and what may be beside this pod; nothing for a pod without lent
        requests.
        """
        pod = self._pods[number]
        if pod.lent is None:
            return
        self.renew()
        for at, _, reason in _RESOURCES:
            if pod.request[at] > 0:
                yield ConstraintColumn(
                    reason, self._held[:, at].copy(), self._limit[:, at] - pod.request[at], self._of[pods, at]
                )

    # ---- queries

    def describe(self, node: str) -> UseView | None:
        """The predicted use of a node; None for an unknown node, or where the rule is off or asleep."""
        row = self._encoder.node_rows.get(node)
        if not self.is_awake or row is None:
            return None
        self.renew()
        facts = self._measured.of(node)
        pods = self._here.get(row, {})
        offered = self._encoder.node(row).allocatable
        fresh, system = self._measured.is_fresh(node), self._measured.system(node)
        return UseView(
            node=node,
            size=Use(*(int(entry) for entry in self._limit[row])).plus(system),
            system=system,
            predicted=Use(*(int(entry) for entry in self._held[row])),
            pods=len(pods),
            by_request=sum(not (fresh and pod.record.history.samples) for pod in pods.values()),
            measured_age_s=nan if facts is None else max(0.0, self._measured.now_s - facts.updated_s),
            is_fresh=fresh,
            risk=self.settings.risk,
            offered=Amounts.of({name: offered.get(name) for name in LENT if offered.get(name) > 0}),
            holders=holders_of(pods.values()),
            written=self._encoder.node(row).annotations.get(LENT_TERMS) or "",
        )

    def describe_pod(self, number: int) -> PodUseView | None:
        """What an assigned pod counts with; None where it does not count."""
        pod = self._pods.get(number)
        if pod is None or pod.row < 0:
            return None
        return PodUseView(
            pod.request,
            Use(*(int(entry) for entry in self._of[number])),
            pod.record.history.samples,
            self._measured.is_fresh(self._names[pod.row]),
            pod.lent is not None,
        )

    def room_of(self, requests: Amounts) -> dict[str, Int]:
        """`int64[N]` by lent resource that a pod requests: how much of it predicted use leaves on each row; empty
        for a pod that is not filtered.
        """
        found: dict[str, Int] = {}
        if self.is_awake and is_lent_to(requests):
            self.renew()
            for at, kinds in enumerate((LENT_CPU, LENT_MEMORY)):
                asked = [name for name in kinds if requests.get(name) > 0]
                beside = requested_use(requests)[at] - sum(map(requests.get, asked))
                for name in asked[:1]:  # with batch and mid requests in one pod, the first of them is lowered
                    beside += sum(map(requests.get, asked[1:]))
                    found[name] = self._limit[:, at] - self._held[:, at] - beside
        return found

    def sources(self) -> dict[str, int]:
        """Number of nodes by what their pods count by: measurements or requests; empty while the rule sleeps."""
        if not self.is_awake:
            return {}
        fresh = [self._measured.is_fresh(name) for name in self._encoder.node_rows]
        return {"measurements": sum(fresh), "requests": len(fresh) - sum(fresh)}

    def numbers(self) -> frozenset[int]:
        """Numbers of the pods that count."""
        return frozenset(self._pods)

    def _shortage(self, asked: int, at: int, resource: str, rows: Mask) -> str:
        """Figures of the row, of these, with the smallest shortage."""
        among = np.flatnonzero(rows)
        row = int(among[int((self._held[among, at] - self._limit[among, at]).argmin())])
        view = self.describe(self._names[row])
        return "" if view is None else view.shortage(asked, at, resource)

    # ---- rows

    def renew(self) -> None:
        """Bring the rows up to date with the nodes."""
        encoder = self._encoder
        if encoder.revision == self._revision:
            return
        changed = encoder.changed_since(max(0, self._revision)) if self._revision >= 0 else range(encoder.all_rows)
        more = encoder.all_rows - len(self._names)
        if more > 0:
            self._names += [""] * more
            self._limit = np.concatenate([self._limit, np.full((more, 2), UNLIMITED, dtype=np.int64)])
            self._held = np.concatenate([self._held, np.zeros((more, 2), dtype=np.int64)])
        self._revision = encoder.revision
        for row in set(changed):
            try:
                self._names[row] = encoder.node(row).name
            except InvalidInput:
                self._names[row] = ""
            self._limit[row] = self._limit_of(row)

    def _limit_of(self, row: int) -> tuple[int, int]:
        if not self._names[row]:
            return UNLIMITED, UNLIMITED
        node = self._encoder.node(row)
        try:
            size = size_of(node)
        except InvalidInput as error:
            self._measured.note(f"{error.field} cannot be read")
            size = allocatable_use(node)
        system = self._measured.system(node.name)
        return (
            size.cpu_m * self.settings.cpu_limit_pct // 100 - system.cpu_m,
            size.memory_bytes * self.settings.memory_limit_pct // 100 - system.memory_bytes,
        )

    def _recount(self, node: str) -> None:
        """A node's measurement changed: count its pods again."""
        row = self._encoder.node_rows.get(node)
        if not self.is_awake or row is None:
            return
        self.renew()
        room = self._limit[row] - self._held[row]
        self._limit[row] = self._limit_of(row)
        for number, pod in self._here.get(row, {}).items():
            self._measured.sample(pod, node)
            predicted = self._measured.predicted(pod, node)
            self._held[row] += np.subtract(predicted, self._of[number])
            self._of[number] = predicted
        if (self._limit[row] - self._held[row] > room).any():
            self.opened()

    def _put(self, number: int, pod: CountedPod, row: int) -> None:
        pod.row = row
        self._here.setdefault(row, {})[number] = pod
        if pod.record.history.samples:
            self._of[number] = self._measured.predicted(pod, self._names[row])
        else:
            self._of[number] = pod.request
        self._held[row] += self._of[number]

    def _identify(self, number: int, pod: CountedPod) -> None:
        uid, pod.started_s = self._identities[number]
        self._measured.identify(uid, pod)
