"""Why a pod is where it is, from what its scheduler wrote to the API server.

The scheduler that decided may be gone, or may not be reachable, and the reasons are on the pod. The pod is read once:
its decision annotation, its condition PodScheduled, and its newest events.
Limits: the reasons are those of the time they were written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound, Unavailable
from cotenant.drivers.kube.kinds.event import EVENTS
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.model.cluster.annotations import DECISION
from cotenant.model.cluster.seal import SETTLED, settled_values
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.json_object import JsonObject
from cotenant.services.clients.scheduler import PodNotKnown
from cotenant.services.scheduler.decision_annotation import Written, read

_ANSWER_S = 30.0
_EVENTS_SHOWN = 8


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None
    scheduler_name: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str | None = None
    nominated_node_name: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str | None = None
    message: str | None = None
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class _Events(msgspec.Struct, frozen=True):
    items: list[_Event] = []


@dataclass(frozen=True, slots=True)
class StoredReasons:
    """What the API server has about a decision."""

    pod: str
    uid: str
    node: str
    scheduler: str
    phase: str
    promised: str
    message: str  # of the condition PodScheduled, where it is False
    decision: Written | None
    events: tuple[tuple[str, int, str, str], ...]  # time, count, reason, message; oldest first
    # Sentences about class, quota and tenant that differ from the bind's statement; its seal is not checked here.
    changed: tuple[str, ...] = ()
    refused: str = ""  # a sentence, where the node's kubelet did not start it

    def plain(self) -> dict[str, object]:
        """For JSON."""
        value: JsonObject = msgspec.to_builtins(self)
        return value


def changed_since(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """What of a pod's class, quota and tenant is not as its bind states."""
    text = annotations.get(SETTLED)
    try:
        stated = msgspec.json.decode(text.rpartition(" ")[0], type=dict[str, str]) if text else None
    except msgspec.DecodeError:
        return (f"{SETTLED} cannot be read",)
    if stated is None:
        return ()
    written = settled_values(labels, annotations)
    names = sorted(dict(stated.items() ^ written.items()))
    return tuple(
        f"{name} was changed since the pod was bound: {stated.get(name) or 'none'} counts, not "
        f"{written.get(name) or 'none'}"
        for name in names
    )


def _refusal(pod: _Pod) -> str:
    reason = pod.status.reason or ""
    if pod.status.phase != "Failed" or not reason.startswith("OutOf"):
        return ""
    return (
        f"{pod.spec.node_name} refused it: {reason}: {(pod.status.message or '').rstrip('.')}. Another scheduler, or "
        "the node itself, took the room first; such a pod does not start any more, and its controller makes another"
    )


def stored_reasons(kubeconfig: Path, context: str, namespace: str, name: str) -> StoredReasons:
    """Read a pod, and what was written about its placement. Raises `CotenantError`."""
    access = load_access(kubeconfig, context)

    async def fetch() -> tuple[bytes, bytes]:
        async with Client(access, qps=50.0, burst=10, in_flight=2, timeout_s=_ANSWER_S) as client:
            pod = await client.request("GET", PODS.path(namespace, name))
            selector = f"involvedObject.kind=Pod,involvedObject.name={name}"
            try:
                events = await client.request("GET", EVENTS.path(namespace), query={"fieldSelector": selector})
            except CotenantError:
                events = b"{}"  # no right to read them
            return pod, events

    try:
        raw, events = asyncio.run(fetch())
    except Unavailable as error:
        why = str(error).partition(": ")[2] or str(error)
        raise Transient(f"the API server {access.server} does not answer: {why}") from error
    except NotFound as error:
        raise PodNotKnown(f"pod {namespace}/{name} does not exist (at {access.server})") from error
    pod = msgspec.json.decode(raw, type=_Pod)
    text = (pod.metadata.annotations or {}).get(DECISION)
    condition = next((entry for entry in pod.status.conditions or [] if entry.type == "PodScheduled"), _Condition())
    listed = [
        (event.last_timestamp or event.event_time or "", event.count or 1, event.reason or "", event.message or "")
        for event in msgspec.json.decode(events, type=_Events).items
    ]
    return StoredReasons(
        pod=f"{namespace}/{name}",
        uid=pod.metadata.uid,
        node=pod.spec.node_name or "",
        scheduler=pod.spec.scheduler_name or "",
        phase=pod.status.phase or "",
        promised=pod.status.nominated_node_name or "",
        message=condition.message or "" if condition.status == "False" else "",
        decision=read(text) if text else None,
        events=tuple(sorted(listed)[-_EVENTS_SHOWN:]),
        refused=_refusal(pod),
        changed=changed_since(pod.metadata.labels or {}, pod.metadata.annotations or {}),
    )
