"""The agent's connection to the trace process: signals of its replicas come in, what was done goes out.

Signals must arrive within two seconds without polling, and the agent must not depend on their source. One stream per
agent, opened by the agent with the pods that it has and opened anew when these change; a stream that is silent for
`SILENT_S` (its source sends a line each second) is dropped and tried again with a back-off. Whatever fails here is
counted and leaves the loop that holds knobs alone; signals then age and the guard falls back.
Limits: one trace process; actions and stories that cannot be delivered are dropped, the oldest first, when the queue is
full.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import aiohttp

from cotenant.drivers.http.tokens import read_token
from cotenant.drivers.http.trust import TlsTrust
from cotenant.engine.framework.backoff import Backoff
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.services.reporting.signals import (
    ACTIONS,
    MAX_LINE_BYTES,
    MAX_PODS,
    SIGNALS,
    ActionTaken,
    SignalLine,
    SignalSubscription,
    SubscribedPod,
    decode_line,
    encode,
)
from cotenant.services.reporting.stories import STORIES, StoryReport
from cotenant.services.reporting.stories import encode as encode_story

SILENT_S = 5.0
CONNECT_S = 5.0
RETRY_S = 2.0
MAX_WAITING = 256
_SHOWN = 200
_log = logging.getLogger(__name__)

Pods = Callable[[], Sequence[tuple[str, str]]]  # namespace/name and UID of each pod


class TraceLink:
    """One trace process. `run` until cancelled, then `close`."""

    def __init__(
        self,
        url: str,
        node: str,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        *,
        silent_s: float = SILENT_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self.connected = False
        self.problem = "not connected yet"
        self.lines = 0
        self.signals = 0
        self.connections = 0
        self.failures = 0
        self.actions = {"delivered": 0, "refused": 0, "dropped": 0}
        self._node = node
        self._token_file = token_file
        self._trust = TlsTrust(ca_file, "traces ca file")
        self._silent_s = silent_s
        self._sleep = sleep
        self._session: aiohttp.ClientSession | None = None
        self._pods_changed = asyncio.Event()
        self._waiting: dict[object, tuple[str, bytes]] = {}  # path and body by key, in order
        self._some = asyncio.Event()

    def pods_changed(self) -> None:
        """Subscribe anew."""
        self._pods_changed.set()

    def acted(self, action: ActionTaken) -> None:
        """Report what this node did, soon."""
        self._put(object(), ACTIONS, encode(action))

    def report_story(self, report: StoryReport) -> None:
        """Report the story of a service soon, in place of an earlier one that waits."""
        self._put(report.story.service, STORIES, encode_story(report))

    def _put(self, key: object, path: str, body: bytes) -> None:
        if key not in self._waiting and len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self.actions["dropped"] += 1
        self._waiting[key] = (path, body)
        self._some.set()

    async def run(self, pods: Pods, take: Callable[[SignalLine], None]) -> None:
        """Receive, and deliver actions, until cancelled. `take` gets each line; it must be quick."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._receive(pods, take), name="trace signals")
            group.create_task(self._deliver(), name="actions for objectives")

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _receive(self, pods: Pods, take: Callable[[SignalLine], None]) -> None:
        backoff = Backoff(0.5, 10.0)
        failing = 0
        while True:
            self._pods_changed.clear()
            asked = tuple(SubscribedPod(key, uid) for key, uid in pods()[:MAX_PODS])
            if not asked:
                self.problem = "no pods to ask for"
                await self._pods_changed.wait()
                continue
            try:
                async for line in self._stream(SignalSubscription(self._node, asked)):
                    failing = 0
                    self.lines += 1
                    self.signals += len(line.signals)
                    take(line)
                self.problem = "subscribing anew"
            except (CotenantError, aiohttp.ClientError, TimeoutError, OSError) as error:
                self.failures += 1
                words = f"{self.url}: {str(error) or type(error).__name__}"
                if words != self.problem:
                    _log.warning("signals of the trace process: %s", words)
                self.problem = words
                failing += 1
                await self._sleep(backoff.rest_s(failing))
            finally:
                self.connected = False

    async def _stream(self, asked: SignalSubscription) -> AsyncIterator[SignalLine]:
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=self._silent_s)
        async with self._client().post(
            self.url + SIGNALS, data=encode(asked), headers=self._headers(), timeout=timeout, ssl=self._trust.context()
        ) as answer:
            if answer.status != 200:
                said = (await answer.content.read(_SHOWN)).decode("utf-8", "replace")
                raise Transient(f"{answer.status} {' '.join(said.split())}")
            self.connected, self.problem = True, ""
            self.connections += 1
            changed = asyncio.create_task(self._pods_changed.wait(), name="pods changed")
            try:
                async for line in _lines(answer.content, changed):
                    yield decode_line(line)
            finally:
                changed.cancel()

    async def _deliver(self) -> None:
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            key, (path, body) = next(iter(self._waiting.items()))
            try:
                timeout = aiohttp.ClientTimeout(total=CONNECT_S)
                async with self._client().post(
                    self.url + path,
                    data=body,
                    headers=self._headers(),
                    timeout=timeout,
                    ssl=self._trust.context(),
                ) as answer:
                    if answer.status >= 500 or answer.status in (408, 429):
                        raise Transient(f"answered {answer.status}")
                    self.actions["delivered" if answer.status < 300 else "refused"] += 1
            except (CotenantError, aiohttp.ClientError, TimeoutError, OSError):
                await self._sleep(RETRY_S)
                continue
            if self._waiting.get(key) == (path, body):  # else a newer one waits
                del self._waiting[key]

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {read_token(self._token_file, 'traces token file').decode()}"
        return headers


async def _lines(content: aiohttp.StreamReader, changed: asyncio.Task[bool]) -> AsyncIterator[bytes]:
    """The lines of a stream, until it ends or `changed` is done. Raises `InvalidInput` for a line without end."""
    held = bytearray()
    while not changed.done():
        reading = asyncio.ensure_future(content.readany())
        try:
            await asyncio.wait((reading, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not reading.done():
                reading.cancel()
        if not reading.done() or reading.cancelled():
            return
        data = reading.result()
        if not data:
            raise Transient("the stream ended")
        held += data
        *whole, rest = held.split(b"\n")
        held = bytearray(rest)
        if len(held) > MAX_LINE_BYTES:
            raise InvalidInput("signal line", f"{len(held)} bytes", f"at most {MAX_LINE_BYTES}")
        for line in whole:
            if line:
                yield bytes(line)
