"""The query API of Prometheus, answered by a function of the test, which may refuse, cut off, or stay silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Reply:
    """What is sent. `status` 0 = the connection is closed without an answer; `length` claims more than is sent."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


@dataclass(frozen=True)
class Question:
    """What was asked."""

    path: str
    query: str
    at_s: float
    end_s: float
    step_s: float
    headers: Mapping[str, str]

    @property
    def columns(self) -> list[float]:
        """The times of a range."""
        return [self.at_s + i * self.step_s for i in range(round((self.end_s - self.at_s) / self.step_s) + 1)]


def vector(*rows: tuple[Mapping[str, str], float | str], **more: Any) -> Reply:
    """An instant answer."""
    found = [{"metric": labels, "value": [0, str(value)]} for labels, value in rows]
    return Reply(json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}, **more}).encode())


def matrix(*rows: tuple[Mapping[str, str], list[tuple[float, float | str]]], **more: Any) -> Reply:
    """A range answer."""
    found = [{"metric": labels, "values": [[t, str(value)] for t, value in values]} for labels, values in rows]
    return Reply(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}, **more}).encode())


def refusal(status: int, error: str, kind: str = "", **headers: str) -> Reply:
    """An error as Prometheus words it."""
    body = json.dumps({"status": "error", "errorType": kind, "error": error}).encode()
    return Reply(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


class FakePrometheus:
    """`async with FakePrometheus(answer) as server: ... server.url`; what was asked is kept."""

    def __init__(self, answer: Callable[[Question], Reply]) -> None:
        self._answer = answer
        self.asked: list[Question] = []

    async def __aenter__(self) -> FakePrometheus:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            target = urlsplit(head[0].split()[1])
            given = {name: values[0] for name, values in parse_qs(target.query).items()}
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            at_s = float(given.get("start") or given.get("time") or 0)
            question = Question(
                target.path, given["query"], at_s, float(given.get("end", at_s)), float(given.get("step", 1)), headers
            )
            self.asked.append(question)
            reply = self._answer(question)
            if reply.status:
                length = len(reply.body) if reply.length is None else reply.length
                lines = [f"HTTP/1.1 {reply.status} X", f"Content-Length: {length}", "Connection: close"]
                lines += [f"{name}: {value}" for name, value in reply.headers.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + reply.body)
                await writer.drain()
        finally:
            writer.close()
