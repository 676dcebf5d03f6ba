"""The scheduling engine of a cluster as a state machine: events in, instructions out. No I/O, no clock, no global
randomness.

One engine must serve a real cluster, a local one and the lab, and an API server reports late, twice, out of order, and
while responses to the engine's own requests are outstanding. Every event only corrects facts (nodes by name, pods by
UID), a decided pod counts at once, and `decide` evaluates the queue over arrays that are brought up to date first.
Estimates are corrected by measurements (`usage_measured`), and replicas that keep missing their objective are moved
(`latency_measured`). All derived state can be rebuilt from the facts, and `validate` compares both. The owner
(services/scheduler, or the simulated worlds of the lab) carries out the instructions and reports the results.

Limits: one policy; a pod's deadline and declared estimates are those of its annotations; events about one pod must come
from one ordered watch (a UID that was seen on a node is considered on it until its deletion).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

import numpy as np

from cotenant.engine.cluster_measurements import ClusterMeasurements
from cotenant.engine.cycle.closed_nodes import ClosedNodes
from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets
from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.queue import SchedulingQueue
from cotenant.engine.cycle.rounds import Rounds
from cotenant.engine.cycle.score_parts import ScoreListener
from cotenant.engine.cycle.undo import Undo
from cotenant.engine.explain.copying import fresh_rng
from cotenant.engine.explain.explain import Explain
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.plugin import Plugin, PluginHost
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.arrays import Float
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, NamespaceFacts, NodeStorage, ObservedPod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile


class Cluster(ClusterMeasurements):
    """One scheduler of one cluster. Times are seconds of the owner's clock: Unix time in a cluster, simulated time
    in the lab.
    """

    def __init__(
        self,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
        settings: EngineSettings | None = None,
        plugins: PluginRegistry | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        self._rng = rng
        plugins = plugins or PluginRegistry()
        self._nodes: dict[str, Node] = {}
        self._budgets = DisruptionBudgets()
        self._namespaces: dict[str, NamespaceFacts] = {}
        self._outbox = Outbox()
        self._components = ClusterComponents(
            policy,
            rng,
            self.settings,
            self._budgets,
            plugins.node_rules(),
            plugins.in_order(),
        )
        profile = self._components.profile
        self._pods = Pods(self._components, profile, self.settings, self._outbox)
        super().__init__(
            self._components, self._pods, self._nodes, self._namespaces, self._budgets, self._outbox, plugins
        )
        self.closed = ClosedNodes(self._components, self._pods)
        self._roster = self._components.roster
        self._rounds = Rounds(self._components, self._pods, self._outbox, self.settings.schedulers)
        self._past = DecisionHistory()
        self.why = Explain(
            self._components,
            self._pods,
            self._past,
            self._budgets,
            plugins,
            profile,
            self.settings,
            self._namespaces,
            (lambda members: Cluster(policy, fresh_rng(), self.settings, members))
            if isinstance(policy, PlacementProfile)
            else None,
        )
        self._reconsidered: dict[str, None] = {}  # UIDs, until the next round
        self._host = PluginHost(
            self._outbox.say,
            self._pods.happened.add,
            self._reconsidered.setdefault,
            self._outbox.count,
            lambda entry: self._components.preempting.is_going(entry),
            lambda entry: self._budgets.is_spent(entry.seen.pod),
            lambda entries, going: self._components.preempting.bears(entries, going, self._pods.by_uid),
            self._components.losses.job_of,
            lambda entry: max([grouping.together(entry).lacks for grouping in self._roster.grouping], default=1),
            self._may_go,
            self._unskip,
            self._rounds.access,
        )
        for plugin in self._roster.plugins:
            plugin.attach(self._host)

    def _may_go(self, entries: Iterable[PodInfo]) -> None:
        self._pods.happened.add(EventKind.GANG)
        self._components.assignments.changed.update(entry.wanted for entry in entries if entry.wanted >= 0)

    def _unskip(self, plugin: Plugin) -> None:
        self._components.assignments.unskip(plugin, self._pods.by_uid.values())

    @property
    def counts(self) -> dict[str, int]:
        """Counts of anomalies, by name."""
        return self._outbox.counts

    @property
    def judged(self) -> int:
        """Pods evaluated so far; one that was evaluated twice counts twice."""
        return self._rounds.judged

    @property
    def queue(self) -> SchedulingQueue:
        """The scheduling queue; read only."""
        return self._components.queue

    # ---- events: nodes and other objects

    def node_seen(self, node: Node) -> None:
        """A node was created or changed."""
        self.why.unusable_nodes.pop(node.name, None)
        new = node.name not in self._nodes
        self._nodes[node.name] = node
        if self._components.assignments.set_node(node):
            self._pods.happened.add(EventKind.NODE_ADDED if new else EventKind.NODE_CHANGED)
            for plugin in self._roster.node_changed:
                plugin.node_changed(node.name, node)
            if new:
                self._components.nominations.node_seen(node.name)

    def node_unusable(self, name: str, why: str, now_s: float) -> None:
        """A node exists that cannot be used, such as one of no size: it counts as deleted, and explanations say why."""
        self.node_gone(name, now_s)
        self.why.unusable_nodes[name] = why

    def node_gone(self, name: str, now_s: float) -> None:
        """A node was deleted. Pods assigned to it whose bind was not sent are queued again; its residents keep its
        name.
        """
        self.why.unusable_nodes.pop(name, None)
        if self._nodes.pop(name, None) is None:
            return
        for entry in [
            e
            for e in self._components.assignments.residents.get(name, {}).values()
            if e.state in (SchedulingState.ASSUMED, SchedulingState.WAITING)
        ]:
            self._pods.take_back(entry)
            self._outbox.count("decided for a node that went away")
            self._pods.enter(entry, now_s, "NodeDelete")
        without = [self._pods.by_uid[uid] for uid in self._components.nominations.on(name)]
        for entry in without:
            self._pods.drop_nomination(entry)
        self._components.assignments.remove_node(name)
        for plugin in self._roster.node_changed:
            plugin.node_changed(name, None)
        for entry in without:  # what ends there frees nothing for it: it may preempt elsewhere
            self._pods.requeue(entry, now_s)
        self._pods.happened.add(EventKind.NODE_GONE)

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """A PodDisruptionBudget was created or changed."""
        if self._budgets.set(budget):
            self._pods.happened.add(EventKind.BUDGET)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A PodDisruptionBudget was deleted."""
        if self._budgets.remove(namespace, name):
            self._pods.happened.add(EventKind.BUDGET)

    def namespace_seen(self, facts: NamespaceFacts) -> None:
        """A namespace was created, or its labels changed."""
        if self._namespaces.get(facts.name) != facts:
            self._namespaces[facts.name] = facts
            self._components.assignments.narrowing.set_namespace(facts)
            self._pods.happened.add(EventKind.NAMESPACE)

    def namespace_gone(self, name: str) -> None:
        """A namespace was deleted."""
        if self._namespaces.pop(name, None) is not None:
            self._components.assignments.narrowing.set_namespace(NamespaceFacts(name))
            self._pods.happened.add(EventKind.NAMESPACE)

    def node_storage_seen(self, storage: NodeStorage) -> None:
        """How many volumes a node can attach, or which are attached, has changed."""
        assignments = self._components.assignments
        if assignments.narrowing.volumes.limits.set_storage(storage):
            assignments.touched(storage.node)
            self._pods.happened.add(EventKind.NODE_STORAGE)

    def report(self, node: str, values: tuple[float, ...]) -> None:
        """A node's report, in the order of `arrays.Report`. Profiles that read reports fall back when it is stale."""
        self._components.assignments.report(node, values)

    def report_all(self, nodes: Sequence[str], values: Float) -> None:
        """Reports of several nodes: `float64[len(nodes), len(Report)]`, a row of NaN for a node without one."""
        self._components.assignments.report_all(nodes, values)

    # ---- events: pods

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """A pod's current object; repeated events have no effect."""
        self._pods.pod_seen(self._measured.tagged(seen) if self._measured.is_learning else seen, now_s)

    def pod_gone(self, uid: str, now_s: float) -> None:
        """A pod was deleted, in any state."""
        self._pods.pod_gone(uid, now_s)

    # ---- results of instructions: `number` is that of the `Bind`, and what is said of an earlier one has no effect;
    # an owner that ends each bind before it asks for another decision may leave it 0

    def sending(self, uid: str, now_s: float, number: int = 0) -> bool:
        """The bind is about to be sent. False = do not send it: it was undone meanwhile (its node or the pod is
        gone, or the pod has another bind by now).
        """
        return self._pods.sending(uid, now_s, number)

    def bound(self, uid: str, now_s: float, number: int = 0) -> None:
        """The API server accepted the bind; the watch will confirm it."""
        self._pods.bound(uid, now_s, number)

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        """The bind was not carried out. `retry` False = the pod no longer exists."""
        self._pods.bind_failed(uid, why, now_s, retry, number)

    def bound_elsewhere(self, seen: ObservedPod, now_s: float, number: int = 0) -> None:
        """A request found the pod on another node than the bind's. Without effect where a watch has told how the
        bind ended: that is newer, or the same. It is true of the pod's next bind as well.
        """
        if self._pods.awaits_answer(seen.uid):
            self.pod_seen(seen, now_s)

    def preempt_failed(self, uid: str, now_s: float, evicted: Collection[str] = ()) -> None:
        """The nomination or an eviction failed: the pod waits as before. `evicted`: UIDs of victims that go all the
        same; the others stay.
        """
        self._pods.nominated.preempt_failed(uid, now_s, evicted)

    def victims_added(self, uid: str, node: str, victims: Collection[str], now_s: float) -> bool:
        """An extender has these pods go too. False = the pod is not nominated for the node any more."""
        return self._pods.nominated.victims_added(uid, node, victims, now_s)

    def eviction_withdrawn(self, uid: str, now_s: float) -> None:
        """A victim of a preemption is not evicted after all."""
        self._pods.nominated.eviction_withdrawn(uid, now_s)

    # ---- decisions

    def decide(self, now_s: float, only: str = "") -> tuple[Instruction, ...]:
        """Evaluate up to `max_pods` waiting pods, and return the instructions. Empty when no pod may be evaluated
        now.

        `only`: the UID of the one pod to evaluate, at once, with those that are judged together with it.
        """
        if self._measured.is_learning:
            self._measured.use_new_priors(now_s)
        self._pods.expire(now_s)
        for plugin in self._roster.turn:
            if not plugin.is_idle:
                plugin.turn(now_s)
        while self._reconsidered:
            uid = next(iter(self._reconsidered))
            del self._reconsidered[uid]
            self._pods.reconsider(uid, now_s)
        if now_s >= self._measured.due_s:
            self._measured.correct(now_s)
        self._components.assignments.write()
        self._rounds.round(self.settings.max_pods, now_s, only)
        given = self._outbox.take()
        self._past.note(given, now_s)
        for plugin in self._roster.bind:
            if not plugin.is_idle:
                given = plugin.bind(given, now_s)
        return given

    def next_s(self) -> float:
        """When `decide` must be called again if no event comes before: -inf at once, inf never."""
        if self._outbox.pending or self._reconsidered:
            return -inf
        of_plugins = [plugin.next_s() for plugin in self._roster.next_s if not plugin.is_idle]
        return min(self._measured.next_s, *of_plugins, self._rounds.next_s(), self._pods.next_s())

    # ---- simulations

    def checkpoint(self) -> Undo:
        """The engine now, to be restored after a simulation (see `tentative`); nodes must be as before then."""
        more = (self._outbox, self._past, *self._rounds.remembering, self._reconsidered)
        return Undo(self._components, self._pods, more)

    def observe(self, witness: ScoreListener | None) -> None:
        """Report every pod that is evaluated from now on to this listener, one by one; None = no listener, which is
        faster.
        """
        self._components.witness = self._components.placing.witness = witness

    @contextmanager
    def tentative(self, now_s: float) -> Iterator[None]:
        """Decisions in this context are simulated: the engine is as before on exit. Only for an engine that carries
        nothing out: its instructions are dropped, also those from before.
        """
        self._measured.use_new_priors(now_s)
        self._outbox.take()
        nodes, assignments = tuple(self._nodes.values()), self._components.assignments
        undo, drawn = self.checkpoint(), self._rng.bit_generator.state
        self._rng.bit_generator.state = type(self._rng.bit_generator)(0).state  # ties are broken alike in every round
        assignments.suspend_reclaim()
        try:
            yield
        finally:
            for node in nodes:
                if self._nodes.get(node.name) is not node:
                    self.node_seen(node)
            undo.restore()
            assignments.resume_reclaim()
            self._rng.bit_generator.state = drawn

    # ---- consistency

    def rebuild(self, now_s: float) -> None:
        """Rebuild all derived state from the facts; states, back-offs and nominations are kept."""
        waiting = [(uid, group) for group in self._components.queue.groups() for uid in group.pods]
        nominated = [
            (self._pods.by_uid[uid], node, victims, moving)
            for uid, node, victims, moving in self._components.nominations.all()
        ]
        assigned = {uid: entry.node for uid, entry in self._pods.by_uid.items() if entry.node}
        queue, before = self._components.queue, self._components.assignments
        asked = self._components.nominations.asked
        for plugin in self._roster.plugins:
            plugin.attach(self._host)
        self._components.start_empty()
        assignments = self._components.assignments
        assignments.encoder.closed |= before.encoder.closed
        for node in self._nodes.values():
            assignments.set_node(node)
        for facts in self._namespaces.values():
            assignments.narrowing.set_namespace(facts)
        for storage in before.narrowing.volumes.limits.storages():
            assignments.narrowing.volumes.limits.set_storage(storage)
        for name in self._nodes:
            row = before.encoder.node_rows.get(name)
            if row is not None:
                assignments.report(name, tuple(before.encoder.nodes().report[row].tolist()))
        for uid, entry in self._pods.by_uid.items():
            entry.node = ""
            assignments.add(entry)
            if uid in assigned:
                assignments.assign(entry, assigned[uid])
        for entry, name, victims, moving in nominated:
            self._components.nominations.add(entry, name, victims, moving)
        self._components.nominations.restore_asked(asked)
        assignments.write()
        assignments.estimates.adopt(before.estimates.learned())
        for uid, _ in waiting:
            entry = self._pods.by_uid[uid]
            is_large = self._components.budget.is_large(entry.seen)
            self._pods.queued(entry, self._pods.kind_of(entry), "Rebuild", is_large)
        self._components.queue.incoming = queue.incoming
        self._outbox.count("rebuilt")

    def validate(self) -> None:
        """Check that facts, assignments, queue and the state of every pod agree. Raises `Permanent`."""
        self._components.assignments.validate()
        self._components.placing.validate()
        self._components.queue.validate()
        self._components.nominations.validate()
        for plugin in self._roster.plugins:
            plugin.validate(self._pods.by_uid)
        rows = self._components.assignments.encoder.node_rows
        if rows.keys() != self._nodes.keys():
            raise Permanent("the rows and the nodes that were seen differ")
        for name, node in self._nodes.items():
            if self._components.assignments.encoder.node(rows[name]) != node:
                raise Permanent(f"node {name} is not encoded as it was last seen")
        self._pods.validate()
