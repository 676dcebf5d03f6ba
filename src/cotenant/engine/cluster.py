"""The scheduler of a real cluster as a state machine: what was seen goes in, what is to be done comes out. No I/O, no clock.

Problem: an API server tells of a cluster late, twice, out of order, and while our own answers are still on the way; the judgement must see
one consistent cluster all the same. Choice: every event only corrects facts (nodes by name, pods by UID), a decided pod counts at once, and
`decide` judges the queue over arrays that are brought up to date first. Everything derived can be built anew from the facts, and
`validate` holds it against them. The process around it (services/scheduler) carries out the instructions and says how that went.

Limits: one profile; a pod's deadline and estimates are those its annotations gave; events about pods must come from one ordered watch per
pod (a UID that was seen on a node is never believed to be off it again, except by its deletion).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from cotenant.engine.backoff import Backoff
from cotenant.engine.cluster_queue import ClusterQueue, Group, Standing, Verdict
from cotenant.engine.events import EVERYTHING, Event, helping
from cotenant.engine.instructions import Bind, ClaimChoice, ClearNomination, Instruction, Preempt, Unschedulable
from cotenant.engine.nominations import Nominations
from cotenant.engine.placing import ROW_LOCAL, Judgement, Placing
from cotenant.engine.podstate import SEATED, Entry, State
from cotenant.engine.preempting import Preempting
from cotenant.engine.preemption import Budgets
from cotenant.engine.seating import Seating, half_of_a_node
from cotenant.engine.told import Memory
from cotenant.engine.turns import check_states, in_order, obstacle, rank
from cotenant.model.decision import DecisionRecord
from cotenant.model.errors import Permanent
from cotenant.model.node import Node
from cotenant.model.observed import DisruptionBudget, NamespaceFacts, ObservedPod
from cotenant.policy.placement.profiles import Profile

UNANSWERED_S = 300.0  # a decision whose bind nobody has answered for so long is taken back
_REMEMBERED = 20_000
_MOST_COUNTS = 200
_MOST_PENDING = 50_000
_PREEMPTIONS_A_ROUND = 4
_MANY_GROUPS = 256
_WAKE_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Settings:
    """What may be set about the engine."""

    scheduler: str = "cotenant"  # spec.schedulerName of the pods that are ours
    most_pods: int = 128  # judged in one call of `decide`
    backoff: Backoff = field(default_factory=Backoff)
    unanswered_s: float = UNANSWERED_S
    flush_s: float = 300.0


class Cluster:
    """One scheduler of one real cluster. Times are Unix seconds."""

    def __init__(self, profile: Profile, rng: np.random.Generator, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.profile = profile
        self.counts: dict[str, int] = {}  # what went wrong or was odd, by name
        self._rng = rng
        self._nodes: dict[str, Node] = {}
        self._budgets = Budgets()
        self._namespaces: dict[str, NamespaceFacts] = {}
        self._reports: dict[str, tuple[float, ...]] = {}
        self._pods: dict[str, Entry] = {}
        self._by_key: dict[str, str] = {}  # namespace/name -> uid
        self._sat: dict[str, None] = {}  # UIDs once seen on a node and gone since: never again without one
        self._held: list[Entry] = []
        self._answers: dict[str, Entry] = {}  # decided, not answered
        self._happened: set[Event] = set()
        self._pending: list[Instruction] = []  # given out by the next `decide`
        self._woken_s = 0.0
        self._start_empty()

    def _start_empty(self) -> None:
        memory = Memory(self.profile.score)
        self._seating = Seating(half_of_a_node(self._nodes), self.profile.knobs.pressure_factor, memory)
        self.queue = ClusterQueue(self.settings.backoff, self.settings.flush_s)
        self.nominations = Nominations(self._seating)
        self._placing = Placing(self._seating, self.profile, self._rng)
        self._preempting = Preempting(self._seating, self.nominations, self._budgets, self.profile)

    # ---- what was seen: nodes and the rest

    def node_seen(self, node: Node) -> None:
        """A node is there, or has changed."""
        new = node.name not in self._nodes
        self._nodes[node.name] = node
        if self._seating.node_seen(node):
            self._happened.add(Event.NODE_ADDED if new else Event.NODE_CHANGED)
            if new:
                self.nominations.node_seen(node.name)

    def node_gone(self, name: str, now_s: float) -> None:
        """A node was deleted. Pods decided for it and not sent there yet wait again; its residents keep its name."""
        if self._nodes.pop(name, None) is None:
            return
        self._reports.pop(name, None)
        for entry in [e for e in self._seating.residents.get(name, {}).values() if e.state is State.ASSUMED]:
            self._take_back(entry)
            self._count("decided for a node that went away")
            self._enter(entry, now_s, "NodeDelete")
        for uid in self.nominations.on(name):
            self._drop_nomination(self._pods[uid])
        self._seating.node_gone(name)
        self._happened.add(Event.NODE_GONE)

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
            self._seating.narrowing.set_namespace(facts)
            self._happened.add(Event.NAMESPACE)

    def namespace_gone(self, name: str) -> None:
        """A namespace was deleted."""
        if self._namespaces.pop(name, None) is not None:
            self._seating.narrowing.set_namespace(NamespaceFacts(name))
            self._happened.add(Event.NAMESPACE)

    def report(self, node: str, values: tuple[float, ...]) -> None:
        """What a node reported of itself, in the order of `arrays.Report`. Profiles that read reports fall back when it is stale."""
        if node in self._nodes:
            self._reports[node] = values
            self._seating.report(node, values)

    # ---- what was seen: pods

    def pod_seen(self, seen: ObservedPod, now_s: float) -> None:
        """A pod as the API server has it now; the same event twice changes nothing."""
        entry = self._pods.get(seen.uid)
        if entry is not None:
            if seen != entry.seen:
                self._changed(entry, seen, now_s)
            return
        counts = bool(seen.node)
        if (
            seen.phase.is_final
            or not (counts or seen.scheduler == self.settings.scheduler)
            or (seen.terminating and not counts)
        ):
            return
        if not counts and seen.uid in self._sat:
            self._count("stale event: a pod that was on a node")
            return
        other = self._pods.get(self._by_key.get(seen.pod.key, ""))
        if other is not None:
            if other.seen.created_s > seen.created_s:
                self._count("stale event: a pod whose name was used again")
                return
            self._end(other, now_s)  # its deletion was not seen
        entry = Entry(seen)
        self._pods[seen.uid] = entry
        self._by_key[seen.pod.key] = seen.uid
        self._seating.open(entry)
        if counts:
            self._settle(entry, now_s)
        else:
            entry.queued_s = now_s
            if seen.nominated_node:
                self._renominate(entry)
            self._enter(entry, now_s, "PodAdd")

    def pod_gone(self, uid: str, now_s: float) -> None:
        """A pod was deleted, wherever it was."""
        entry = self._pods.get(uid)
        if entry is not None:
            self._end(entry, now_s)

    def _changed(self, entry: Entry, seen: ObservedPod, now_s: float) -> None:
        before = entry.seen
        if before.node and not seen.node:
            self._count("stale event: a pod that was on a node")
            return
        if seen.phase.is_final:
            self._end(entry, now_s)
            return
        moved = bool(seen.node) and (entry.state not in SEATED or entry.node != seen.node)
        if not seen.node and entry.state not in SEATED:
            if seen.terminating:
                self._end(entry, now_s)
                return
            judged_alike = (seen.pod, seen.gates, seen.volumes, seen.unsupported, seen.preempts) == (
                before.pod,
                before.gates,
                before.volumes,
                before.unsupported,
                before.preempts,
            )
            if judged_alike:
                entry.seen = seen
                return
            self._leave_queue(entry)
            self._drop_nomination(entry)
        reshaped = seen.pod != before.pod
        if moved and entry.state in SEATED:
            self._count("bound elsewhere than decided")
            self._take_back(entry)
        elif moved:
            self._leave_queue(entry)
            self._drop_nomination(entry)
        entry.seen = seen
        if reshaped:
            self._seating.reopen(entry, before.pod.key)
            self._happened.add(Event.POD_CHANGED)
        else:
            self._seating.retold(entry, before)
        if moved:
            self._settle(entry, now_s)
        elif seen.node:
            if entry.state is not State.BOUND:
                self._confirm(entry, now_s)
        elif entry.state not in SEATED:
            self._enter(entry, now_s, "PodUpdate")

    def _settle(self, entry: Entry, now_s: float) -> None:
        """The API server says that it sits on a node."""
        self._seating.sit(entry, entry.seen.node)
        if entry.state is not State.BOUND:
            entry.move(State.BOUND, now_s)
        self._happened.add(Event.POD_SEATED)

    def _confirm(self, entry: Entry, now_s: float) -> None:
        self._answers.pop(entry.seen.uid, None)
        entry.move(State.BOUND, now_s)
        entry.failures = 0

    def _end(self, entry: Entry, now_s: float) -> None:
        """It is deleted, or has run to its end: it holds nothing."""
        uid = entry.seen.uid
        self._leave_queue(entry)
        self._drop_nomination(entry, tell=False)
        self._answers.pop(uid, None)
        if entry.node:
            self._happened.add(Event.POD_GONE)
        if entry.state in SEATED:
            self._sat[uid] = None
            if len(self._sat) > _REMEMBERED:
                del self._sat[next(iter(self._sat))]
        self._seating.close(entry)
        entry.move(State.GONE, now_s)
        del self._pods[uid]
        if self._by_key.get(entry.seen.pod.key) == uid:
            del self._by_key[entry.seen.pod.key]
        for preemptor in self.nominations.victim_gone(uid):
            group = self.queue.group_of(preemptor)
            if group is not None:
                self.queue.wake(group, now_s, "AssignedPodDelete", at_once=True)

    # ---- the way into the queue and out of it

    def _enter(self, entry: Entry, now_s: float, event: str) -> None:
        """It waits: behind its gates, for what blocks it, or in the queue."""
        seen = entry.seen
        if seen.gates:
            entry.move(State.GATED, now_s)
            return
        why = obstacle(seen)
        if why:
            entry.move(State.BLOCKED, now_s)
            self._tell(entry, why, self._record(entry, why, now_s))
            return
        entry.move(State.QUEUED, now_s)
        group = self.queue.add(
            seen.uid, self._kind(entry), seen.pod.priority, entry.shape, rank(entry.seen, self.profile), event
        )
        if group.verdict is not None and group.standing is not Standing.ACTIVE:
            self._tell(entry, group.verdict.message, group.verdict.record)  # one judgement speaks for all

    def _kind(self, entry: Entry) -> Hashable:
        """What makes pods in the queue interchangeable."""
        seen = entry.seen
        if seen.uid in self.nominations:
            return seen.uid
        kind = self._seating.narrowing.kind_of(entry.number)
        return (entry.shape, seen.pod.priority, seen.preempts, kind, seen.volumes)

    def _leave_queue(self, entry: Entry) -> None:
        self.queue.remove(entry.seen.uid)
        if entry.state is State.HELD:
            self._held.remove(entry)

    def _take_back(self, entry: Entry) -> None:
        """Undo a decision, or a seat that proved wrong."""
        self._answers.pop(entry.seen.uid, None)
        self._seating.stand(entry)
        self._happened.add(Event.POD_GONE)

    # ---- how instructions went

    def sending(self, uid: str, now_s: float) -> bool:
        """The bind is about to be sent. False = do not: it was taken back meanwhile (its node or the pod is gone)."""
        entry = self._pods.get(uid)
        if entry is None or entry.state is not State.ASSUMED:
            return False
        entry.move(State.BINDING, now_s)
        return True

    def bound(self, uid: str, now_s: float) -> None:
        """The API server has accepted the bind. It counts for good from here on; the watch will say the same."""
        entry = self._pods.get(uid)
        if entry is not None and entry.state is State.BINDING:
            self._confirm(entry, now_s)

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True) -> None:
        """The bind was not carried out. `retry` False = the pod no longer exists."""
        entry = self._pods.get(uid)
        if entry is None or entry.state not in (State.ASSUMED, State.BINDING):
            return
        self._count(f"bind failed: {why}")
        self._take_back(entry)
        if not retry or entry.seen.terminating:
            self._end(entry, now_s)
            return
        entry.failures += 1
        entry.move(State.HELD, now_s)
        self._held.append(entry)

    def preempt_failed(self, uid: str, now_s: float) -> None:
        """The nomination or an eviction could not be carried out: the pod waits as before."""
        entry = self._pods.get(uid)
        if entry is None or uid not in self.nominations:
            return
        self._count("preemption failed")
        self._drop_nomination(entry)
        if entry.state is State.QUEUED:  # it rests, or the next try would follow at once
            self.queue.remove(uid)
            entry.failures += 1
            entry.move(State.HELD, now_s)
            self._held.append(entry)

    # ---- judgement

    def decide(self, now_s: float) -> tuple[Instruction, ...]:
        """Judge up to `most_pods` waiting pods, and say what is to be done. Empty when nothing waits that may be judged now."""
        self._expire(now_s)
        self._seating.write()
        self._wake(now_s)
        self.queue.release(now_s)
        taken = self.queue.take(self.settings.most_pods)
        if taken:
            refused = self._judge(taken, now_s)
            self._refuse(refused, now_s)
            self.queue.settle(taken)
        given, self._pending = tuple(self._pending), []
        return given

    def next_s(self) -> float:
        """When `decide` should be called again if nothing happens before: -inf at once, inf never."""
        if self._pending:
            return -inf
        soonest = self.queue.next_s()
        if (self._happened or self._seating.changed) and self.queue.unschedulable_groups():
            soonest = min(soonest, self._wake_again_s())
        for entry in self._held:
            soonest = min(soonest, entry.since_s + self.settings.backoff.rest_s(entry.failures))
        if self._answers:
            soonest = min(soonest, next(iter(self._answers.values())).since_s + self.settings.unanswered_s)
        return soonest

    def _expire(self, now_s: float) -> None:
        for entry in [e for e in self._held if e.since_s + self.settings.backoff.rest_s(e.failures) <= now_s]:
            self._held.remove(entry)
            self._enter(entry, now_s, "BackoffComplete")
        for entry in list(self._answers.values()):
            if entry.since_s + self.settings.unanswered_s > now_s:
                break
            self.bind_failed(entry.seen.uid, "no answer", now_s)

    def _wake(self, now_s: float) -> None:
        """Let the groups try again that what has happened may help: exactly those where the row's own filters decide."""
        happened, rows = self._happened, self._seating.changed
        if not (happened or rows) or now_s < self._wake_again_s():
            return
        self._woken_s = now_s
        if self.queue.unschedulable_groups():
            event = min(happened, default=Event.NODE_CHANGED)
            by_row: list[Group] = []
            for group in self.queue.unschedulable():
                filters = group.verdict.filters if group.verdict is not None else frozenset({EVERYTHING})
                if any(helping(name) & happened for name in filters - ROW_LOCAL):
                    self.queue.wake(group, now_s, event.value)
                elif filters & ROW_LOCAL or not filters:
                    by_row.append(group)
            if by_row and rows:
                for group, helps in zip(
                    by_row, self._placing.helped([g.shape for g in by_row], sorted(rows)), strict=True
                ):
                    if helps:
                        self.queue.wake(group, now_s, event.value)
        happened.clear()
        rows.clear()

    def _wake_again_s(self) -> float:
        """When to look again for groups to wake: at once, unless there are so many that looking is work."""
        return self._woken_s + _WAKE_EVERY_S if self.queue.unschedulable_groups() > _MANY_GROUPS else -inf

    def _judge(self, taken: list[tuple[str, Group]], now_s: float) -> dict[int, tuple[Entry, Group]]:
        """Place what can be placed; the groups that were refused, each with its first pod that was."""
        refused: dict[int, tuple[Entry, Group]] = {}
        for segment in self.nominations.segments(
            in_order(
                [(self._pods[uid], group) for uid, group in taken], self.profile, self._seating.ledger.shapes, now_s
            )
        ):
            left = [(entry, group) for entry, group in segment.pods if id(group) not in refused]
            if not left:
                continue
            judged = self._placing.place([entry for entry, _ in left], now_s, segment.only)
            for (entry, group), judgement in zip(left, judged, strict=True):
                entry.attempts += int(judgement.row >= 0 or judgement.account.counts[judgement.at, 0] >= 0)
                if judgement.row >= 0:
                    self._assume(entry, group, judgement, now_s)
                elif segment.last:
                    refused.setdefault(id(group), (entry, group))
        return refused

    def _assume(self, entry: Entry, group: Group, judgement: Judgement, now_s: float) -> None:
        uid = entry.seen.uid
        record = self._placing.told(entry, judgement, now_s)
        self.nominations.drop(uid)
        self.queue.remove(uid)
        self.queue.placed(group)
        self._seating.placed(entry, judgement.row)
        entry.move(State.ASSUMED, now_s)
        entry.told = ""
        self._answers[uid] = entry
        self._happened.add(Event.POD_SEATED)
        claims = self._choices(entry) if entry.seen.volumes else ()
        self._pending.append(
            Bind(uid, entry.seen.pod.key, entry.node, record, claims, now_s - entry.queued_s, entry.attempts)
        )

    def _choices(self, entry: Entry) -> tuple[ClaimChoice, ...]:
        bindings = {need.claim: need.binding for need in entry.seen.volumes}
        chosen = self._seating.narrowing.choices(entry.number, entry.row)
        return tuple(ClaimChoice(choice.claim, bindings[choice.claim], choice.volume) for choice in chosen)

    def _refuse(self, refused: dict[int, tuple[Entry, Group]], now_s: float) -> None:
        allowance = _PREEMPTIONS_A_ROUND
        for first, group in refused.values():
            verdict = self._placing.verdict(first, now_s)
            words, done = "", False
            for uid in list(group.pods):
                entry = self._pods[uid]
                words = self._preempting.obstacle(entry)
                if words or not self._preempting.could_help(entry):
                    done = True
                    break
                if allowance == 0:
                    break
                allowance -= 1
                attempt = self._preempting.attempt(entry)
                if attempt.preempt is None:
                    words, done = attempt.words, True
                    break
                self._nominate(entry, attempt.preempt, set(attempt.waits_for), verdict, now_s)
            if not group.pods or not done:
                continue  # all of them preempt, or more of them may, next time: the group stays active
            if words:
                verdict = Verdict(verdict.record, f"{verdict.message} {words.rstrip('.')}.", verdict.filters)
            self.queue.refuse(group, verdict, now_s)
            for uid in group.pods:
                self._tell(self._pods[uid], verdict.message, verdict.record)
            if first.seen.uid in self.nominations and not self.nominations.wait_for(
                first.seen.uid, self._preempting.ending(first)
            ):
                self._drop_nomination(first)  # nobody is going any more, and it did not fit all the same
                self._requeue(first, now_s)

    # ---- nominations

    def _nominate(self, entry: Entry, found: Preempt, victims: set[str], verdict: Verdict, now_s: float) -> None:
        uid = entry.seen.uid
        self._tell(entry, verdict.message, verdict.record)
        self.queue.remove(uid)
        self.nominations.drop(uid)
        for other in self.nominations.add(entry, found.node, victims):
            self._drop_nomination(self._pods[other])
            self._requeue(self._pods[other], now_s)
        group = self.queue.add(
            uid, uid, entry.seen.pod.priority, entry.shape, rank(entry.seen, self.profile), "Preempted"
        )
        self.queue.refuse(group, verdict, now_s)
        self._pending.append(found)

    def _renominate(self, entry: Entry) -> None:
        """A pod that came nominated (we were restarted): keep the room, wait for victims that are still going."""
        node = entry.seen.nominated_node
        victims = {
            other
            for other, resident in self._seating.residents.get(node, {}).items()
            if resident.seen.terminating and resident.seen.pod.priority < entry.seen.pod.priority
        }
        self.nominations.add(entry, node, victims)

    def _drop_nomination(self, entry: Entry, tell: bool = True) -> None:
        if self.nominations.drop(entry.seen.uid) and tell:
            self._pending.append(ClearNomination(entry.seen.uid, entry.seen.pod.key))

    def _requeue(self, entry: Entry, now_s: float) -> None:
        if self.queue.remove(entry.seen.uid):
            self._enter(entry, now_s, "PodUpdate")

    # ---- words

    def _tell(self, entry: Entry, message: str, record: DecisionRecord) -> None:
        if entry.told != message:
            entry.told = message
            if len(self._pending) > _MOST_PENDING:  # nobody takes them: a replica that does not lead
                del self._pending[: _MOST_PENDING // 2]
            self._pending.append(Unschedulable(entry.seen.uid, entry.seen.pod.key, "Unschedulable", message, record))

    def _record(self, entry: Entry, why: str, now_s: float) -> DecisionRecord:
        return DecisionRecord(
            pod=entry.seen.pod.key,
            at_s=now_s,
            nodes=len(self._nodes),
            node=None,
            waiting_because=why,
            policy=self.profile.name,
        )

    def _count(self, what: str) -> None:
        if what in self.counts or len(self.counts) < _MOST_COUNTS:
            self.counts[what] = self.counts.get(what, 0) + 1

    # ---- questions

    def story(self, uid: str) -> tuple[str, ...]:
        """What happened to a pod, oldest first; nothing for one that is not known."""
        entry = self._pods.get(uid)
        return entry.lines() if entry is not None else ()

    def state_of(self, uid: str) -> State:
        """Where a pod is; `GONE` for one that is not known."""
        entry = self._pods.get(uid)
        return entry.state if entry is not None else State.GONE

    def find(self, key: str) -> Entry | None:
        """A pod by namespace/name; read only."""
        return self._pods.get(self._by_key.get(key, ""))

    def seats(self) -> dict[str, str]:
        """uid -> node, of every pod that is counted."""
        return {uid: entry.node for uid, entry in self._pods.items() if entry.node}

    def pending_pods(self) -> dict[str, int]:
        """Pods that wait, by kube-scheduler's names of its queues."""
        sizes = {standing.value: pods for standing, pods in self.queue.sizes().items()}
        held = [entry.state for entry in self._pods.values() if entry.state in (State.GATED, State.BLOCKED)]
        sizes["gated"] = held.count(State.GATED)
        sizes["unschedulable"] += held.count(State.BLOCKED)
        sizes["backoff"] += len(self._held)
        return sizes

    def size(self) -> tuple[int, int]:
        """Nodes and pods that are known."""
        return len(self._nodes), len(self._pods)

    def reserved(self) -> dict[str, str]:
        """uid -> node, of pods that are nominated."""
        return self.nominations.nodes()

    # ---- self-examination

    def rebuild(self, now_s: float) -> None:
        """Build everything derived anew from the facts; states, rests and nominations stay."""
        waiting = [(uid, group) for group in self.queue.groups() for uid in group.pods]
        nominated = [(self._pods[uid], node, victims) for uid, node, victims in self.nominations.all()]
        seats = {uid: entry.node for uid, entry in self._pods.items() if entry.node}
        queue = self.queue
        self._start_empty()
        for node in self._nodes.values():
            self._seating.node_seen(node)
        for facts in self._namespaces.values():
            self._seating.narrowing.set_namespace(facts)
        for name, values in self._reports.items():
            self._seating.report(name, values)
        for uid, entry in self._pods.items():
            entry.node = ""
            self._seating.open(entry)
            if uid in seats:
                self._seating.sit(entry, seats[uid])
        for entry, name, victims in nominated:
            self.nominations.add(entry, name, victims)
        for uid, _ in waiting:
            entry = self._pods[uid]
            self.queue.add(
                uid, self._kind(entry), entry.seen.pod.priority, entry.shape, rank(entry.seen, self.profile), "Rebuild"
            )
        self.queue.incoming = queue.incoming
        self._count("rebuilt")

    def validate(self) -> None:
        """The facts, the seats, the queue and every pod's state agree. Raises `Permanent`."""
        self._seating.validate()
        self._placing.validate()
        self.queue.validate()
        self.nominations.validate()
        rows = self._seating.encoder.node_rows
        if rows.keys() != self._nodes.keys():
            raise Permanent("the rows and the nodes that were seen differ")
        for name, node in self._nodes.items():
            if self._seating.encoder.node(rows[name]) != node:
                raise Permanent(f"node {name} is not encoded as it was last seen")
        check_states(self._pods, self.queue, self._answers, self._held)
        if set(self._by_key.values()) != set(self._pods):
            raise Permanent("names and UIDs disagree")

    def over_capacity(self) -> tuple[str, ...]:
        """Nodes on which pods request more than there is, room kept for nominated pods aside."""
        return self._seating.over_capacity()
