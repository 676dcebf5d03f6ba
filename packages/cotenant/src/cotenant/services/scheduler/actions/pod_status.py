"""Conditions, nominations and Events of pods.

Ten thousand pods that cannot be placed would be ten thousand writes whenever their message changes, ahead of the binds
that could be made. A `StatusWriter` of its own writes the newest condition of each pod at a limited rate; Events go
through the process's recorder, which drops and counts what is too much.
Limits: a condition may be late by as many seconds as there are pods over the rate. An autoscaler adds nodes for a pod
whose reason is Unschedulable and that has no nominated node, so both are written at once, and what nodes cannot help
has another reason (ADR 49).
Source: kube-scheduler's condition (PodScheduled=False, reason Unschedulable) and its events Scheduled,
FailedScheduling, Preempted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Preempt, Unschedulable, Victim
from cotenant.services.kube_process.events import NORMAL, WARNING, EventRecorder
from cotenant.services.kube_process.statuses import StatusWriter, Writer


class PodStatuses:
    """What pods' owners read: the condition PodScheduled, the nomination, and Events."""

    def __init__(self, conditions: StatusWriter, events: EventRecorder) -> None:
        """`conditions` has the writers of `WRITERS`."""
        self._conditions = conditions
        self._events = events

    def scheduled(self, bind: Bind) -> None:
        """A pod was bound; a condition that still waits to be written is obsolete."""
        self._conditions.discard(bind.uid)
        self._event(bind.uid, bind.key, NORMAL, "Scheduled", f"Successfully assigned {bind.key} to {bind.node}")

    def unschedulable(self, why: Unschedulable) -> None:
        """A pod waits, for these reasons."""
        self._conditions.put(why.uid, why)
        self._event(why.uid, why.key, WARNING, "FailedScheduling", why.message)

    def failed(self, uid: str, key: str, why: str) -> None:
        """A decision could not be carried out."""
        self._event(uid, key, WARNING, "FailedScheduling", why)

    def nomination_cleared(self, cleared: ClearNomination) -> None:
        """A pod is no longer nominated."""
        self._conditions.put(f"nomination of {cleared.uid}", cleared)

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
        return self._conditions.waiting()

    def _event(self, uid: str, key: str, type_: str, reason: str, message: str) -> None:
        self._events.record(PODS, key, uid, type_, reason, message)


async def write_condition(client: Client, why: Unschedulable) -> None:
    """Write PodScheduled=False with the reason and the message."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": why.reason,
        "message": why.message,
        "lastProbeTime": None,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    nominated = {"nominatedNodeName": why.nominated} if why.nominated else {}
    await _patch(client, why.uid, why.key, {"conditions": [condition], **nominated})


async def clear_nomination(client: Client, cleared: ClearNomination) -> None:
    """Remove `nominatedNodeName`."""
    await _patch(client, cleared.uid, cleared.key, {"nominatedNodeName": None})


async def _patch(client: Client, uid: str, key: str, status: Mapping[str, object]) -> None:
    namespace, _, name = key.partition("/")
    await client.patch_status(PODS, namespace, name, {"metadata": {"uid": uid}, "status": status})


WRITERS: Mapping[type, Writer] = {Unschedulable: write_condition, ClearNomination: clear_nomination}
