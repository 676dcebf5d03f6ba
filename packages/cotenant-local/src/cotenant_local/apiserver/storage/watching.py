"""Watches: one encoded line per event, shared by all watchers with the same selection.

50 clients watch the same pods; encoding and filtering each event 50 times would dominate the server's CPU. Watchers of
one resource with the same namespace, selectors and served version share a channel; after each commit the channel
filters the batch once, builds its lines once, and hands every watcher the same tuple. Each watcher has a bounded
buffer; if a slow reader overflows it, the watch ends cleanly after the buffered events (no ERROR event), as on the real
server. Lines are built only while a watcher exists; the history keeps objects.
Limits: single event loop. Selection: an object that enters is ADDED, one that leaves is DELETED and shown in its last
selected state with the new resourceVersion (Kubernetes watch cache); so a binding is a DELETED event under
`spec.nodeName=`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from cotenant_local.apiserver.storage.history import ADDED, DELETED, MODIFIED, HistoryEvent
from cotenant_local.apiserver.storage.stored import StoredObject, encode

Predicate = Callable[[StoredObject], bool]
Convert = Callable[[bytes], bytes]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BUFFER_EVENTS = 8_192
BUFFER_BYTES = 64 << 20


def line(kind: str, raw: bytes) -> bytes:
    """One encoded event line."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


def bookmark(api_version: str, kind: str, revision: int, is_initial_end: bool = False) -> bytes:
    """A BOOKMARK line: all events up to a revision have been sent."""
    metadata: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if is_initial_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return line("BOOKMARK", encode({"kind": kind, "apiVersion": api_version, "metadata": metadata}))


def selected_line(event: HistoryEvent, predicate: Predicate | None, convert: Convert | None) -> bytes | None:
    """The line of an event under a selection, None if the selection does not include it."""
    if predicate is None:
        kind, raw = event.type, event.new.raw
    else:
        was = event.old is not None and predicate(event.old)
        now = event.type != DELETED and predicate(event.new)
        if not was and not now:
            return None
        if was and now:
            kind, raw = MODIFIED, event.new.raw
        elif now:
            kind, raw = ADDED, event.new.raw
        elif event.type == DELETED or event.old is None:
            kind, raw = DELETED, event.new.raw
        else:
            kind, raw = DELETED, event.old.at_version(event.resource_version)
    return line(kind, convert(raw) if convert is not None else raw)


class EventBatch:
    """The lines of a batch, shared by all watchers of a channel; joined at most once."""

    __slots__ = ("_joined", "lines", "size")

    def __init__(self, lines: tuple[bytes, ...]) -> None:
        self.lines = lines
        self.size = sum(map(len, lines))
        self._joined = b""

    def joined(self) -> bytes:
        """All lines as one chunk."""
        if not self._joined:
            self._joined = self.lines[0] if len(self.lines) == 1 else b"".join(self.lines)
        return self._joined


class Channel:
    """The watchers of one selection."""

    __slots__ = ("_after", "_convert", "_predicate", "watches")

    def __init__(self, predicate: Predicate | None, convert: Convert | None, after: int = 0) -> None:
        self._after = after  # events up to this revision are not delivered
        self._predicate = predicate
        self._convert = convert
        self.watches: list[WatchStream] = []

    def publish(self, events: Iterable[HistoryEvent]) -> None:
        """Deliver a committed batch to the watchers."""
        lines = [
            text
            for event in events
            if event.resource_version > self._after
            and (text := selected_line(event, self._predicate, self._convert)) is not None
        ]
        if lines:
            batch = EventBatch(tuple(lines))
            for watch in tuple(self.watches):
                watch.push(batch)

    def replay(self, events: Iterable[HistoryEvent]) -> Iterator[bytes]:
        """The lines of past events, built lazily."""
        for event in events:
            text = selected_line(event, self._predicate, self._convert)
            if text is not None:
                yield text


class WatchStream:
    """One client's stream of event lines; an async iterator of lines, or of joined chunks through `chunk`.

    It ends at its timeout, when its reader was too slow, or when `close` is called.
    """

    def __init__(
        self,
        channel: Channel,
        first: Iterator[bytes],
        *,
        mark: Callable[[], bytes] | None,
        bookmark_period_s: float,
        timeout_s: float,
        buffer_events: int = BUFFER_EVENTS,
        buffer_bytes: int = BUFFER_BYTES,
        on_close: Callable[[WatchStream], None],
    ) -> None:
        self._channel = channel
        self._first: Iterator[bytes] | None = first
        self._mark = mark
        self._period = bookmark_period_s
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._end_at = loop.time() + timeout_s
        self._mark_at = loop.time() + bookmark_period_s
        self._pending: deque[EventBatch] = deque()
        self._at = 0  # lines of the first batch already taken
        self._events = 0
        self._bytes = 0
        self._buffer_events = buffer_events
        self._buffer_bytes = buffer_bytes
        self._waker: asyncio.Future[None] | None = None
        self._on_close = on_close
        self.is_closed = False
        self.was_slow = False
        channel.watches.append(self)

    def push(self, batch: EventBatch) -> None:
        """Append a committed batch; called by the channel."""
        if self._events + len(batch.lines) > self._buffer_events or self._bytes + batch.size > self._buffer_bytes:
            self.was_slow = True
            self._detach()
        else:
            self._pending.append(batch)
            self._events += len(batch.lines)
            self._bytes += batch.size
        self._wake()

    def close(self) -> None:
        """End the stream and drop pending lines."""
        self._pending.clear()
        self._first = None
        self._detach()
        self._wake()

    def _detach(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._channel.watches.remove(self)
            self._on_close(self)

    def _wake(self) -> None:
        waker = self._waker
        if waker is not None and not waker.done():
            waker.set_result(None)

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> bytes:
        """The next line. Raises StopAsyncIteration at the end."""
        while True:
            text = self._next_line()
            if text:
                return text
            if not await self._ready():
                raise StopAsyncIteration

    async def chunk(self, max_bytes: int = 1 << 20) -> bytes:
        """All ready lines (about `max_bytes` at most) joined; empty at the end of the stream."""
        while True:
            if self._first is None and self._at == 0 and len(self._pending) == 1:
                batch = self._pending.popleft()
                self._events -= len(batch.lines)
                self._bytes -= batch.size
                return batch.joined()  # shared by all watchers of the channel
            parts: list[bytes] = []
            size = 0
            while size < max_bytes and (text := self._next_line()):
                parts.append(text)
                size += len(text)
            if parts:
                return b"".join(parts)
            if not await self._ready():
                return b""

    def _next_line(self) -> bytes:
        if self._first is not None:
            text = next(self._first, b"")
            if text:
                return text
            self._first = None
        if self._pending:
            batch = self._pending[0]
            text = batch.lines[self._at]
            self._at += 1
            self._events -= 1
            if self._at == len(batch.lines):
                self._pending.popleft()
                self._bytes -= batch.size
                self._at = 0
            return text
        if self._mark is not None and not self.is_closed and self._loop.time() >= self._mark_at:
            self._mark_at = self._loop.time() + self._period
            return self._mark()
        return b""

    async def _ready(self) -> bool:
        """Wait until there is something to send. Returns False at the end of the stream."""
        if self.is_closed:
            return False
        if self._loop.time() >= self._end_at:
            self._detach()
            return False
        until = self._end_at if self._mark is None else min(self._end_at, self._mark_at)
        self._waker = self._loop.create_future()
        timer = self._loop.call_at(until, self._wake)
        try:
            await self._waker
        finally:
            timer.cancel()
            self._waker = None
        return True
