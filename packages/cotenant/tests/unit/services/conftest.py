"""A request in process: what an ASGI application answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.servers.http_connection import FakeConnection

from cotenant.drivers.http.limits import ServerLimits
from cotenant.drivers.http.messages import CONNECTION


class Answered:
    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = messages
        self.status = messages[0]["status"] if messages else 0
        self.headers = dict(messages[0]["headers"]) if messages else {}
        self.body = b"".join(message.get("body", b"") for message in messages[1:])


def ask(
    app: Any,
    path: str,
    body: bytes | list[bytes] = b"",
    method: str = "POST",
    headers: dict[str, str] | None = None,
    hangs_up: bool = False,
    limits: ServerLimits | None = None,
) -> Answered:
    """Send one request; a body in parts arrives part by part, and `hangs_up` ends it before its end; `limits` are
    the server's.
    """
    parts = [body] if isinstance(body, bytes) else list(body)
    incoming = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if hangs_up:
        incoming.append({"type": "http.disconnect"})
    else:
        incoming[-1]["more_body"] = False
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(key.lower().encode(), value.encode()) for key, value in (headers or {}).items()],
    }
    if limits is not None:
        scope["extensions"] = {CONNECTION: FakeConnection(limits)}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return Answered(sent)


@pytest.fixture(name="ask")
def ask_fixture() -> Callable[..., Answered]:
    return ask
