"""Requests and answers of our servers' hot paths, straight on ASGI.

Problem: kube-scheduler waits for an extender's every answer, and a web framework's request and routing objects cost more than the judgement.
Choice: two functions, one that reads a bounded body within a time and one that sends an answer in one go. Limits: bodies are held whole.
Source: ASGI HTTP specification 2.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

# The types of the ASGI specification.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer. `more` are further headers."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    more: tuple[tuple[bytes, bytes], ...] = ()


class Refused(Exception):
    """The body cannot be had; `answer` says so to the sender."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.status)


class Gone(Exception):
    """The sender hung up; nobody waits for an answer."""


def header(scope: Scope, name: bytes) -> bytes:
    """A header's value, empty where it is absent. `name` is in lower case, as ASGI gives them."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return b""


async def read_body(scope: Scope, receive: Receive, most_bytes: int, within_s: float) -> bytes:
    """The request's body. Raises `Refused` (413, 408) or `Gone`."""
    too_large = Answer(
        413, f"a body may have at most {most_bytes} bytes\n".encode(), TEXT, ((b"connection", b"close"),)
    )
    length = header(scope, b"content-length")
    if length.isdigit() and int(length) > most_bytes:
        raise Refused(too_large)
    try:
        async with asyncio.timeout(within_s):
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            body = message.get("body", b"")
            if not message.get("more_body"):
                if len(body) > most_bytes:
                    raise Refused(too_large)
                return bytes(body)
            parts, size = [body], len(body)
            while message.get("more_body"):
                if size > most_bytes:
                    raise Refused(too_large)
                message = await receive()
                if message["type"] != "http.request":
                    raise Gone
                parts.append(message.get("body", b""))
                size += len(parts[-1])
            if size > most_bytes:
                raise Refused(too_large)
            return b"".join(parts)
    except TimeoutError:
        raise Refused(
            Answer(408, f"the body did not arrive within {within_s:g} s\n".encode(), TEXT, ((b"connection", b"close"),))
        ) from None


async def send_answer(send: Send, answer: Answer) -> None:
    """Send an answer; its length is always told, so that the connection stays open."""
    length = b"%d" % len(answer.body)
    headers = [(b"content-length", length)] if answer.status != 204 else []
    if answer.body:
        headers.append((b"content-type", answer.content_type))
    await send({"type": "http.response.start", "status": answer.status, "headers": [*headers, *answer.more]})
    await send({"type": "http.response.body", "body": answer.body})
