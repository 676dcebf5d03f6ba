"""Keeps the objects of one kind as the server has them and delivers the changes: the I/O of a list/watch conversation.

Problem and rules: see listwatch.py, which decides every step. This loop sends requests, reads lines, passes events to
the state machine, and delivers its notifications, in order, in batches of what one chunk held. `deliver` is called in
the event loop and must not wait: it updates state or puts into a queue. Lists may be delivered in portions, with turns
of the event loop between them: a million pods are most of a minute, during which probes want answers. Who acts already
must not do so on half of a later list, and hears of it by `handing_on`.
Limits: an error raised by `deliver` ends `run`; errors of the server, or of our credentials, never do: check that they
work before.
"""

from __future__ import annotations

import asyncio
import logging
import random as chance
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject, Cache, Notification
from cotenant.drivers.kube.cache.decoding import (
    Bookmark,
    DecodedPage,
    InvalidLine,
    ListWatchDecoder,
    MalformedEvent,
    WatchEvent,
)
from cotenant.drivers.kube.cache.listwatch import ListPage, ListWatch, OpenWatch, Pause, WatchCounts
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden, NotFound
from cotenant.drivers.kube.client.lines import Lines
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.model.errors import CotenantError

T = TypeVar("T", bound=ApiObject)
Deliver = Callable[[Sequence[Notification[T]]], None]

WATCH_S = 300.0  # requested of the server: 1 to 2 times this, so that watches do not end together
GRACE_S = 15.0  # silence beyond the requested time
PORTION = 500  # changes of a list: some hundredths of a second of a scheduler
ABSENT_S = 15.0  # between requests for a kind that the server does not serve

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
        in_portions: bool = False,
        later_in_portions: bool = False,
        first_by: Callable[[T], float] | None = None,
        until_open: bool = False,
        handing_on: Callable[[bool], None] = lambda on: None,
        absent_s: float = ABSENT_S,
        watch_s: float = WATCH_S,
        grace_s: float = GRACE_S,
        random: Callable[[], float] = chance.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`optional`: the server may not serve the kind (its definition is not installed), or may not permit reading
        it: then it has no objects, and it is listed again every `absent_s`. `in_portions`: deliver the first list so;
        nothing that is delivered may act before `synced`. `later_in_portions`: later lists too; `handing_on` is told
        before each portion whether more of the list follow. `first_by`: the order of the first list. `until_open`: it
        counts as synced only when its watch is open too. A server that is starting answers a list and refuses the watch
        for a second or more (429), in which nothing that happens is heard of.
        """
        self.kind = kind
        self._is_open = not until_open
        self._optional = optional
        self._absent_s = absent_s
        self._handing_on = handing_on
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
        self._reader = ListWatchDecoder(kind)
        self._machine: ListWatch[T] = ListWatch(
            kind.name,
            random,
            page=page,
            streaming=streaming,
            first_by=first_by,
            first_portion=PORTION if in_portions else 0,
            later_portion=PORTION if later_in_portions else 0,
        )
        self._synced = asyncio.Event()
        self.is_served = False  # whether the last list, or watch, found the kind

    @property
    def cache(self) -> Cache[T]:
        """The objects as last received: read only."""
        return self._machine.cache

    @property
    def counts(self) -> WatchCounts:
        """Counters for metrics."""
        return self._machine.counts

    def read_as(self, kind: Kind[T]) -> None:
        """Decode what comes from now on as this kind, which differs in its struct only."""
        self.kind = kind
        self._reader = ListWatchDecoder(kind)

    @property
    def synced(self) -> bool:
        """Whether a complete list has been delivered, and where it was asked for, its watch was open once."""
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
                    logging.DEBUG if step.expected else self._client.outage.level,
                    "%s: next request in %.1f s: %s",
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
            # Without the right to list the kind it has no objects either; those known before the right was lost stay.
            if self._optional and (isinstance(error, NotFound) or not len(self._machine.cache)):
                if isinstance(error, Forbidden) and not self.synced:
                    _log.warning("%s are not read: %s", self.kind.plural, error)
                self.is_served, self._is_open = False, True
                await self._notify(self._machine.on_absent(self._absent_s))
            else:
                self._machine.on_error(error)
            return
        except CotenantError as error:
            self._machine.on_error(error)
            return
        await self._notify(self._taken(page))

    def listed(self, body: bytes, turn: Callable[[], None] = lambda: None) -> None:
        """Take a page that was read elsewhere, in place of `run`. `turn`: called where others would have a turn."""
        self._is_open = True  # there is nothing more to hear of
        self._hand_on(self._taken(self._reader.page(body)))
        while self._machine.is_reporting:
            turn()
            self._hand_on(self._machine.next_portion())

    def _taken(self, page: DecodedPage[T]) -> list[Notification[T]]:
        self.is_served = True
        return self._machine.on_page(page.objects, page.malformed, page.resource_version, page.continue_token)

    async def _watch(self, step: OpenWatch) -> None:
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
                self._opened()
                async for chunk in chunks:
                    if not await self._take_lines(lines.feed(chunk)):
                        return
        except NotFound as error:
            if self._optional:
                self.is_served, self._is_open = False, True
                await self._notify(self._machine.on_absent(self._absent_s))
            else:
                self._machine.on_error(error, self._monotonic() - begun_s)
            return
        except CotenantError as error:
            self._machine.on_error(error, self._monotonic() - begun_s)
            if isinstance(error, Forbidden):  # it may be listed and not watched: this is all that is heard of
                self._opened()
            return
        if lines.rest:
            _log.info("%s: the watch ended within a line", self.kind.plural)
        self._machine.on_end(self._monotonic() - begun_s)

    async def _take_lines(self, lines: list[bytes]) -> bool:
        """Process some lines; False = the watch is over."""
        machine, read = self._machine, self._reader.line
        notifications: list[Notification[T]] = []
        is_open = True
        for line in lines:
            event = read(line)
            if isinstance(event, WatchEvent):
                notifications += machine.on_event(event.type, event.obj)
            elif isinstance(event, Bookmark):
                notifications += machine.on_bookmark(event.resource_version, event.initial_end)
                if machine.is_reporting:  # what follows comes after the list
                    await self._notify(notifications)
                    notifications = []
            elif isinstance(event, MalformedEvent):
                notifications += machine.on_malformed(event.key, event.why, event.resource_version)
            elif isinstance(event, InvalidLine):
                machine.on_invalid_line(event.why)
                is_open = False
                break
            else:
                machine.on_error(event)
                is_open = False
                break
        await self._notify(notifications)
        return is_open

    async def _notify(self, notifications: list[Notification[T]]) -> None:
        """Deliver these, and then what is left of a list, with turns of the event loop in between."""
        self._hand_on(notifications)
        while self._machine.is_reporting:
            portion = self._machine.next_portion()
            self._handing_on(self._machine.is_reporting)
            self._hand_on(portion)
            await asyncio.sleep(0)

    def _hand_on(self, notifications: list[Notification[T]]) -> None:
        if notifications:
            self._deliver(notifications)
        self._check_synced()

    def _opened(self) -> None:
        self._is_open = True
        self._check_synced()

    def _check_synced(self) -> None:
        if not self._synced.is_set() and self._machine.synced and self._is_open:
            self._synced.set()
