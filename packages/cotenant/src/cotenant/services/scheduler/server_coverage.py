"""What of its API server a scheduler does not read: named at its start, in explanations, and on the pods that it
concerns.

Before the first list, and once a minute, the server's OpenAPI is compared with the fields that we know
(drivers/kube/kinds/pod/coverage.py). Pods are then read with the unknown ones that may steer scheduling, and wait if
they set one; pods that were read before the server had the field are listed again. Versions of the kinds that we read
are compared with discovery. A server that has no OpenAPI, or does not permit it, is not compared, and that is named
too.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence

from cotenant.drivers.kube.cache.cache import Changed
from cotenant.drivers.kube.cache.decoding import ListWatchDecoder
from cotenant.drivers.kube.cache.reflector import Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.discovery import core_document, openapi_index, served_versions
from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.pod.coverage import UnknownField, unknown_fields
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.kube.kinds.pod.unknown_form import pods_with
from cotenant.model.errors import CotenantError

AGAIN_S = 60.0
RETRY_S = 2.0
FIRST_TRIES = 3

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_log = logging.getLogger(__name__)


class ServerCoverage:
    """Compares a server with what this version reads.

    `pods`: their watch; `reread`: takes pods that were listed again.
    """

    def __init__(
        self,
        client: Client,
        kinds: Iterable[AnyKind],
        pods: Reflector[PodObject],
        reread: Callable[[Sequence[Changed[PodObject]]], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._read: dict[str, dict[str, set[str]]] = {}  # group -> plural -> versions that we read
        for kind in kinds:
            if kind.group:
                self._read.setdefault(kind.group, {}).setdefault(kind.plural, set()).add(kind.version)
        self._pods, self._reread, self._sleep = pods, reread, sleep
        self._index: bytes | None = None  # of all that is served, when it was compared last
        self._lists_again = False  # pods were read before the server had fields that they are read with now
        self._document = ""
        self._fields: tuple[UnknownField, ...] = ()
        self._about_fields: tuple[str, ...] = ()
        self._about_versions: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """Sentences about what of the server is not read."""
        return (*self._about_versions, *self._about_fields)

    async def prepare(self) -> None:
        """Compare, before anything is listed. A server that does not answer is compared later."""
        for left in reversed(range(FIRST_TRIES)):
            if await self._compare(is_first=True):
                return
            if left:
                await self._sleep(RETRY_S)

    async def run(self) -> None:
        """Compare again, until cancelled."""
        while True:
            await self._sleep(AGAIN_S)
            await self._compare(is_first=False)

    async def _compare(self, *, is_first: bool) -> bool:
        """Returns whether the server answered."""
        before = self.notes()
        try:
            index = await self._index_of_server()
            if index is not None and index == self._index:
                return True
            steering = await self._compare_fields(index) if index is not None else None
            if steering is not None:
                self._pods.read_as(pods_with(steering))
                self._lists_again = not is_first
            if self._lists_again:
                await self._list_again()
                self._lists_again = False
            self._about_versions = await self._compare_versions()
            self._index = index
        except CotenantError as error:
            _log.log(
                self._client.outage.level, "the server's API is not compared with what this version reads: %s", error
            )
            return False
        for entry in self.notes():
            if entry not in before:
                _log.warning("%s", entry)
        return True

    async def _index_of_server(self) -> bytes | None:
        """What changes with everything that the server serves; None where it does not tell."""
        try:
            return await openapi_index(self._client)
        except (NotFound, Forbidden) as error:
            self._about_fields = (f"the fields of pods are not compared with those that this version knows: {error}",)
            return None

    async def _compare_fields(self, index: bytes) -> list[tuple[str, ...]] | None:
        """The fields that pods must be read with from now on; None where they are the same as before."""
        document = await core_document(self._client, index, self._document)
        if document is None:
            return None
        self._document = document.name
        found = unknown_fields(document.definitions)
        steering, others = (
            [entry for entry in found if entry.may_steer],
            [entry for entry in found if not entry.may_steer],
        )
        notes = [
            f"{entry} is a field of this server that this version does not know: pods that set it wait"
            for entry in steering
        ]
        if others:
            names = ", ".join(map(str, others))
            notes.append(f"fields of this server that this version does not know, not about scheduling: {names}")
        self._about_fields = tuple(notes)
        if found == self._fields:
            return None
        self._fields = found
        return [entry.path for entry in steering]

    async def _compare_versions(self) -> tuple[str, ...]:
        notes: list[str] = []
        for group, plurals in sorted(self._read.items()):
            for plural, served in sorted((await served_versions(self._client, group, plurals)).items()):
                read = plurals[plural]
                if not served & read:
                    notes.append(
                        f"{plural}.{group} is served as {_words(served)} only, and this version reads {_words(read)}:"
                        " none of these objects is seen"
                    )
                    continue
                newer = {entry for entry in served - read if _age(entry) > max(map(_age, served & read))}
                if newer:
                    notes.append(
                        f"{plural}.{group} is also served as {_words(newer)}, which this version does not read:"
                        f" objects are read as {_words(served & read)}, without later fields"
                    )
        return tuple(notes)

    async def _list_again(self) -> None:
        decoder = ListWatchDecoder(self._pods.kind)
        page = decoder.page(await self._client.request("GET", PODS.path(), query={"fieldSelector": "spec.nodeName="}))
        self._reread([Changed(PODS.name, "", None, pod) for pod in page.objects])


def _age(version: str) -> tuple[int, int, int, int]:
    """A sort key of versions: alpha ones, beta ones, stable ones, each with newer ones last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return -1, 0, 0, 0
    major, stage, minor = match.groups()
    return 0, {"alpha": 0, "beta": 1, None: 2}[stage], int(major), int(minor or 0)


def _words(versions: Iterable[str]) -> str:
    return ", ".join(sorted(versions))
