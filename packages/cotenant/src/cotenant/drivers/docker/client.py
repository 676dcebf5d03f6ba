"""Requests to Docker's Engine API over a Unix socket.

Source: Docker Engine API, version 1.41; podman's compatible API has the same paths.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec

from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient
from cotenant.model.json_object import JsonObject, JsonValue

SOCKET = Path("/var/run/docker.sock")
VERSION = "/v1.41"
_MAX_ANSWER_BYTES = 16 << 20


class NotThere(Permanent):
    """No such container or image."""


class InUse(Permanent):
    """The name is in use, or the container is not in the state for this."""


class DockerClient:
    """One daemon. Close it."""

    def __init__(
        self, socket: Path = SOCKET, timeout_s: float = 60.0, max_answer_bytes: int = _MAX_ANSWER_BYTES
    ) -> None:
        self.socket = socket
        self._max_answer_bytes = max_answer_bytes
        connector = aiohttp.UnixConnector(path=os.fspath(socket), limit=32)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s), json_serialize=_json
        )

    async def close(self) -> None:
        """End all connections."""
        await self._session.close()

    async def get(self, path: str, parameters: Mapping[str, str] | None = None) -> JsonValue:
        """A GET's JSON."""
        return await self._ask("GET", path, parameters, None)

    async def post(
        self,
        path: str,
        body: object = None,
        parameters: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> object:
        """A POST's JSON; None where it has none."""
        return await self._ask("POST", path, parameters, body, timeout_s)

    async def delete(self, path: str, parameters: Mapping[str, str] | None = None) -> None:
        """A DELETE."""
        await self._ask("DELETE", path, parameters, None)

    async def lines(
        self, method: str, path: str, parameters: Mapping[str, str], timeout_s: float | None = None
    ) -> AsyncIterator[JsonObject]:
        """Objects of an answer that goes on, as events and the progress of a pull do. `timeout_s` None: without end."""
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.request(
                method, f"http://docker{VERSION}{path}", params=parameters, timeout=timeout
            ) as answer:
                if answer.status >= 400:
                    raise failure(answer.status, await answer.read(), path)
                async for line in answer.content:
                    if line.strip():
                        yield msgspec.json.decode(line)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._away(error) from error

    async def _ask(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None,
        body: object,
        timeout_s: float | None = None,
    ) -> object:
        options: JsonObject = {"params": parameters, "json": body} if body is not None else {"params": parameters}
        if timeout_s is not None:
            options["timeout"] = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.request(method, f"http://docker{VERSION}{path}", **options) as answer:
                data = await self._whole(answer, path)
                if answer.status >= 400:
                    raise failure(answer.status, data, path)
                return msgspec.json.decode(data) if data.strip() else None
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
            raise self._away(error) from error

    async def _whole(self, answer: aiohttp.ClientResponse, path: str) -> bytes:
        """The body to its end, however many pieces it comes in. Raises Permanent where it is too long."""
        data = bytearray()
        async for piece in answer.content.iter_any():
            data += piece
            if len(data) > self._max_answer_bytes:
                raise Permanent(f"Docker's answer to {path} is longer than {self._max_answer_bytes} bytes: not read")
        return bytes(data)

    def _away(self, error: Exception) -> Transient:
        if isinstance(error, PermissionError) or "Permission denied" in str(error):
            return Transient(f"{self.socket} may not be used by this user: run as root, or as a member of its group")
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        said = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return Transient(f"Docker at {self.socket} does not answer: {said}")


def _json(body: object) -> str:
    return msgspec.json.encode(body).decode()


def failure(status: int, data: bytes, path: str) -> CotenantError:
    """The error that an answer of this status is."""
    try:
        said = str(msgspec.json.decode(data)["message"])
    except (msgspec.DecodeError, RecursionError, KeyError, TypeError):
        said = data.decode(errors="replace")[:200] or f"status {status}"
    said = " ".join(said.split())
    if status == 400:
        return InvalidInput("container", path.rpartition("/")[2], "what Docker takes", said)
    if status == 404:
        return NotThere(said)
    if status == 409:
        return InUse(said)
    return Permanent(said)
