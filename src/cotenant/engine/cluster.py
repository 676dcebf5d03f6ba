"""The scheduling engine as a state machine: what was seen goes in, instructions come out. No I/O, no clock, no global randomness.

Problem: one engine must serve a real cluster, a local one and the lab, and an API server reports late, twice, out of order, and while answers to our own
requests are still on the way. Choice: every event only corrects facts (nodes by name, pods by UID), a decided pod counts at once, and `decide` judges the
queue over arrays that are brought up to date first. Estimates are corrected by what is measured (`usage_measured`), and replicas that keep missing their
objective are moved (`latency_measured`). Everything derived can be built anew from the facts, and `validate` compares both. The owner (services/scheduler, or
the simulated worlds of the lab) carries out the instructions and reports how that went.

Limits: one policy; a pod's deadline and declared estimates are those its annotations give; events about one pod must come from one ordered watch (a UID that
was seen on a node is never taken to be off it again, except by its deletion).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

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
from cotenant.engine.framework.plugin import Host
from cotenant.engine.framework.pod_state import PodInfo, State
from cotenant.engine.framework.settings import Settings
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.state.estimates import Learned
from cotenant.engine.state.measurements import Measurements
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, NamespaceFacts, NodeStorage, ObservedPod
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
        self._reconsidered: dict[str, None] = {}  # uids, until the next judgement
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
        """What went wrong or was odd, by name."""
        return self._outbox.counts

    @property
    def judged(self) -> int:
        """Pods that were looked at so far, one judged twice counted twice."""
        return self._judging.judged

    @property
    def queue(self) -> SchedulingQueue:
        """Who waits; read only."""
        return self._components.queue

    # ---- what was seen: nodes and the rest

    def node_seen(self, node: Node) -> None:
        """A node is there, or has changed."""
        new = node.name not in self._nodes
        self._nodes[node.name] = node
        if self._components.assignments.set_node(node):
            self._pods.happened.add(Event.NODE_ADDED if new else Event.NODE_CHANGED)
            for plugin in self._components.plugins:
                plugin.node_seen(node)
            if new:
                self._components.nominations.node_seen(node.name)

    def node_gone(self, name: str, now_s: float) -> None:
        """A node was deleted. Pods decided for it and not sent there yet wait again; its residents keep its name."""
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
        """A PodDisruptionBudget is there, or has changed."""
        self._budgets.set(budget)

    def budget_gone(self, namespace: str, name: str) -> None:
        """A PodDisruptionBudget was deleted."""
        self._budgets.remove(namespace, name)

    def namespace_seen(self, facts: NamespaceFacts) -> None:
        """A namespace is there, or its labels have changed."""
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
        """What a node reported of itself, in the order of `arrays.Report`. Profiles that read reports fall back when it is stale."""
        self._components.assignments.report(node, values)

    def reported(self, node: str) -> tuple[float, ...]:
        """What a node reported last, in the order of `arrays.Report`, NaN where it never did; empty for a node that is not known."""
        encoder = self._components.assignments.encoder
        row = encoder.node_rows.get(node)
        return tuple(encoder.nodes().report[row].tolist()) if row is not None else ()

    def report_all(self, nodes: Sequence[str], values: Float) -> None:
        """What several nodes reported: `float64[len(nodes), len(Report)]`, a row of NaN for one that reported nothing."""
        self._components.assignments.report_all(nodes, values)

    # ---- what was measured

    @property
    def wants_measurements(self) -> bool:
        """Whether the policy makes use of what pods are measured to use, or of their latency."""
        return self.profile.measures_use or self.profile.weighs_slack or self.profile.moves_victims

    def number_of(self, uid: str) -> int:
        """The engine's number of a pod, by which measurements name it: stable while the pod is known, -1 for one that is not."""
        entry = self._pods.by_uid.get(uid)
        return entry.number if entry is not None else -1

    def metric_seen(self, metric: NodeMetric, now_s: float) -> None:
        """What the agent of a node measured of its pods. Estimates are corrected by all such metrics together, once a minute, before a judgement."""
        if self.profile.measures_use:
            self._measurements.note(metric, self._pods.by_key)

    def _correct_estimates(self, now_s: float) -> None:
        """Take over what was measured since, and the slack that is left."""
        if not (self.profile.measures_use or self.profile.weighs_slack) or not self._measurements.is_due(now_s):
            return
        taken = self._measurements.take()
        numbers = np.array([self.number_of(uid) for uid in taken], dtype=np.int64)
        cpu = np.array([use.cpu_m / 1000.0 for use in taken.values()], dtype=np.float64)
        memory = np.array([use.memory_bytes for use in taken.values()], dtype=np.float64)
        self.usage_measured(numbers, cpu, memory, now_s)

    def usage_measured(self, numbers: Int, cpu_cores: Float, memory_bytes: Float, now_s: float) -> None:
        """What agents measured of running pods, columns aligned with their `numbers`; pods that are on no node are left out.

        Corrects the estimates of their shapes where the profile asks for it.
        """
        profile, assignments = self.profile, self._components.assignments
        if not (profile.measures_use or profile.weighs_slack):
            return
        self._measurements.corrected(now_s)
        assignments.write()
        estimates = assignments.estimates
        assigned = estimates.assigned_shapes()
        if profile.measures_use:
            known = assignments.on_nodes(numbers)
            estimates.measured(numbers[known], cpu_cores[known], memory_bytes[known])
            estimates.correct_use()
        if profile.weighs_slack:
            estimates.correct_slack(estimates.batch_of(assigned), now_s)
        estimates.rewrite(assigned)
        assignments.verdict_cache.forget()
        assignments.revise()

    def adopt(self, learned: tuple[Learned, ...], now_s: float) -> None:
        """Take over what another engine has measured of equal shapes."""
        if learned:
            self._components.assignments.write()
            self._components.assignments.estimates.adopt(learned)
            nothing = np.zeros(0)
            self.usage_measured(np.zeros(0, dtype=np.int64), nothing, nothing, now_s)

    def latency_measured(self, numbers: Int, p99_ratio: Float, violated: Mask, now_s: float) -> None:
        """The last window of replicas, by number: p99 over objective, and whether it was missed. Those worth moving are evicted (`Evict`), where the profile asks for it."""
        if not self.profile.moves_victims:
            return
        self._components.assignments.write()
        known = self._components.assignments.on_nodes(numbers)
        for move in self._moves.consider(numbers[known], p99_ratio[known], violated[known], now_s):
            self._outbox.say(move)

    def outgrew(self, uid: str, memory_bytes: float) -> None:
        """A pod that is being evicted for memory used this much: the estimate of its shape is raised to it. To be told before the pod is gone."""
        entry = self._pods.by_uid.get(uid)
        if entry is not None:
            assignments = self._components.assignments
            assignments.write()
            assignments.estimates.outgrew(entry.shape, memory_bytes)
            assignments.verdict_cache.forget_shapes(np.array([entry.shape]))

    # ---- what was seen: pods

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """A pod as the API server has it now; the same event twice changes nothing."""
        self._pods.pod_seen(seen, now_s)

    def pod_gone(self, uid: str, now_s: float) -> None:
        """A pod was deleted, wherever it was."""
        self._pods.pod_gone(uid, now_s)

    # ---- how instructions went

    def sending(self, uid: str, now_s: float) -> bool:
        """The bind is about to be sent. False = do not: it was taken back meanwhile (its node or the pod is gone)."""
        return self._pods.sending(uid, now_s)

    def bound(self, uid: str, now_s: float) -> None:
        """The API server has accepted the bind. It counts for good from here on; the watch will say the same."""
        self._pods.bound(uid, now_s)

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True) -> None:
        """The bind was not carried out. `retry` False = the pod no longer exists."""
        self._pods.bind_failed(uid, why, now_s, retry)

    def preempt_failed(self, uid: str, now_s: float) -> None:
        """The nomination or an eviction could not be carried out: the pod waits as before."""
        self._pods.preempt_failed(uid, now_s)

    # ---- judgement

    def decide(self, now_s: float) -> tuple[Instruction, ...]:
        """Judge up to `most_pods` waiting pods, and say what is to be done. Empty when nothing waits that may be judged now."""
        self._pods.expire(now_s)
        for plugin in self._components.plugins:
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
        for plugin in self._components.plugins:
            given = plugin.translate(given, now_s)
        return given

    def next_s(self) -> float:
        """When `decide` should be called again if nothing happens before: -inf at once, inf never."""
        if self._outbox or self._reconsidered:
            return -inf
        return min(self._judging.next_s(), self._pods.next_s(), *(each.next_s() for each in self._components.plugins))

    # ---- questions

    def story(self, uid: str) -> tuple[str, ...]:
        """What happened to a pod, oldest first; nothing for one that is not known."""
        entry = self._pods.by_uid.get(uid)
        return entry.lines() if entry is not None else ()

    def state_of(self, uid: str) -> State:
        """Where a pod is; `GONE` for one that is not known."""
        entry = self._pods.by_uid.get(uid)
        return entry.state if entry is not None else State.GONE

    def find(self, key: str) -> PodInfo | None:
        """A pod by namespace/name; read only."""
        return self._pods.by_uid.get(self._pods.by_key.get(key, ""))

    def assigned(self) -> dict[str, str]:
        """uid -> node, of every pod that is counted."""
        return {uid: entry.node for uid, entry in self._pods.by_uid.items() if entry.node}

    def pending_pods(self) -> dict[str, int]:
        """Pods that wait, by kube-scheduler's names of its queues."""
        sizes = {standing.value: pods for standing, pods in self._components.queue.sizes().items()}
        held = [entry.state for entry in self._pods.by_uid.values() if entry.state in (State.GATED, State.BLOCKED)]
        sizes["gated"] = held.count(State.GATED)
        sizes["unschedulable"] += held.count(State.BLOCKED)
        sizes["backoff"] += len(self._pods.held)
        return sizes

    def observe(self, witness: ScoreListener | None) -> None:
        """Tell this witness of every pod that is judged from now on, one by one; None = nobody, which is how judging is fast."""
        self._components.witness = self._components.placing.witness = witness

    def size(self) -> tuple[int, int]:
        """Nodes and pods that are known."""
        return len(self._nodes), len(self._pods.by_uid)

    def reserved(self) -> dict[str, str]:
        """uid -> node, of pods that are nominated."""
        return self._components.nominations.nodes()

    # ---- self-examination

    def rebuild(self, now_s: float) -> None:
        """Build everything derived anew from the facts; states, rests and nominations stay."""
        waiting = [(uid, group) for group in self._components.queue.groups() for uid in group.pods]
        nominated = [
            (self._pods.by_uid[uid], node, victims) for uid, node, victims in self._components.nominations.all()
        ]
        seats = {uid: entry.node for uid, entry in self._pods.by_uid.items() if entry.node}
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
            if uid in seats:
                assignments.assign(entry, seats[uid])
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
        """The facts, the seats, the queue and every pod's state agree. Raises `Permanent`."""
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
        """Nodes on which pods request more than there is, room kept for nominated pods aside."""
        return self._components.assignments.over_capacity()
