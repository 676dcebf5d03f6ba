"""Executes plans against the API and stores every response in the informers' cache.

A plan's writes must happen in order but not one by one (five hundred creations would wait for five hundred commits),
and the next plan must see them. Consecutive creations, and consecutive deletions, run concurrently, up to
`MAX_CONCURRENT`; each response is observed as if the watch had delivered it. Deleting an object that does not exist
counts as success. An event with the same text is recorded once per ten minutes, and a failure to write one is counted
and otherwise ignored.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.contract import MERGE, DeletionOptions, ListOptions, RequestTarget, WriteOptions
from cotenant_local.controllers.runtime.actions import (
    EVENTS,
    NAMESPACES,
    PODS,
    Action,
    Create,
    Delete,
    DeleteAll,
    EmitEvent,
    EvictWithinBudgets,
    FinalizeNamespace,
    Patch,
    ResourceName,
)
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.core import stamp

MAX_CONCURRENT = 64
EVENT_DEDUP_S = 600.0
_MAX_RECENT_EVENTS = 4_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


class _Kind(msgspec.Struct):
    kind: str = ""


class Writer:
    """Writes for one controller, whose name is the field manager and the source of events."""

    def __init__(self, informers: Informers, name: str, clock: Callable[[], float]) -> None:
        self._informers = informers
        self._api = informers.api
        self._name = name
        self._clock = clock
        self._options = WriteOptions(
            validation="Ignore", manager=name, user=f"system:serviceaccount:kube-system:{name}"
        )
        self._targets: dict[tuple[ResourceName, int], RequestTarget] = {}
        self._recent_events: dict[tuple[str, str, str], float] = {}
        self._serial = zlib.crc32(name.encode())  # two controllers may speak of namesakes at one instant
        self.writes = 0
        self.failed_events = 0

    async def execute(self, actions: Sequence[Action]) -> None:
        """Execute all actions in order. Raises the first `ApiError`, after the actions run concurrently with it
        have finished.
        """
        for kind, group in groupby(actions, key=type):
            if kind in (Create, Delete):
                for batch in _chunks(list(group)):
                    await self._concurrently(batch)
            else:
                for action in group:
                    await self._execute_one(action)

    async def _concurrently(self, batch: Sequence[Action]) -> None:
        if len(batch) == 1:
            await self._execute_one(batch[0])
            return
        results = await asyncio.gather(*(self._execute_one(a) for a in batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _execute_one(self, action: Action) -> None:
        if isinstance(action, EmitEvent):
            await self._record_event(action)
            return
        self.writes += 1
        match action:
            case Create(resource, namespace, obj):
                own = _decode(_encode(obj))  # a copy: the server modifies its input
                answer = await self._api.create(self.target(resource, namespace), own, self._options)
                self._observe(resource, answer.raw)
            case Patch(resource, namespace, name, body, subresource, version):
                if version:
                    metadata = {**body.get("metadata", {}), "resourceVersion": version}
                    body = {**body, "metadata": metadata}
                target = self.target(resource, namespace, name, subresource)
                answer = await self._api.patch(target, _encode(body), MERGE, self._options)
                self._observe(resource, answer.raw)
            case Delete():
                await self._delete(action)
            case DeleteAll(resource, namespace):
                options = DeletionOptions(propagation="Background", user=self._options.user)
                await self._api.delete_collection(self.target(resource, namespace), ListOptions(), options)
            case EvictWithinBudgets():
                await self._evict(action)
            case FinalizeNamespace(name):
                await self._finalize(name)

    async def _delete(self, action: Delete) -> None:
        target = self.target(action.resource, action.namespace, action.name)
        options = DeletionOptions(action.grace_s, action.propagation, action.uid, user=self._options.user)
        try:
            answer = await self._api.delete(target, options)
        except ApiError as error:
            informer = self._informers.existing(action.resource)
            if error.code == 404 or (error.code == 409 and "UID" in error.message):
                if informer is not None:
                    informer.forget((action.namespace, action.name), action.uid)
                return
            raise
        informer = self._informers.existing(action.resource)
        if informer is None:
            return
        if msgspec.json.decode(answer.raw, type=_Kind).kind == "Status":
            informer.forget((action.namespace, action.name), action.uid)
        else:
            informer.observe(answer.raw)

    async def _evict(self, action: EvictWithinBudgets) -> None:
        body: Manifest = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": action.name, "namespace": action.namespace},
            "deleteOptions": {"preconditions": {"uid": action.uid}},
        }
        try:
            await self._api.create(self.target(PODS, action.namespace, action.name, "eviction"), body, self._options)
        except ApiError as error:
            if error.code == 404 or (error.code == 409 and "UID" in error.message):
                return
            raise

    async def _finalize(self, name: str) -> None:
        target = self.target(NAMESPACES, "", name)
        obj: Manifest = _decode(await self._api.get(target))
        obj.setdefault("spec", {})["finalizers"] = []
        await self._api.update(self.target(NAMESPACES, "", name, "finalize"), obj, self._options)

    async def _record_event(self, event: EmitEvent) -> None:
        meta = event.about.metadata
        now = self._clock()
        text = (meta.uid, event.reason, event.message)
        if now - self._recent_events.get(text, -EVENT_DEDUP_S) < EVENT_DEDUP_S:
            return
        self._recent_events.pop(text, None)
        self._recent_events[text] = now
        if len(self._recent_events) > _MAX_RECENT_EVENTS:
            self._recent_events.pop(next(iter(self._recent_events)))
        self._serial += 1
        namespace = meta.namespace or "default"
        at = stamp(now)
        manifest: Manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta.name}.{int(now * 1e6):x}{self._serial & 0xFFF:03x}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": event.api_version,
                "kind": event.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": self._name},
            "reportingComponent": self._name,
            "reportingInstance": "",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        try:
            await self._api.create(self.target(EVENTS, namespace), manifest, self._options)
        except ApiError:
            self.failed_events += 1

    def target(
        self, resource: ResourceName, namespace: str = "", name: str = "", subresource: str = ""
    ) -> RequestTarget:
        """The target of a write. Raises ApiError 404 if the resource is not served."""
        key = (resource, self._api.registry.revision)
        found = self._targets.get(key)
        if found is None:
            if len(self._targets) > 500:
                self._targets.clear()
            found = self._targets[key] = self._api.target(*resource)
        return RequestTarget(found.resource, namespace, name, subresource)

    def _observe(self, resource: ResourceName, raw: bytes) -> None:
        informer = self._informers.existing(resource)
        if informer is not None:
            informer.observe(raw)


def _chunks(actions: list[Action]) -> Iterator[list[Action]]:
    for at in range(0, len(actions), MAX_CONCURRENT):
        yield actions[at : at + MAX_CONCURRENT]
