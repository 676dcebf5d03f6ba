"""The scheduling engine of a cluster as a state machine: events in, instructions out. No I/O, no clock, no global randomness.

Problem: one engine must serve a real cluster, a local one and the lab, and an API server reports late, twice, out of order, and while responses to the engine's own
requests are outstanding. Choice: every event only corrects facts (nodes by name, pods by UID), a decided pod counts at once, and `decide` evaluates the
queue over arrays that are brought up to date first. Estimates are corrected by measurements (`usage_measured`), and replicas that keep missing their
objective are moved (`latency_measured`). All derived state can be rebuilt from the facts, and `validate` compares both. The owner (services/scheduler, or
the simulated worlds of the lab) carries out the instructions and reports the results.

Limits: one policy; a pod's deadline and declared estimates are those of its annotations; events about one pod must come from one ordered watch (a UID that
was seen on a node is considered on it until its deletion).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nan

import numpy as np

from cotenant.engine.cycle.components import Components
from cotenant.engine.cycle.history import DecisionHistory
from cotenant.engine.cycle.judging import Judging
from cotenant.engine.cycle.moves import Moves
from cotenant.engine.cycle.ordering import check_states, rank
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.preemption import Budgets
from cotenant.engine.cycle.queue import SchedulingQueue
from cotenant.engine.cycle.score_parts import ScoreListener
from cotenant.engine.explain.copying import fresh_rng
from cotenant.engine.explain.explain import Explain
from cotenant.engine.framework.events import Event
from cotenant.engine.framework.instructions import Instruction
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.plugin import Host, overriding
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.framework.settings import Settings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.state.estimates import Learned
from cotenant.engine.state.learned_profiles import ProfileStore
from cotenant.engine.state.measurements import Measurements, signal
from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, NamespaceFacts, NodeStorage, ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.workload_profile import WorkloadProfile
from cotenant.model.errors import Permanent
from cotenant.model.machine.node_metric import NodeMetric
from cotenant.policy.placement.contract import RoundPolicy
from cotenant.policy.placement.profiles import PlacementProfile


class Cluster:
    """One scheduler of one cluster. Times are seconds of the owner's clock: Unix time in a cluster, simulated time in the lab."""

    def __init__(
        self,
        policy: PlacementProfile | RoundPolicy,
        rng: np.random.Generator,
        settings: Settings | None = None,
        plugins: PluginRegistry | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.plugins = plugins or PluginRegistry()
        self._nodes: dict[str, Node] = {}
        self._budgets = Budgets()
        self._namespaces: dict[str, NamespaceFacts] = {}
        self._outbox = Outbox()
        self._components = Components(
            policy,
            rng,
            self.settings,
            self._budgets,
            self.plugins.node_rules(),
            self.plugins.in_order(),
        )
        self.profile = profile = self._components.profile
        self._pods = Pods(self._components, profile, self.settings, self._outbox)
        self._with = {hook: overriding(self._components.plugins, hook) for hook in ("turn", "translate", "next_s")}
        self._judging = Judging(self._components, self._pods, self._outbox, self.settings.schedulers)
        self._moves = Moves(self._components)
        self._measurements = Measurements()
        self._past = DecisionHistory()
        self.why = Explain(
            self._components,
            self._pods,
            self._past,
            self._budgets,
            self.plugins,
            profile,
            self.settings,
            self._namespaces,
            (lambda members: Cluster(policy, fresh_rng(), self.settings, members))
            if isinstance(policy, PlacementProfile)
            else None,
        )
        self._reconsidered: dict[str, None] = {}  # UIDs, until the next round
        self._host = Host(
            self._outbox.say,
            self._pods.happened.add,
            self._reconsidered.setdefault,
            self._outbox.count,
            lambda entry: self._budgets.is_spent(entry.seen.pod),
            lambda entries: self._budgets.bears_all([entry.seen.pod for entry in entries]),
            self._components.losses.job_of,
            lambda entry: max(each.lacks(entry) for each in self._components.plugins),
        )
        for plugin in self._components.plugins:
            plugin.attach(self._host)

    @property
    def counts(self) -> dict[str, int]:
        """Counts of anomalies, by name."""
        return self._outbox.counts

    @property
    def judged(self) -> int:
        """Pods evaluated so far; one that was evaluated twice counts twice."""
        return self._judging.judged

    @property
    def queue(self) -> SchedulingQueue:
        """The scheduling queue; read only."""
        return self._components.queue

    # ---- events: nodes and other objects

    def node_seen(self, node: Node) -> None:
        """A node was created or changed."""
        new = node.name not in self._nodes
        self._nodes[node.name] = node
        if self._components.assignments.set_node(node):
            self._pods.happened.add(Event.NODE_ADDED if new else Event.NODE_CHANGED)
            for plugin in self._components.plugins:
                plugin.node_seen(node)
            if new:
                self._components.nominations.node_seen(node.name)

    def node_gone(self, name: str, now_s: float) -> None:
        """A node was deleted. Pods assigned to it whose bind was not sent are queued again; its residents keep its name."""
        if self._nodes.pop(name, None) is None:
            return
        for entry in [
            e
            for e in self._components.assignments.residents.get(name, {}).values()
            if e.state in (State.ASSUMED, State.WAITING)
        ]:
            self._pods.take_back(entry)
            self._outbox.count("decided for a node that went away")
            self._pods.enter(entry, now_s, "NodeDelete")
        for uid in self._components.nominations.on(name):
            self._pods.drop_nomination(self._pods.by_uid[uid])
        self._components.assignments.remove_node(name)
        for plugin in self._components.plugins:
            plugin.node_gone(name)
        self._pods.happened.add(Event.NODE_GONE)

    def budget_seen(self, budget: DisruptionBudget) -> None:
        """A PodDisruptionBudget was created or changed."""
        self._budgets.set(budget)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A PodDisruptionBudget was deleted."""
        self._budgets.remove(namespace, name)

    def namespace_seen(self, facts: NamespaceFacts) -> None:
        """A namespace was created, or its labels changed."""
        if self._namespaces.get(facts.name) != facts:
            self._namespaces[facts.name] = facts
            self._components.assignments.narrowing.set_namespace(facts)
            self._pods.happened.add(Event.NAMESPACE)

    def namespace_gone(self, name: str) -> None:
        """A namespace was deleted."""
        if self._namespaces.pop(name, None) is not None:
            self._components.assignments.narrowing.set_namespace(NamespaceFacts(name))
            self._pods.happened.add(Event.NAMESPACE)

    def node_storage_seen(self, storage: NodeStorage) -> None:
        """How many volumes a node can attach, or which are attached, has changed."""
        if self._components.assignments.narrowing.volumes.limits.set_storage(storage):
            self._pods.happened.add(Event.NODE_STORAGE)

    def report(self, node: str, values: tuple[float, ...]) -> None:
        """A node's report, in the order of `arrays.Report`. Profiles that read reports fall back when it is stale."""
        self._components.assignments.report(node, values)

    def reported(self, node: str) -> tuple[float, ...]:
        """A node's last report, in the order of `arrays.Report`, NaN where it never reported; empty for an unknown node."""
        encoder = self._components.assignments.encoder
        row = encoder.node_rows.get(node)
        return tuple(encoder.nodes().report[row].tolist()) if row is not None else ()

    def report_all(self, nodes: Sequence[str], values: Float) -> None:
        """Reports of several nodes: `float64[len(nodes), len(Report)]`, a row of NaN for a node without one."""
        self._components.assignments.report_all(nodes, values)

    # ---- measurements

    @property
    def wants_measurements(self) -> bool:
        """Whether the policy reads the measured use or latency of pods."""
        profile = self.profile
        return profile.reads_metrics or profile.weighs_slack or profile.moves_victims

    def number_of(self, uid: str) -> int:
        """The engine's number of a pod, used by measurements: stable while the pod is known, -1 for an unknown pod."""
        entry = self._pods.by_uid.get(uid)
        return entry.number if entry is not None else -1

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """The NodeMetric of a node. Estimates are corrected by all of them together, once a minute, before a round."""
        if not self.profile.reads_metrics:
            return

        def uid_of(key: str) -> str | None:
            """Of the pod with this name on the node, if it was there when the node was measured: a namesake may be elsewhere, or have left."""
            entry = self._pods.by_uid.get(self._pods.by_key.get(key, ""))
            if entry is None or entry.node != metric.node or entry.seen.started_s > now_s - metric.age_s:
                return None
            return entry.seen.uid

        self._measurements.note(metric, uid_of)

    def _correct_estimates(self, now_s: float) -> None:
        """Correct estimates by the measurements since the last correction, and the remaining slack."""
        if not (self.profile.reads_metrics or self.profile.weighs_slack) or not self._measurements.is_due(now_s):
            return
        taken = self._measurements.take()
        entries = [self._pods.by_uid.get(uid) for uid in taken]
        numbers = np.array([-1 if entry is None else entry.number for entry in entries], dtype=np.int64)
        cpu = np.array([each.use.cpu_m / 1000.0 for each in taken.values()], dtype=np.float64)
        memory = np.array([each.use.memory_bytes for each in taken.values()], dtype=np.float64)
        if self.profile.learns_interference:
            signals = [
                nan if entry is None else signal(each.signals, entry.seen.pod)
                for entry, each in zip(entries, taken.values(), strict=True)
            ]
            self.interference_measured(numbers, cpu, np.array(signals, dtype=np.float64), now_s)
        self.usage_measured(numbers, cpu, memory, now_s)

    def usage_measured(self, numbers: Int, cpu_cores: Float, memory_bytes: Float, now_s: float) -> None:
        """Measured use of running pods, columns aligned with their `numbers`; pods on no node are skipped.

        Corrects the estimates of their shapes where the profile asks for it.
        """
        profile, assignments = self.profile, self._components.assignments
        if not (profile.reads_metrics or profile.weighs_slack):
            return
        self._measurements.corrected(now_s)
        assignments.write()
        estimates = assignments.estimates
        assigned = estimates.assigned_shapes()
        if profile.measures_use:
            known = assignments.on_nodes(numbers)
            estimates.measured(numbers[known], cpu_cores[known], memory_bytes[known])
            estimates.correct_use()
            self._components.placing.lend(estimates.trust)
        if profile.weighs_slack:
            estimates.correct_slack(estimates.batch_of(assigned), now_s)
        estimates.correct_profiles(assigned)
        estimates.rewrite(assigned)
        assignments.verdict_cache.forget()
        assignments.revise()

    def adopt(self, learned: tuple[Learned, ...], now_s: float, profiles: ProfileStore | None = None) -> None:
        """Take over what another engine has measured of equal shapes, and learned of applications; the store is not copied."""
        own = self._components.assignments.estimates.profiles
        if profiles is not None and own is not None:
            own.adopt(profiles)
            self._components.profiles = profiles
        if learned:
            self._components.assignments.write()
            self._components.assignments.estimates.adopt(learned)
            nothing = np.zeros(0)
            self.usage_measured(np.zeros(0, dtype=np.int64), nothing, nothing, now_s)

    def latency_measured(self, numbers: Int, p99_ratio: Float, requests: Int, now_s: float) -> None:
        """The last window of replicas, by number: p99 over objective, and the number of its requests. Replicas worth moving are evicted (`Evict`) where the profile says so."""
        if not self.profile.moves_victims:
            return
        self._components.assignments.write()
        known = self._components.assignments.on_nodes(numbers)
        for move in self._moves.consider(numbers[known], p99_ratio[known], requests[known], now_s):
            self._outbox.say(move)

    def interference_measured(self, numbers: Int, cpu_cores: Float, signal: Float, now_s: float) -> None:
        """One window of running pods, columns aligned with their `numbers`; pods on no node are skipped. Call before `usage_measured`.

        `signal` is p99 over objective of a service's replica; of another pod time per unit of progress, or cycles per instruction; NaN where it was not
        measured. Values that are not finite or absurd are refused and counted (`ProfileStore.refused`).
        """
        profiles = self._components.assignments.estimates.profiles
        if profiles is None:
            return
        self._components.assignments.write()
        known = self._components.assignments.on_nodes(numbers)
        profiles.observe(numbers[known], cpu_cores[known], signal[known], now_s)

    def workload_profile(self, pod: Pod) -> WorkloadProfile | None:
        """What was learned of the pod's application, or its prior; None where the policy does not learn. The pod need not exist."""
        profiles = self._components.assignments.estimates.profiles
        return profiles.of(pod.shape()) if profiles is not None else None

    def outgrew(self, uid: str, memory_bytes: float) -> None:
        """A pod that is being evicted for memory used this much: the estimate of its shape is raised to it. Call before the pod is gone."""
        entry = self._pods.by_uid.get(uid)
        if entry is not None:
            assignments = self._components.assignments
            assignments.write()
            assignments.estimates.outgrew(entry.shape, memory_bytes)
            assignments.verdict_cache.forget_shapes(np.array([entry.shape]))

    # ---- events: pods

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """A pod's current object; repeated events have no effect."""
        self._pods.pod_seen(seen, now_s)

    def pod_gone(self, uid: str, now_s: float) -> None:
        """A pod was deleted, in any state."""
        self._pods.pod_gone(uid, now_s)

    # ---- results of instructions

    def sending(self, uid: str, now_s: float) -> bool:
        """The bind is about to be sent. False = do not send it: it was undone meanwhile (its node or the pod is gone)."""
        return self._pods.sending(uid, now_s)

    def bound(self, uid: str, now_s: float) -> None:
        """The API server accepted the bind; the watch will confirm it."""
        self._pods.bound(uid, now_s)

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True) -> None:
        """The bind was not carried out. `retry` False = the pod no longer exists."""
        self._pods.bind_failed(uid, why, now_s, retry)

    def preempt_failed(self, uid: str, now_s: float) -> None:
        """The nomination or an eviction failed: the pod waits as before."""
        self._pods.preempt_failed(uid, now_s)

    # ---- decisions

    def decide(self, now_s: float) -> tuple[Instruction, ...]:
        """Evaluate up to `most_pods` waiting pods, and return the instructions. Empty when no pod may be evaluated now."""
        self._pods.expire(now_s)
        for plugin in self._with["turn"]:
            plugin.turn(now_s)
        while self._reconsidered:
            uid = next(iter(self._reconsidered))
            del self._reconsidered[uid]
            self._pods.reconsider(uid, now_s)
        self._correct_estimates(now_s)
        self._components.assignments.write()
        self._judging.round(self.settings.most_pods, now_s)
        given = self._outbox.take()
        self._past.note(given, now_s)
        for plugin in self._with["translate"]:
            given = plugin.translate(given, now_s)
        return given

    def next_s(self) -> float:
        """When `decide` must be called again if no event comes before: -inf at once, inf never."""
        if self._outbox or self._reconsidered:
            return -inf
        return min(self._judging.next_s(), self._pods.next_s(), *[each.next_s() for each in self._with["next_s"]])

    # ---- questions

    def story(self, uid: str) -> tuple[str, ...]:
        """The history of a pod, oldest first; empty for an unknown pod."""
        entry = self._pods.by_uid.get(uid)
        return entry.lines() if entry is not None else ()

    def state_of(self, uid: str) -> State:
        """The state of a pod; `GONE` for an unknown pod."""
        entry = self._pods.by_uid.get(uid)
        return entry.state if entry is not None else State.GONE

    def find(self, key: str) -> PodInfo | None:
        """A pod by namespace/name; read only."""
        return self._pods.by_uid.get(self._pods.by_key.get(key, ""))

    def every_pod(self) -> Iterator[PodInfo]:
        """Every known pod; read only."""
        return iter(self._pods.by_uid.values())

    def pods_on(self, node: str) -> tuple[PodInfo, ...]:
        """The pods assigned to a node; read only."""
        return tuple(self._components.assignments.residents.get(node, {}).values())

    def nodes(self) -> tuple[Node, ...]:
        """Every known node."""
        return tuple(self._nodes.values())

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """Every disruption budget."""
        return self._budgets.all()

    def assigned(self) -> dict[str, str]:
        """UID -> node, of every assigned pod."""
        return {uid: entry.node for uid, entry in self._pods.by_uid.items() if entry.node}

    def pending_pods(self) -> dict[str, int]:
        """Waiting pods, by kube-scheduler's names of its queues."""
        sizes = {standing.value: pods for standing, pods in self._components.queue.sizes().items()}
        held = [entry.state for entry in self._pods.by_uid.values() if entry.state in (State.GATED, State.BLOCKED)]
        sizes["gated"] = held.count(State.GATED)
        sizes["unschedulable"] += held.count(State.BLOCKED)
        sizes["backoff"] += len(self._pods.held)
        return sizes

    def observe(self, witness: ScoreListener | None) -> None:
        """Report every pod that is evaluated from now on to this listener, one by one; None = no listener, which is faster."""
        self._components.witness = self._components.placing.witness = witness

    def size(self) -> tuple[int, int]:
        """The number of known nodes and pods."""
        return len(self._nodes), len(self._pods.by_uid)

    def reserved(self) -> dict[str, str]:
        """UID -> node, of nominated pods."""
        return self._components.nominations.nodes()

    # ---- consistency

    def rebuild(self, now_s: float) -> None:
        """Rebuild all derived state from the facts; states, back-offs and nominations are kept."""
        waiting = [(uid, group) for group in self._components.queue.groups() for uid in group.pods]
        nominated = [
            (self._pods.by_uid[uid], node, victims) for uid, node, victims in self._components.nominations.all()
        ]
        assigned = {uid: entry.node for uid, entry in self._pods.by_uid.items() if entry.node}
        queue, before = self._components.queue, self._components.assignments
        for plugin in self._components.plugins:
            plugin.attach(self._host)
        self._components.start_empty()
        assignments = self._components.assignments
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
        for entry, name, victims in nominated:
            self._components.nominations.add(entry, name, victims)
        assignments.write()
        assignments.estimates.adopt(before.estimates.learned())
        for uid, _ in waiting:
            entry = self._pods.by_uid[uid]
            self._components.queue.add(
                uid,
                self._pods.kind_of(entry),
                entry.seen.pod.priority,
                entry.shape,
                rank(entry.seen, self.profile),
                "Rebuild",
            )
        self._components.queue.incoming = queue.incoming
        self._outbox.count("rebuilt")

    def validate(self) -> None:
        """Check that facts, assignments, queue and the state of every pod agree. Raises `Permanent`."""
        self._components.assignments.validate()
        self._components.placing.validate()
        self._components.queue.validate()
        self._components.nominations.validate()
        for plugin in self._components.plugins:
            plugin.validate(self._pods.by_uid)
        rows = self._components.assignments.encoder.node_rows
        if rows.keys() != self._nodes.keys():
            raise Permanent("the rows and the nodes that were seen differ")
        for name, node in self._nodes.items():
            if self._components.assignments.encoder.node(rows[name]) != node:
                raise Permanent(f"node {name} is not encoded as it was last seen")
        check_states(self._pods.by_uid, self._components.queue, self._pods.answers, self._pods.held)
        if set(self._pods.by_key.values()) != set(self._pods.by_uid):
            raise Permanent("names and UIDs disagree")

    def over_capacity(self) -> tuple[str, ...]:
        """Nodes on which pods request more than the capacity, without resources reserved for nominated pods."""
        return self._components.assignments.over_capacity()
