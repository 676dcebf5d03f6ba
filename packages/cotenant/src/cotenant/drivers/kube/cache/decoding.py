"""Decodes lists and watch events of one kind into structs.

Decoding must be fast, and one object that does not match its kind must not hide the thousand others of the page. A
page is decoded item by item, and what cannot be decoded is reported with its key and the reason. So a pod is made
smaller while its parts are still in the processor's cache, which takes half the time of decoding the page first.
Limits: bytes that are not JSON are no answer at all: `Unavailable` for a page, `InvalidLine` for a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import msgspec

from cotenant.drivers.kube.cache.cache import ApiObject
from cotenant.drivers.kube.cache.listwatch import WatchEventType
from cotenant.drivers.kube.cache.sharing import PodSharing
from cotenant.drivers.kube.client.errors import UNREADABLE, Refused, Unavailable, failure_of_status
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.status import Status
from cotenant.model.errors import Transient

T = TypeVar("T", bound=ApiObject)

INITIAL_END = "k8s.io/initial-events-end"
_EVENT_TYPES = {type_.value: type_ for type_ in WatchEventType}


class _ListMeta(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name="resourceVersion")
    token: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta | None = None
    items: list[T] | None = None


class _Report(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata | None = None


@dataclass(frozen=True, slots=True)
class DecodedPage(Generic[T]):
    """A page of a list."""

    objects: list[T]
    malformed: list[tuple[str, str]]  # key and reason
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    """A watch event about an object."""

    type: WatchEventType
    obj: T


@dataclass(frozen=True, slots=True)
class MalformedEvent:
    """A watch event about an object that does not match its kind."""

    key: str
    why: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far the watch has come."""

    resource_version: str
    initial_end: bool


@dataclass(frozen=True, slots=True)
class InvalidLine:
    """A line that is no watch event."""

    why: str


class ListWatchDecoder(Generic[T]):
    """Decodes the pages and lines of one kind."""

    def __init__(self, kind: Kind[T]) -> None:
        form = kind.form
        # Only pods are many and alike.
        self._share = cast(Callable[[T], T], PodSharing()) if issubclass(form, PodObject) else None
        self._object = msgspec.json.Decoder(form)
        self._report: msgspec.json.Decoder[_Report[T]] = msgspec.json.Decoder(_Report[form])  # type: ignore[valid-type]
        self._raw_page = msgspec.json.Decoder(_Page[msgspec.Raw])  # type: ignore[type-var]
        self._raw_report = msgspec.json.Decoder(_Report[msgspec.Raw])  # type: ignore[type-var]
        self._metadata = msgspec.json.Decoder(_Object)
        self._status = msgspec.json.Decoder(Status)

    def page(self, body: bytes) -> DecodedPage[T]:
        """A page of a list. `Unavailable` where it is none."""
        try:
            page = self._raw_page.decode(body)
        except UNREADABLE as error:
            raise Unavailable(f"the answer is no list: {error}") from error
        objects: list[T] = []
        malformed: list[tuple[str, str]] = []
        decode, share = self._object.decode, self._share
        for raw in page.items or ():
            try:
                obj = decode(raw)
            except UNREADABLE as error:
                malformed.append((_key(self._metadata_of(raw)), str(error)))
                continue
            objects.append(obj if share is None else share(obj))
        meta = page.metadata or _ListMeta()
        return DecodedPage(objects, malformed, meta.version or "", meta.token or "")

    def line(self, line: bytes) -> WatchEvent[T] | MalformedEvent | Bookmark | InvalidLine | Refused | Transient:
        """One line of a watch. An ERROR event is returned as the error that it stands for."""
        try:
            report = self._report.decode(line)
        except UNREADABLE as error:
            return self._other(line, str(error))
        event_type = _EVENT_TYPES.get(report.type)
        if event_type is None:
            return self._other(line, "")
        return WatchEvent(event_type, report.object if self._share is None else self._share(report.object))

    def _other(
        self, line: bytes, why: str
    ) -> WatchEvent[T] | MalformedEvent | Bookmark | InvalidLine | Refused | Transient:
        try:
            report = self._raw_report.decode(line)
            if report.type == "ERROR":
                return failure_of_status(self._status.decode(report.object))
            meta = self._metadata_of(report.object)
        except UNREADABLE as error:
            return InvalidLine(str(error))
        if report.type == "BOOKMARK":
            return Bookmark(meta.resource_version or "", (meta.annotations or {}).get(INITIAL_END) == "true")
        if report.type not in _EVENT_TYPES:
            return InvalidLine(f"an event of type {report.type!r:.40}")
        return MalformedEvent(_key(meta), why, meta.resource_version or "")

    def _metadata_of(self, raw: msgspec.Raw) -> _Metadata:
        try:
            return self._metadata.decode(raw).metadata or _Metadata()
        except UNREADABLE:
            return _Metadata()


def _key(meta: _Metadata) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""
