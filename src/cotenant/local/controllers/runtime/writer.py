"""Carries plans out on the API, and puts every answer into the informers' cache.

Problem: a plan's writes must happen in order but not one by one (five hundred creations would wait for five hundred commits), and the next
plan must see them. Choice: neighbouring creations, and neighbouring deletions, are awaited together, up to `ABREAST`; the answer of each is
observed as if the watch had brought it. A deletion of what is gone has succeeded. Events are told once for the same text within ten minutes,
and a failure to write one is counted and otherwise ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec

from cotenant.local.apiserver.contract import (
    MERGE,
    ApiError,
    DeleteOptions,
    ListOptions,
    Manifest,
    Target,
    WriteOptions,
)
from cotenant.local.controllers.runtime.actions import (
    EVENTS,
    NAMESPACES,
    Action,
    Create,
    Delete,
    Empty,
    Finalize,
    Note,
    Patch,
    ResourceName,
)
from cotenant.local.controllers.runtime.informer import Informers
from cotenant.local.controllers.views.core import Meta, stamp

ABREAST = 64
SAME_TEXT_S = 600.0
_REMEMBERED = 4_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict).decode


class _Kind(msgspec.Struct):
    kind: str = ""


class Writer:
    """Writes for one controller (its name is the field manager and the events' source)."""

    def __init__(self, informers: Informers, name: str, clock: Callable[[], float]) -> None:
        self._informers = informers
        self._api = informers.api
        self._name = name
        self._clock = clock
        self._options = WriteOptions(
            validation="Ignore", manager=name, user=f"system:serviceaccount:kube-system:{name}"
        )
        self._targets: dict[tuple[ResourceName, int], Target] = {}
        self._told: dict[tuple[str, str, str], float] = {}
        self._serial = 0
        self.writes = 0
        self.lost_events = 0

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """All actions in order. Raises the first `ApiError`, after what stood beside it has been tried."""
        for kind, group in groupby(actions, key=type):
            if kind in (Create, Delete):
                for some in _chunks(list(group)):
                    await self._abreast(some)
            else:
                for action in group:
                    await self._one(action)

    async def _abreast(self, some: Sequence[Action]) -> None:
        if len(some) == 1:
            await self._one(some[0])
            return
        results = await asyncio.gather(*(self._one(a) for a in some), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _one(self, action: Action) -> None:
        if isinstance(action, Note):
            await self._tell(action)
            return
        self.writes += 1
        match action:
            case Create(resource, namespace, obj):
                own = _decode(_encode(obj))  # the server changes what it is given
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
            case Empty(resource, namespace):
                options = DeleteOptions(propagation="Background", user=self._options.user)
                await self._api.delete_collection(self.target(resource, namespace), ListOptions(), options)
            case Finalize(name):
                await self._finalize(name)

    async def _delete(self, action: Delete) -> None:
        target = self.target(action.resource, action.namespace, action.name)
        options = DeleteOptions(action.grace_s, action.propagation, action.uid, user=self._options.user)
        try:
            answer = await self._api.delete(target, options)
        except ApiError as error:
            informer = self._informers.have(action.resource)
            if error.code == 404 or (error.code == 409 and "UID" in error.message):
                if informer is not None:
                    informer.forget((action.namespace, action.name), action.uid)
                return
            raise
        informer = self._informers.have(action.resource)
        if informer is None:
            return
        if msgspec.json.decode(answer.raw, type=_Kind).kind == "Status":
            informer.forget((action.namespace, action.name), action.uid)
        else:
            informer.observe(answer.raw)

    async def _finalize(self, name: str) -> None:
        target = self.target(NAMESPACES, "", name)
        obj: Manifest = _decode(await self._api.get(target))
        obj.setdefault("spec", {})["finalizers"] = []
        await self._api.update(self.target(NAMESPACES, "", name, "finalize"), obj, self._options)

    async def _tell(self, note: Note) -> None:
        meta: Meta = note.about.metadata  # type: ignore[attr-defined]
        now = self._clock()
        text = (meta.uid, note.reason, note.message)
        if now - self._told.get(text, -SAME_TEXT_S) < SAME_TEXT_S:
            return
        self._told.pop(text, None)
        self._told[text] = now
        if len(self._told) > _REMEMBERED:
            self._told.pop(next(iter(self._told)))
        self._serial += 1
        namespace = meta.namespace or "default"
        at = stamp(now)
        event: Manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{meta.name}.{int(now * 1e6):x}{self._serial & 0xFFF:03x}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": note.api_version,
                "kind": note.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "type": note.type,
            "reason": note.reason,
            "message": note.message,
            "source": {"component": self._name},
            "reportingComponent": self._name,
            "reportingInstance": "",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        try:
            await self._api.create(self.target(EVENTS, namespace), event, self._options)
        except ApiError:
            self.lost_events += 1

    def target(self, resource: ResourceName, namespace: str = "", name: str = "", subresource: str = "") -> Target:
        """What to write to. Raises ApiError 404 where the resource is not served."""
        key = (resource, self._api.registry.revision)
        found = self._targets.get(key)
        if found is None:
            if len(self._targets) > 500:
                self._targets.clear()
            found = self._targets[key] = self._api.target(*resource)
        return Target(found.resource, namespace, name, subresource)

    def _observe(self, resource: ResourceName, raw: bytes) -> None:
        informer = self._informers.have(resource)
        if informer is not None:
            informer.observe(raw)


def _chunks(actions: list[Action]) -> Iterator[list[Action]]:
    for at in range(0, len(actions), ABREAST):
        yield actions[at : at + ABREAST]
