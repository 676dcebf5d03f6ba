"""Requests and answers, straight on ASGI.

kube-scheduler waits for an extender's every answer, and a web framework's request and routing objects cost more than
the judgement. Two functions, one that reads a body within the server's limits and one that sends an answer in one go.
An application finds the connection in the scope.
Limits: bodies are held whole.
Source: ASGI HTTP specification 2.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from cotenant.drivers.http.limits import DEFAULTS, ServerLimits

# The types of the ASGI specification.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

CONNECTION = "cotenant.connection"  # in the scope's extensions

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP answer. `more` are further headers."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    more: tuple[tuple[bytes, bytes], ...] = ()


class HttpConnection(Protocol):
    """The connection of a request, for its application."""

    limits: ServerLimits

    @property
    def has_whole_body(self) -> bool:
        """Whether the body of the newest request has arrived completely."""
        ...

    def abort(self) -> None:
        """Drop the connection with whatever has not been sent."""
        ...


def connection_of(scope: Scope) -> HttpConnection | None:
    """The connection of a request; None outside a server, and once the connection is closed."""
    extensions = scope.get("extensions")
    return extensions.get(CONNECTION) if extensions else None


class BodyRefused(Exception):
    """The body cannot be read; `answer` tells the client why."""

    def __init__(self, answer: HttpAnswer) -> None:
        self.answer = answer
        super().__init__(answer.status)


class Disconnected(Exception):
    """The client disconnected."""


def header(scope: Scope, name: bytes) -> bytes:
    """A header's value, empty where it is absent. `name` is in lower case, as ASGI gives them."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


async def read_body(scope: Scope, receive: Receive, max_bytes: int | None = None) -> bytes:
    """The request's body. `max_bytes`: a lower limit than the server's. Raises `BodyRefused` (413, 408) or
    `Disconnected`.
    """
    connection = connection_of(scope)
    limits = DEFAULTS if connection is None else connection.limits
    most = limits.body_bytes if max_bytes is None else max_bytes
    length = header(scope, b"content-length")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    if connection is not None and connection.has_whole_body:  # usual; spares the timer
        return await _parts(receive, most)
    try:
        async with asyncio.timeout(limits.body_within_s):
            return await _parts(receive, most)
    except TimeoutError:
        words = f"the body did not arrive within {limits.body_within_s:g} s\n"
        raise BodyRefused(HttpAnswer(408, words.encode(), TEXT, ((b"connection", b"close"),))) from None


async def _parts(receive: Receive, most: int) -> bytes:
    message = await receive()
    if message["type"] != "http.request":
        raise Disconnected
    body: bytes = message.get("body", b"")
    if len(body) > most:
        raise _too_large(most)
    if not message.get("more_body"):
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            raise Disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
    return b"".join(parts)


def _too_large(most: int) -> BodyRefused:
    words = f"a body may have at most {most} bytes\n"
    return BodyRefused(HttpAnswer(413, words.encode(), TEXT, ((b"connection", b"close"),)))


async def send_answer(send: Send, answer: HttpAnswer) -> None:
    """Send an answer with its length, so that the connection can stay open."""
    length = b"%d" % len(answer.body)
    headers = [(b"content-length", length)] if answer.status != 204 else []
    if answer.body:
        headers.append((b"content-type", answer.content_type))
    await send({"type": "http.response.start", "status": answer.status, "headers": [*headers, *answer.more]})
    await send({"type": "http.response.body", "body": answer.body})
