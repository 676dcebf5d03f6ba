"""One connection: uvicorn's HTTP protocol within the limits of its server.

Uvicorn bounds the idle time between two requests, and neither the size of a head nor the time of a head, a body or a
read; it closes a connection with unread input, and the client's kernel then discards the answer. Its protocol with
bounds on each of them. A timer exists only while a request is incomplete, so a request that arrives in one read costs
none. What is refused gets an answer, and input is discarded for a moment before the connection closes. An answer in
progress, such as a watch, is cut only where its client reads nothing. Where the server is full, connections that have
been idle for longest make room for a new one, so that clients that only hold them lock nobody out.
Limits: HTTP/1.1; no WebSocket or other upgrade; the size of a body is bounded where it is read (`messages.read_body`);
pipelined requests are timed from the newest of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from math import inf
from time import perf_counter, time
from typing import Final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.messages import CONNECTION, TEXT, HttpAnswer
from cotenant.drivers.http.traffic import UNANSWERED, ServerTraffic

_BETWEEN: Final = 0  # requests: the next head has not begun
_HEAD: Final = 1
_BODY: Final = 2
_SHARE_ENDED: Final = 32  # of the connections, one in so many is ended at once, so that the search for them is rare

Refusal = Callable[[int, str], HttpAnswer]


def plain_refusal(status: int, message: str) -> HttpAnswer:
    """A refusal as one line of text."""
    return HttpAnswer(status, f"{message}\n".encode(), TEXT)


@dataclass(slots=True)
class ServerContext:
    """What the connections of a server share. `emptied` is set whenever the last connection has closed."""

    limits: ServerLimits
    traffic: ServerTraffic
    max_connections: int
    refusal: Refusal = plain_refusal
    next_date_s: float = inf  # when the Date header is out of date, by `perf_counter`; inf: answers have none
    emptied: asyncio.Event = field(default_factory=asyncio.Event)


class _Refuse(Exception):
    """Raised in a callback to stop the parser."""


class _Responder:
    """The transport that answers are written to: it keeps the head of the present answer, for its status, and
    closes in two steps.
    """

    __slots__ = ("_write", "close", "head", "is_closing")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.head: bytes | None = None
        self._write = transport.write
        self.is_closing = transport.is_closing
        self.close = close

    def write(self, data: bytes) -> None:
        """Send a part of an answer."""
        if self.head is None:
            self.head = data
        self._write(data)


class BoundedProtocol(HttpToolsProtocol):
    """A connection within `ServerLimits`."""

    def __init__(self, config: uvicorn.Config, state: ServerState, context: ServerContext) -> None:
        super().__init__(config, state, {})
        self.limits = context.limits
        self.timeout_keep_alive = context.limits.idle_s  # type: ignore[assignment]  # given to call_later
        self._context = context
        self._extensions: dict[str, object] = {CONNECTION: self}
        self._phase: int = _BETWEEN
        self._read_bytes = 0  # of the present read
        self._waiting_bytes = 0  # read since a head began or ended, or a body grew
        self._completed = False  # a request ended within the present read
        self._requests = 0  # begun and not answered
        self._began_s = 0.0  # the newest of them
        self._timer: asyncio.TimerHandle | None = None  # of a head, a body, or the close
        self._stall_timer: asyncio.TimerHandle | None = None
        self._unsent_bytes = 0
        self._is_closing = False
        self._refusal: tuple[int, str, str] | None = None

    # ---- for the application

    @property
    def has_whole_body(self) -> bool:
        """Whether the body of the newest request has arrived completely."""
        return self._phase == _BETWEEN

    def abort(self) -> None:
        """Drop the connection with whatever has not been sent."""
        self._is_closing = True
        self.transport.abort()

    # ---- life of the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first head, or refuse where the server is full."""
        super().connection_made(transport)
        self._responder = _Responder(transport, self._close)
        self._context.traffic.connections += 1
        if len(self.connections) > self._context.max_connections and not self._made_room():
            self._refuse(503, "too many connections", "connections")
            return
        self._start_timer(self.limits.head_within_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release timers and references."""
        self._is_closing = True
        self._stop_timer()
        self._unset_keepalive_if_required()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        self._context.traffic.connections -= 1
        while self._requests:
            self._request_ended()
        super().connection_lost(exc)
        self._extensions.clear()
        if not self.connections:
            self._context.emptied.set()

    def shutdown(self) -> None:
        """Close once the answer in progress is complete; at once where there is none."""
        if self._is_busy:
            self.cycle.keep_alive = False
        else:
            self._close()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        self._close()

    # ---- input

    def data_received(self, data: bytes) -> None:
        """Parse, and bound what is incomplete afterwards."""
        if self._is_closing:
            return
        self._unset_keepalive_if_required()
        self._read_bytes = len(data)
        self._waiting_bytes += self._read_bytes
        self._completed = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self.cycle is not None:
                self.cycle.keep_alive = False  # answered as HTTP/1.1; what follows is of another protocol
        except httptools.HttpParserError:
            self._refuse(*(self._refusal or (400, "Invalid HTTP request received.", "malformed")))
            return
        if self._phase != _BETWEEN:
            if self._waiting_bytes > self.limits.head_bytes:
                self._refuse(*self._head_too_large())
            elif self._timer is None:
                self._start_timer(self._phase_s())
        elif not self._is_busy:
            if self._completed:  # answered before its end
                self.timeout_keep_alive_task = self.loop.call_later(self.limits.idle_s, self._close)
            elif self._timer is None:  # empty lines, which the parser skips
                self._start_timer(self.limits.head_within_s)

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._phase = _HEAD
        self._waiting_bytes = 0 if self._completed else self._read_bytes  # a read may begin with the request before

    def on_headers_complete(self) -> None:
        """Check the head's exact size where it may be too large, and start the application."""
        self._stop_timer()
        if max(self._waiting_bytes, self._read_bytes) > self.limits.head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.limits.head_bytes:
                self._refusal = self._head_too_large()
                raise _Refuse
        self._phase = _BODY
        self._waiting_bytes = 0
        context = self._context
        self._began_s = perf_counter()
        if self._began_s >= context.next_date_s:
            self._update_date()
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        super().on_headers_complete()
        self.cycle.transport = self._responder  # type: ignore[assignment]
        context.traffic.in_flight += 1
        self._requests += 1

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._waiting_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._stop_timer()
        self._phase = _BETWEEN
        self._waiting_bytes = 0
        self._completed = True
        super().on_message_complete()

    # ---- output

    def on_response_complete(self) -> None:
        """Count the answer, and wait for the next request."""
        self._request_ended()
        if self._is_closing:
            return
        super().on_response_complete()
        if self._phase != _BETWEEN:
            self._unset_keepalive_if_required()  # the timer of the head or the body runs

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is made: watch whether it reads at all."""
        super().pause_writing()
        self._watch_unsent()

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._stall_timer is not None and not self._is_closing:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _request_ended(self) -> None:
        self._requests -= 1
        head = self._responder.head  # HTTP/1.1 200 OK
        self._responder.head = None
        status = UNANSWERED if head is None else int(head[9:12])
        scope = self.cycle.scope  # `self.scope` may be that of a head which is incomplete
        self._context.traffic.ended(status, scope, perf_counter() - self._began_s)  # type: ignore[arg-type]

    # ---- bounds

    def _made_room(self) -> bool:
        """End a part of the connections that are between two requests, the oldest first; whether there were any."""
        idle = [
            (waits.when(), connection)
            for connection in self.connections
            if connection is not self
            and isinstance(connection, BoundedProtocol)
            and (waits := connection.idle_timer()) is not None
        ]
        idle.sort(key=lambda pair: pair[0])
        for _, protocol in idle[: max(1, self._context.max_connections // _SHARE_ENDED)]:
            self._context.traffic.refused("idle")
            protocol.abort()
        return bool(idle)

    def idle_timer(self) -> asyncio.TimerHandle | None:
        """The timer of the wait for a request; None where one is in progress, or the connection is closing."""
        if self._is_closing or self._is_busy or self._phase != _BETWEEN:
            return None
        return self.timeout_keep_alive_task or self._timer

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and (not self.cycle.response_complete or bool(self.pipeline))

    def _phase_s(self) -> float:
        # An application that reads the body refuses it first, in its own words; this is for one that does not.
        return self.limits.head_within_s if self._phase == _HEAD else 2 * self.limits.body_within_s

    def _head_too_large(self) -> tuple[int, str, str]:
        return 431, f"a head may have at most {self.limits.head_bytes} bytes", "head size"

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._expired)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        self._timer = None
        if self._is_busy:
            if self._phase == _BODY and not self.cycle.response_started and not self.flow.read_paused:
                self._refuse(408, "the body did not arrive in time", "body time")
            else:  # an answer is in progress, or it is this side that does not read
                self._start_timer(self._phase_s())
        elif self._phase == _HEAD:
            self._refuse(408, f"the head did not arrive within {self.limits.head_within_s:g} s", "head time")
        else:
            self._context.traffic.refused("body time" if self._phase == _BODY else "head time")
            self._close()

    def _refuse(self, status: int, message: str, reason: str) -> None:
        """Answer in place of the application, where nothing has been answered yet, and close."""
        if self._is_closing:
            return
        self._context.traffic.refused(reason)
        if self._is_busy:
            if self.cycle.response_started or self.pipeline:  # bytes of an answer may be out already
                self.abort()
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        answer = self._context.refusal(status, message)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-length: {len(answer.body)}\r\nconnection: "
            "close\r\n"
        )
        more = b"".join(b"%s: %s\r\n" % pair for pair in answer.more)
        self.transport.write(
            b"%scontent-type: %s\r\n%s\r\n%s" % (head.encode(), answer.content_type, more, answer.body)
        )
        self._close(lingers=True)

    def _close(self, *, lingers: bool = False) -> None:
        """Close once everything is sent. Where the client may still be sending, discard its input first: closing a
        socket with unread input resets the connection, and the client loses the answer.
        """
        if self._is_closing:
            return
        self._is_closing = True
        self._stop_timer()
        self._unset_keepalive_if_required()
        if lingers or self._phase != _BETWEEN:
            self.flow.resume_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self._timer = self.loop.call_later(self.limits.linger_s, self._finish)
        else:
            self._finish()

    def _finish(self) -> None:
        self._timer = None
        self.transport.close()
        if self._unsent():
            self._watch_unsent()

    def _unsent(self) -> int:
        """Bytes that were written and not sent."""
        try:
            return self.transport.get_write_buffer_size()
        except AttributeError:  # a TLS transport of asyncio's after its end
            return 0

    def _watch_unsent(self) -> None:
        if self._stall_timer is None:
            self._unsent_bytes = self._unsent()
            self._stall_timer = self.loop.call_later(self.limits.write_stall_s, self._stalled)

    def _stalled(self) -> None:
        """Abort where nothing was read since the last look."""
        self._stall_timer = None
        unsent = self._unsent()
        if unsent and unsent >= self._unsent_bytes:
            self._context.traffic.refused("slow reader")
            self.abort()
        elif unsent:
            self._watch_unsent()

    def _update_date(self) -> None:
        """At the first request of each second."""
        now_s = time()
        self._context.next_date_s = self._began_s + 1.0 - now_s % 1.0
        self.server_state.default_headers = [(b"date", formatdate(now_s, usegmt=True).encode())]
