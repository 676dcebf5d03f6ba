"""Keeps the objects of one kind as the server has them, and tells what changes: the I/O of a list/watch conversation.

Problem, and what is said when: see watching.py, which decides every step. Choice: this loop asks, reads lines, hands what was heard to the
machine, and delivers what comes out, in order, in batches of what one chunk held. `deliver` is called in the event loop and must not wait: it
updates state or puts into a queue. Limits: an error raised by `deliver` ends `run`; errors of the server, or of our credentials, never do: see that they work before.
"""

from __future__ import annotations

import asyncio
import logging
import random as chance
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from cotenant.drivers.kube.cache.cache import Cache, Happening, HasMeta
from cotenant.drivers.kube.cache.decoding import Bookmark, Garbage, Reader, Report, Unreadable
from cotenant.drivers.kube.cache.watching import Counts, ListPage, Pause, Watch, Watching
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.drivers.kube.client.lines import Lines
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.model.errors import CotenantError

T = TypeVar("T", bound=HasMeta)
Deliver = Callable[[Sequence[Happening[T]]], None]

WATCH_S = 300.0  # asked of the server: 1 to 2 times this, so that watches do not end together
GRACE_S = 15.0  # silence beyond the time asked for
ABSENT_S = 15.0  # between questions for a kind that the server does not know

_log = logging.getLogger(__name__)


class Reflector(Generic[T]):
    """Lists and watches one kind. `namespace` empty = all; selectors as in the API's query."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        deliver: Deliver[T],
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        page: int = 500,
        streaming: bool = False,
        optional: bool = False,
        watch_s: float = WATCH_S,
        grace_s: float = GRACE_S,
        random: Callable[[], float] = chance.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`optional`: the server may not know the kind (its definition is not installed), or not let us read it: then there are none of it, and it is asked
        again now and then."""
        self.kind = kind
        self._optional = optional
        self._client = client
        self._deliver = deliver
        self._path = kind.path(namespace)
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._query = {name: value for name, value in selectors.items() if value}
        self._watch_s = watch_s
        self._grace_s = grace_s
        self._random = random
        self._sleep = sleep
        self._monotonic = monotonic
        self._reader = Reader(kind)
        self._machine: Watching[T] = Watching(kind.name, random, page=page, streaming=streaming)
        self._synced = asyncio.Event()

    @property
    def cache(self) -> Cache[T]:
        """The objects as last heard of: read only."""
        return self._machine.cache

    @property
    def counts(self) -> Counts:
        """What happened so far, for metrics."""
        return self._machine.counts

    @property
    def synced(self) -> bool:
        """Whether a complete list has been delivered."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Until the first complete list has been delivered."""
        await self._synced.wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            step = self._machine.step()
            if isinstance(step, Pause):
                _log.log(
                    logging.DEBUG if step.expected else logging.WARNING,
                    "%s: asking again in %.1f s: %s",
                    self.kind.plural,
                    step.seconds,
                    step.why,
                )
                await self._sleep(step.seconds)
            elif isinstance(step, ListPage):
                await self._list(step)
            else:
                await self._watch(step)

    async def _list(self, step: ListPage) -> None:
        query = dict(self._query)
        if step.limit:
            query["limit"] = str(step.limit)
        if step.continue_token:
            query["continue"] = step.continue_token
        try:
            page = self._reader.page(await self._client.request("GET", self._path, query=query))
        except (NotFound, Forbidden) as error:
            # Without the right to list it there are none of it either, for us; what was known before the right was lost stays.
            if self._optional and (isinstance(error, NotFound) or not len(self._machine.cache)):
                if isinstance(error, Forbidden) and not self.synced:
                    _log.warning("%s are not read: %s", self.kind.plural, error)
                self._tell(self._machine.on_absent(ABSENT_S))
            else:
                self._machine.on_error(error)
            return
        except CotenantError as error:
            self._machine.on_error(error)
            return
        self._tell(self._machine.on_page(page.objects, page.malformed, page.resource_version, page.continue_token))

    async def _watch(self, step: Watch) -> None:
        timeout_s = self._watch_s * (1.0 + self._random())
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(max(1, round(timeout_s)))}
        if step.initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        if step.resource_version:
            query["resourceVersion"] = step.resource_version
        lines = Lines()
        begun_s = self._monotonic()
        try:
            async with self._client.stream(
                self._path, self._query | query, silence_s=timeout_s + self._grace_s
            ) as chunks:
                self._machine.on_open()
                async for chunk in chunks:
                    if not self._hear(lines.feed(chunk)):
                        return
        except NotFound as error:
            if self._optional:
                self._tell(self._machine.on_absent(ABSENT_S))
            else:
                self._machine.on_error(error, self._monotonic() - begun_s)
            return
        except CotenantError as error:
            self._machine.on_error(error, self._monotonic() - begun_s)
            return
        if lines.rest:
            _log.info("%s: the watch ended within a line", self.kind.plural)
        self._machine.on_end(self._monotonic() - begun_s)

    def _hear(self, lines: list[bytes]) -> bool:
        """Take in some lines; False = the watch is over."""
        machine, read = self._machine, self._reader.line
        happened: list[Happening[T]] = []
        going_on = True
        for line in lines:
            heard = read(line)
            if isinstance(heard, Report):
                happened += machine.on_event(heard.said, heard.obj)
            elif isinstance(heard, Bookmark):
                happened += machine.on_bookmark(heard.resource_version, heard.initial_end)
            elif isinstance(heard, Unreadable):
                happened += machine.on_malformed(heard.key, heard.why, heard.resource_version)
            elif isinstance(heard, Garbage):
                machine.on_garbage(heard.why)
                going_on = False
                break
            else:
                machine.on_error(heard)
                going_on = False
                break
        self._tell(happened)
        return going_on

    def _tell(self, happened: list[Happening[T]]) -> None:
        if happened:
            self._deliver(happened)
        if self._machine.synced and not self._synced.is_set():
            self._synced.set()
