"""Makes outcomes of judgement true: assignments, binds, refusals, nominations.

What was found for one pod must count before the next is judged, in the queue, in the assignments, with the plugins and
in what is sent. Judgement yields values (engine/cycle/outcomes.py), and this is the only part of a round that changes
anything by them, each in one place.
Limits: plugins that place whole groups apply what they found by `assume`.
"""

from __future__ import annotations

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.outcomes import Nominated, Outcome, Placed, Rejected
from cotenant.engine.cycle.placing import PodJudgement
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.waiting_pods import WaitingPods
from cotenant.engine.framework.events import EventKind
from cotenant.engine.framework.instructions import Bind, ClaimChoice, Preempt
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.model.decisions.record import DecisionRecord


class Applying:
    """Applies what judgement found in one cluster."""

    def __init__(self, components: ClusterComponents, pods: Pods, outbox: Outbox) -> None:
        self._components = components
        self._pods = pods
        self._profile = components.profile
        self._outbox = outbox
        self._binds = 0  # so far
        self.waiting = WaitingPods(components, pods, outbox, self._send)

    def apply(self, outcome: Outcome, now_s: float) -> None:
        """Make one outcome true."""
        if isinstance(outcome, Placed):
            self._place(outcome, now_s)
        elif isinstance(outcome, Rejected):
            self._reject(outcome, now_s)
        elif isinstance(outcome, Nominated):
            self._nominate(outcome, now_s)
        else:
            outcome.entry.attempts += outcome.is_evaluated
            for call in outcome.entry.calls.withdraw:
                call(outcome.entry)

    # ---- nodes

    def _place(self, placed: Placed, now_s: float) -> None:
        """Bind a pod that found a node, or let it wait until all plugins permit it."""
        entry, judgement = placed.entry, placed.judgement
        entry.attempts += 1
        record = self._components.placing.record(entry, judgement, now_s)
        if not placed.is_permitted:
            self._assign(entry, placed.group, judgement, SchedulingState.WAITING, now_s)
            self.waiting.remember(entry, record)
            return
        self._assign(entry, placed.group, judgement, SchedulingState.ASSUMED, now_s)
        others = [other for call in entry.calls.allowed_with for other in call(entry)]
        self._send(entry, record, 1 + len(others), now_s)
        if others:
            self.waiting.allow(others, 1 + len(others), now_s)

    def assume(self, entry: PodInfo, group: QueuedGroup, judgement: PodJudgement, together: int, now_s: float) -> None:
        """Bind a pod that was placed as a member of a whole group."""
        record = self._components.placing.record(entry, judgement, now_s)
        self._assign(entry, group, judgement, SchedulingState.ASSUMED, now_s)
        self._send(entry, record, together, now_s)

    def _assign(
        self, entry: PodInfo, group: QueuedGroup, judgement: PodJudgement, state: SchedulingState, now_s: float
    ) -> None:
        uid, nominations = entry.seen.uid, self._components.nominations
        if uid in nominations.by_uid:
            nominations.drop(uid)
        self._components.queue.remove(uid)
        self._components.queue.placed(group)
        entry.move(state, now_s)
        assignments = self._components.assignments
        assignments.note_placed(entry, judgement.row)
        if self._profile.weighs_slack:
            assignments.estimates.started(entry.shape, now_s)
        entry.last_message = ""
        self._pods.happened.add(EventKind.POD_ASSIGNED)

    def _send(self, entry: PodInfo, record: DecisionRecord, together: int, now_s: float) -> None:
        """Request the bind of an assigned pod; `together` pods are bound in this step."""
        seen = entry.seen
        for call in entry.calls.pre_bind:
            record = call(entry, record, together)
        self._pods.answers[seen.uid] = entry
        self._binds += 1
        entry.bind = self._binds
        claims = self._choices(entry) if seen.volumes else ()
        waited_s = now_s - entry.queued_s
        self._outbox.say(
            Bind(
                seen.uid,
                seen.pod.key,
                entry.node,
                record,
                claims,
                waited_s,
                entry.attempts,
                entry.holds,
                seen.written,
                seen.settled,
                entry.bind,
            )
        )

    def _choices(self, entry: PodInfo) -> tuple[ClaimChoice, ...]:
        bindings = {need.claim: need.binding for need in entry.seen.volumes}
        chosen = self._components.assignments.narrowing.choices(entry.number, entry.row)
        return tuple(ClaimChoice(choice.claim, bindings[choice.claim], choice.volume) for choice in chosen)

    # ---- refusals

    def _reject(self, rejected: Rejected, now_s: float) -> None:
        verdict = rejected.verdict
        self._components.queue.refuse(rejected.group, verdict, now_s)
        for uid in rejected.group.pods if verdict.is_told else ():
            held = verdict.is_held or bool(self._components.nominations.moving_of(uid))  # room is made by moves
            self._outbox.waits(self._pods.by_uid[uid], verdict.message, verdict.record, verdict.missing, held=held)
        self._reconsider_nomination(rejected.first, now_s)

    def _reconsider_nomination(self, first: PodInfo, now_s: float) -> None:
        """A refused pod keeps its nomination while pods on its node are still ending."""
        nominations, preempting, uid = self._components.nominations, self._components.preempting, first.seen.uid
        if uid not in nominations.by_uid:
            return
        vain = bool(nominations.victims_of(uid)) and preempting.is_in_vain(first, now_s)
        if vain or not nominations.wait_for(uid, preempting.ending(first)):
            self._pods.drop_nomination(first)
            self._pods.requeue(first, now_s)

    def _nominate(self, nominated: Nominated, now_s: float) -> None:
        entry, found, verdict = nominated.entry, nominated.preempt, nominated.verdict
        uid, nominations, queue = entry.seen.uid, self._components.nominations, self._components.queue
        victims = set(nominated.waits_for)
        before = queue.group_of(uid)
        late = self._components.preempting.late((entry,))
        message = f"{verdict.message} preemption: {_in_words(found)}{late and f', as {late}'}."
        self._outbox.waits(entry, message, verdict.record, verdict.missing, nominated=found.node)
        queue.remove(uid)
        nominations.drop(uid)
        for other in nominations.add(entry, found.node, victims):
            self._pods.drop_nomination(self._pods.by_uid[other])
            self._pods.requeue(self._pods.by_uid[other], now_s)
        group = self._pods.queued(entry, uid, "Preempted", self._components.budget.is_large(entry.seen))
        if before is not None and not victims:
            group.refusals = before.refusals  # a repeated failure increases its back-off
        queue.refuse(group, verdict, now_s)
        if not victims:  # resources were freed meanwhile: no victim's end would wake it
            queue.wake(group, now_s, "Preempted")
        self._outbox.say(found)
        nominations.ask((victim.uid for victim in found.victims), uid, now_s)
        for victim in victims:
            self.waiting.preempted(victim, now_s)


def _in_words(found: Preempt) -> str:
    """What the pod waits for, instead of what it waited for before."""
    if not found.victims:
        return f"it waits for {found.node}, where pods that end already make room"
    more = f" and {len(found.victims) - 1} more" if len(found.victims) > 1 else ""
    return f"it waits for {found.node}, where {found.victims[0].key}{more} must end first"
