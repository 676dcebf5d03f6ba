"""Calls to the Kubernetes API: CRUD on any kind, and the few that a scheduler makes.

Callers want objects and errors, not bodies and codes. One method a call over `Transport` (transport.py); bodies are
encoded and answers decoded by msgspec.
Limits: what has no method here goes by `request`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeVar
from urllib.parse import quote

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE, Conflict, Invalid, NotFound, Unavailable
from cotenant.drivers.kube.client.transport import Body, Transport
from cotenant.drivers.kube.kinds.event import EVENTS, Event
from cotenant.drivers.kube.kinds.kind import AnyKind, Kind
from cotenant.drivers.kube.kinds.pod.schema import PODS

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

T = TypeVar("T")

_log = logging.getLogger(__name__)


class _BindingMeta(msgspec.Struct, omit_defaults=True):
    name: str
    namespace: str
    uid: str = ""
    annotations: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    resourceVersion: str = ""  # noqa: N815  # as the API writes it


class _Listed(msgspec.Struct):
    items: list[msgspec.Raw] = []


class _Target(msgspec.Struct):
    kind: str
    name: str


class _Binding(msgspec.Struct, rename="camel"):
    """v1 Binding. Its annotations and labels are merged into the pod in the same write as the node's name."""

    api_version: str
    kind: str
    metadata: _BindingMeta
    target: _Target


class Client(Transport):
    """A client of one API server; its arguments are the transport's."""

    @cached_property
    def _without_status(self) -> set[str]:
        """Paths of kinds whose definition has no status subresource."""
        return set()

    async def get(self, kind: Kind[T], namespace: str, name: str) -> T:
        """One object."""
        return self._decode(kind.form, await self.request("GET", kind.path(namespace, name)))

    async def all_of(self, kind: Kind[T], *, labels: str = "", fields: str = "") -> tuple[T, ...]:
        """Every object of a kind that these selectors match, where there are few; in one answer."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in selectors.items() if value}
        listed = self._decode(_Listed, await self.request("GET", kind.path(), query=query))
        return tuple(self._decode(kind.form, bytes(raw)) for raw in listed.items)

    async def has_any(self, kind: AnyKind, namespace: str, *, labels: str = "", fields: str = "") -> bool:
        """Whether there is any object of a kind that these selectors match; no namespace = in all of them."""
        query = {"limit": "1", "labelSelector": labels, "fieldSelector": fields}
        body = await self.request(
            "GET", kind.path(namespace), query={key: value for key, value in query.items() if value}
        )
        return bool(self._decode(_Listed, body).items)

    async def create(self, kind: Kind[T], namespace: str, obj: Body, *, subresource: str = "", name: str = "") -> T:
        """Create an object; returns it as stored."""
        answer = await self.request("POST", kind.path(namespace, name, subresource), obj)
        return self._decode(kind.form, answer)

    async def update(self, kind: Kind[T], namespace: str, name: str, obj: Body, *, subresource: str = "") -> T:
        """Replace an object whole: only for kinds whose struct has all their fields (Lease)."""
        answer = await self.request("PUT", kind.path(namespace, name, subresource), obj)
        return self._decode(kind.form, answer)

    async def patch(
        self,
        kind: Kind[T],
        namespace: str,
        name: str,
        patch: Body,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str = "",
        field_manager: str = "",
    ) -> T:
        """Change parts of an object. `field_manager`: the writer that the server notes, "" = this client's name."""
        path = kind.path(namespace, name, subresource)
        query = {"fieldManager": field_manager} if field_manager else None
        return self._decode(kind.form, await self.request("PATCH", path, patch, content_type=content_type, query=query))

    async def patch_status(
        self, kind: Kind[T], namespace: str, name: str, patch: Body, *, content_type: str = STRATEGIC_PATCH
    ) -> T:
        """Change parts of an object's status. The strategic form merges conditions by their type."""
        return await self.patch(kind, namespace, name, patch, content_type=content_type, subresource="status")

    async def set_status(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        uid: str,
        status: Mapping[str, object],
        *,
        keeps: bool = False,
        version: str = "",
    ) -> None:
        """Write a custom object's status, only if it still is the one of `uid`: `Conflict` otherwise. `keeps`: fields
        that are not named stay. `version`: and only if it still has this one.

        A merge patch that names the UID will not do: servers take a custom object's metadata from the stored one before
        they compare. Definitions without the status subresource (Koordinator's own PodGroup and ElasticQuota) answer
        404 for it, as for an object that is gone. The object itself is patched then, which needs the verb `patch` on
        it; a server with the subresource ignores the status there, and that is noticed.
        """
        if kind.path("", "") not in self._without_status:
            try:
                await self._write_status(kind.path(namespace, name, "status"), uid, status, keeps, version)
                return
            except NotFound:
                pass
        stored = msgspec.json.decode(await self._write_status(kind.path(namespace, name), uid, status, keeps, version))
        had = stored.get("status") if isinstance(stored, dict) else None
        if isinstance(had, dict) and any(had.get(field) == value for field, value in status.items()):
            if kind.path("", "") not in self._without_status:
                self._without_status.add(kind.path("", ""))
                _log.info(
                    "%s has no status subresource on this server: statuses are patched into the objects", kind.name
                )
        else:
            self._without_status.discard(kind.path("", ""))
            await self._write_status(kind.path(namespace, name, "status"), uid, status, keeps, version)

    async def _write_status(
        self, path: str, uid: str, status: Mapping[str, object], keeps: bool, version: str
    ) -> bytes:
        own: list[dict[str, object]] = [{"op": "test", "path": "/metadata/uid", "value": uid}]
        if version:
            own.append({"op": "test", "path": "/metadata/resourceVersion", "value": version})
        if keeps:
            parts = [{"op": "add", "path": f"/status/{field}", "value": value} for field, value in status.items()]
            try:
                return await self._change([*own, *parts], path)
            except Conflict:
                pass  # or it has no status yet
        return await self._change([*own, {"op": "add", "path": "/status", "value": status}], path)

    async def _change(self, operations: Sequence[Mapping[str, object]], path: str) -> bytes:
        try:
            return await self.request("PATCH", path, self._encoder.encode(operations), content_type=JSON_PATCH)
        except Invalid as error:
            if error.code != 422 or any(cause.field for cause in error.causes):
                raise  # the resulting object is invalid
            raise Conflict(str(error), error.code, error.reason) from None

    async def delete(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
    ) -> None:
        """Delete an object, only if it still is the one of `uid` (and of `resource_version`): `Conflict` otherwise."""
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        only = {"uid": uid, "resourceVersion": resource_version}
        if any(only.values()):
            options["preconditions"] = {key: value for key, value in only.items() if value}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self.request("DELETE", kind.path(namespace, name), options)

    async def bind(
        self,
        namespace: str,
        pod: str,
        uid: str,
        node: str,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        resource_version: str = "",
    ) -> None:
        """Bind a pod to a node, only in this version if one is given. Annotations and labels are merged into the pod
        atomically with it.

        `Conflict`: bound already, gated, or another pod of that name. The server does not check that the node exists.
        """
        meta = _BindingMeta(pod, namespace, uid, annotations, labels, resource_version)
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/binding"
        await self.request("POST", path, _Binding("v1", "Binding", meta, _Target("Node", node)))

    async def evict(
        self, namespace: str, pod: str, uid: str = "", *, resource_version: str = "", grace_s: int | None = None
    ) -> None:
        """Delete a pod if its disruption budgets allow: `Throttled` where they do not now. `Conflict`: it is not the
        one of `uid`, or no longer in this version.
        """
        options: dict[str, object] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        only = {"uid": uid, "resourceVersion": resource_version}
        if any(only.values()):
            options["preconditions"] = {key: value for key, value in only.items() if value}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": options,
        }
        await self.request("POST", PODS.path(namespace, pod, "eviction"), eviction)

    async def create_event(self, namespace: str, event: Event) -> None:
        """Write an Event."""
        await self.request("POST", EVENTS.path(namespace), event)

    def _decode(self, form: type[T], body: bytes) -> T:
        try:
            return msgspec.json.decode(body, type=form)
        except UNREADABLE as error:
            raise Unavailable(f"the answer is no {form.__name__}: {error}", maybe_done=True) from error
