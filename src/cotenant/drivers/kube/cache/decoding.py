"""What a server sends in lists and watches, read into structs.

Problem: reading must be fast, and one object that is not what its kind should be must not hide the thousand others of the page. Choice: the
whole is decoded into typed structs at once; only where that fails is it taken apart, and what cannot be read is named with its key and the
reason. Limits: bytes that are not JSON are no answer at all: `Unavailable` for a page, `Garbage` for a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import msgspec

from cotenant.drivers.kube.cache.cache import HasMeta
from cotenant.drivers.kube.cache.sharing import PodSharing
from cotenant.drivers.kube.cache.watching import Said
from cotenant.drivers.kube.client.errors import UNREADABLE, Refused, Unavailable, failure_of_status
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.status import Status
from cotenant.model.errors import Transient

T = TypeVar("T", bound=HasMeta)

INITIAL_END = "k8s.io/initial-events-end"
_SAID = {said.value: said for said in Said}


class _ListMeta(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name="resourceVersion")
    token: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta | None = None
    items: list[T] | None = None


class _Report(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _BareMeta(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    annotations: dict[str, str] | None = None


class _Bare(msgspec.Struct):
    metadata: _BareMeta | None = None


@dataclass(frozen=True, slots=True)
class PageRead(Generic[T]):
    """A page of a list."""

    objects: list[T]
    malformed: list[tuple[str, str]]  # key and why
    resource_version: str
    continue_token: str


@dataclass(frozen=True, slots=True)
class Report(Generic[T]):
    """A report about an object."""

    said: Said
    obj: T


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A report about an object that is not what its kind should be."""

    key: str
    why: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far the watch has come."""

    resource_version: str
    initial_end: bool


@dataclass(frozen=True, slots=True)
class Garbage:
    """A line that says nothing."""

    why: str


class Reader(Generic[T]):
    """Reads one kind's pages and lines."""

    def __init__(self, kind: Kind[T]) -> None:
        form = kind.form
        # Pods are many and alike; nothing else is.
        self._share = cast(Callable[[T], T], PodSharing()) if form is PodObject else None
        self._object = msgspec.json.Decoder(form)
        self._page: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(_Page[form])  # type: ignore[valid-type]
        self._report: msgspec.json.Decoder[_Report[T]] = msgspec.json.Decoder(_Report[form])  # type: ignore[valid-type]
        self._raw_page = msgspec.json.Decoder(_Page[msgspec.Raw])  # type: ignore[type-var]
        self._raw_report = msgspec.json.Decoder(_Report[msgspec.Raw])  # type: ignore[type-var]
        self._bare = msgspec.json.Decoder(_Bare)
        self._status = msgspec.json.Decoder(Status)

    def page(self, body: bytes) -> PageRead[T]:
        """A page of a list. `Unavailable` where it is none."""
        malformed: list[tuple[str, str]] = []
        try:
            page = self._page.decode(body)
            meta, objects = page.metadata, page.items or []
        except UNREADABLE:
            meta, objects = self._apart(body, malformed)
        meta = meta or _ListMeta()
        if self._share is not None:
            objects = [self._share(obj) for obj in objects]
        return PageRead(objects, malformed, meta.version or "", meta.token or "")

    def line(self, line: bytes) -> Report[T] | Unreadable | Bookmark | Garbage | Refused | Transient:
        """One line of a watch. An ERROR event comes back as the error that it stands for."""
        try:
            report = self._report.decode(line)
        except UNREADABLE as error:
            return self._other(line, str(error))
        said = _SAID.get(report.type)
        if said is None:
            return self._other(line, "")
        return Report(said, report.object if self._share is None else self._share(report.object))

    def _other(self, line: bytes, why: str) -> Report[T] | Unreadable | Bookmark | Garbage | Refused | Transient:
        try:
            report = self._raw_report.decode(line)
            if report.type == "ERROR":
                return failure_of_status(self._status.decode(report.object))
            meta = self._named(report.object)
        except UNREADABLE as error:
            return Garbage(str(error))
        if report.type == "BOOKMARK":
            return Bookmark(meta.resource_version or "", (meta.annotations or {}).get(INITIAL_END) == "true")
        if report.type not in _SAID:
            return Garbage(f"an event of type {report.type!r:.40}")
        return Unreadable(_key(meta), why, meta.resource_version or "")

    def _apart(self, body: bytes, malformed: list[tuple[str, str]]) -> tuple[_ListMeta | None, list[T]]:
        try:
            page = self._raw_page.decode(body)
        except UNREADABLE as error:
            raise Unavailable(f"the answer is no list: {error}") from error
        objects: list[T] = []
        for raw in page.items or ():
            try:
                objects.append(self._object.decode(raw))
            except UNREADABLE as error:
                malformed.append((_key(self._named(raw)), str(error)))
        return page.metadata, objects

    def _named(self, raw: msgspec.Raw) -> _BareMeta:
        try:
            return self._bare.decode(raw).metadata or _BareMeta()
        except UNREADABLE:
            return _BareMeta()


def _key(meta: _BareMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or ""
