"""Conditions, nominations and Events of pods.

Ten thousand pods that cannot be placed would be ten thousand writes whenever their message changes, ahead of the binds
that could be made. A `StatusWriter` of its own writes the newest condition of each pod at a limited rate; Events go
through the process's recorder, which drops and counts what is too much.
A condition may be late by as many seconds as there are pods over the rate, so what is no longer true when its turn
comes is not written: the pod may have a node by then, by this replica or by the one that leads now. A pod whose bind
waits for its claims, and one whose bind or preemption failed, are told so instead of what they waited for before.
Limits: between a decision and the answer to its bind the last reason stays, as with kube-scheduler. An autoscaler adds
nodes for a pod whose reason is Unschedulable and that has no nominated node, so both are written at once, and what
nodes cannot help has another reason (ADR 49).
Source: kube-scheduler's condition (PodScheduled=False, reasons Unschedulable and SchedulerError) and its events
Scheduled, FailedScheduling, Preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.framework.instructions import HELD, Bind, ClearNomination, Evict, Preempt, Unschedulable, Victim
from cotenant.engine.framework.pod_state import DECIDED, SchedulingState
from cotenant.services.kube_process.events import NORMAL, WARNING, EventRecorder
from cotenant.services.kube_process.statuses import StatusWriter, Writer

SCHEDULER_ERROR = "SchedulerError"
StateOf = Callable[[str], SchedulingState]  # by UID


@dataclass(frozen=True, slots=True)
class CarryingOut:
    """The condition of a pod about what was decided for it: that its bind waits, or that a decision failed."""

    uid: str
    key: str
    reason: str
    message: str


class PodStatuses:
    """What pods' owners read: the condition PodScheduled, the nomination, and Events."""

    def __init__(self, conditions: StatusWriter, events: EventRecorder) -> None:
        """`conditions` has the writers of `writers`."""
        self.conditions = conditions  # for what is being written now; read only elsewhere
        self._events = events

    def nominated(self, uid: str) -> None:
        """A pod is nominated: that an earlier nomination is to be cleared is obsolete."""
        self.conditions.discard(_nomination(uid))

    async def answered(self, uid: str) -> None:
        """Wait until nothing about the pod is being written: the server must not store it after what is sent next."""
        await self.conditions.answered(uid)
        await self.conditions.answered(_nomination(uid))

    def awaits_claims(self, bind: Bind) -> None:
        """A pod has a node, and its bind waits for its claims."""
        claims = [f"PersistentVolumeClaim {choice.claim}" for choice in bind.claims]
        claims += [f"ResourceClaim {holding.key or 'of its extended resources'}" for holding in bind.holds.claims]
        message = f"It was given {bind.node}; its bind waits for {', '.join(claims)}."
        self.conditions.put(bind.uid, CarryingOut(bind.uid, bind.key, HELD, message))

    def scheduled(self, bind: Bind) -> None:
        """A pod was bound; a condition that still waits to be written is obsolete."""
        self.conditions.discard(bind.uid)
        self._event(bind.uid, bind.key, NORMAL, "Scheduled", f"Successfully assigned {bind.key} to {bind.node}")

    def unschedulable(self, why: Unschedulable) -> None:
        """A pod waits, for these reasons."""
        if why.nominated:
            self.nominated(why.uid)
        self.conditions.put(why.uid, why)
        self._event(why.uid, why.key, WARNING, "FailedScheduling", why.message)

    def failed(self, uid: str, key: str, why: str) -> None:
        """A decision could not be carried out."""
        self.conditions.put(uid, CarryingOut(uid, key, SCHEDULER_ERROR, why))
        self._event(uid, key, WARNING, "FailedScheduling", why)

    def nomination_cleared(self, cleared: ClearNomination) -> None:
        """A pod is no longer nominated."""
        self.conditions.put(_nomination(cleared.uid), cleared)

    def preempted(self, victim: Victim, by: Preempt) -> None:
        """A pod is evicted for another."""
        self._event(victim.uid, victim.key, NORMAL, "Preempted", f"Preempted by pod {by.uid} on node {victim.node}")

    def evicted(self, evict: Evict) -> None:
        """A pod was evicted for a reason of its own."""
        self._event(evict.victim.uid, evict.victim.key, NORMAL, evict.reason, evict.message)

    def eviction_said(self, uid: str, key: str, reason: str, message: str) -> None:
        """How far the eviction of a pod by request is."""
        self._event(uid, key, NORMAL, reason, message)

    def waiting(self) -> int:
        """Conditions and nominations that are not written yet."""
        return self.conditions.waiting()

    def _event(self, uid: str, key: str, type_: str, reason: str, message: str) -> None:
        self._events.record(PODS, key, uid, type_, reason, message)


def writers(state_of: StateOf) -> Mapping[type, Writer]:
    """The writes, each of which asks first whether it is still true. `state_of`: of a pod in the engine."""
    return {
        Unschedulable: partial(_write_reason, state_of),
        CarryingOut: partial(_write_carrying_out, state_of),
        ClearNomination: partial(_clear_nomination, state_of),
    }


def _nomination(uid: str) -> str:
    return f"nomination of {uid}"


async def _write_reason(state_of: StateOf, client: Client, why: Unschedulable) -> None:
    if _waits(state_of(why.uid)):
        nominated = {"nominatedNodeName": why.nominated} if why.nominated else {}
        await _patch(client, why.uid, why.key, {"conditions": [_condition(why.reason, why.message)], **nominated})


async def _write_carrying_out(state_of: StateOf, client: Client, what: CarryingOut) -> None:
    state = state_of(what.uid)
    if state is SchedulingState.BINDING if what.reason == HELD else _waits(state):
        await _patch(client, what.uid, what.key, {"conditions": [_condition(what.reason, what.message)]})


async def _clear_nomination(state_of: StateOf, client: Client, cleared: ClearNomination) -> None:
    if _waits(state_of(cleared.uid)):
        await _patch(client, cleared.uid, cleared.key, {"nominatedNodeName": None})


def _waits(state: SchedulingState) -> bool:
    return state not in DECIDED and state is not SchedulingState.GONE


def _condition(reason: str, message: str) -> Mapping[str, object]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


async def _patch(client: Client, uid: str, key: str, status: Mapping[str, object]) -> None:
    namespace, _, name = key.partition("/")
    await client.patch_status(PODS, namespace, name, {"metadata": {"uid": uid}, "status": status})
