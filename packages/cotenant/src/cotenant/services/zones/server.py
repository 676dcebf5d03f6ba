"""The socket at which the zones of a host are created, switched and ended.

The process that runs zones is privileged, and its clients are not trusted to be well behaved. The same check of peers
as the keeper's own socket; one JSON object a line, one request a connection, bounded in size, number and time. An
answer is `{"ok": ...}` or `{"error": TEXT, "invalid": BOOL}`.
Limits: what zones show (list, inspect, why, logs) is read from files, not here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path

from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.model.json_object import JsonObject, JsonValue
from cotenant.services.running import cancelled
from cotenant.services.sockets.peers import Peers, RefusalLog, credentials
from cotenant.services.sockets.unix_socket import listening_socket
from cotenant.services.zones.host import ZoneHost
from cotenant.services.zones.node_files import OF_CLUSTER
from cotenant.services.zones.zone_files import MAX_BYTES, definition_of

_log = logging.getLogger(__name__)
MAX_CONNECTIONS = 8
MAX_LINE = 8 * MAX_BYTES  # a text of control characters is six times as long in JSON
REQUEST_S = 5.0


class ZoneServer:
    """Serves one host's zones at `path`. `start`, then `stop`."""

    def __init__(self, path: Path, zones: ZoneHost, peers: Peers) -> None:
        self.path = path
        self._zones = zones
        self._peers = peers
        self._refusals = RefusalLog()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[object]] = set()
        self._restoring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen, and begin to create again what ran before. Raises `Permanent` or `InvalidInput` where the path
        cannot be used.
        """
        self._zones.sweep()
        listening = listening_socket(self.path, self._peers.socket_group)
        self._server = await asyncio.start_unix_server(self._accepted, sock=listening, limit=MAX_LINE)
        self._restoring = asyncio.create_task(self._zones.restore(), name="zones of before")

    async def stop(self) -> None:
        """Stop listening, close all connections and end the zones."""
        if self._server is not None:
            self._server.close()
            self.path.unlink(missing_ok=True)
        await cancelled([*self._open, *([self._restoring] if self._restoring else [])])
        await self._zones.stop()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, user, group = credentials(writer)
        now_s = asyncio.get_running_loop().time()
        if not self._peers.allows(user, group):
            self._refusals.refused("stranger", f"user {user} (process {pid}) may not use zones", now_s)
            writer.transport.abort()
            return
        if len(self._open) >= MAX_CONNECTIONS:
            self._refusals.refused("limit", f"more than {MAX_CONNECTIONS} requests at once", now_s)
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with asyncio.timeout(REQUEST_S):
                line = await reader.readline()
            answer = await self._answer(line, user)
            writer.write(json.dumps(answer).encode() + b"\n")
            async with asyncio.timeout(REQUEST_S):
                await writer.drain()
        except (OSError, ValueError, TimeoutError) as error:
            _log.info("a request about zones was not read or answered: %s", error or type(error).__name__)
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, line: bytes, user: int) -> dict[str, object]:
        try:
            return {"ok": await self._carry_out(_request(line), user)}
        except InvalidInput as error:
            return {"error": str(error), "invalid": True}
        except CotenantError as error:
            return {"error": str(error), "invalid": False}

    async def _carry_out(self, request: JsonObject, user: int) -> JsonValue:
        match request.get("do"):
            case "create":
                agent, text, name = request.get("agent"), _text(request, "text"), _text(request, "name")
                by_root = user in (0, os.geteuid())
                # files of a ControlZone are below the keeper's own folder, whoever asks
                if not (by_root or name.startswith(OF_CLUSTER)) and definition_of(text.encode(), name).reads_host_files:
                    raise Permanent("zones with pods, host_paths or a kernel's file are for root: they read its files")
                wait = request.get("wait", True) is not False
                return await self._zones.create(text, name, None if agent is None else _text(request, "agent"), wait)
            case "switch":
                return await self._zones.switch(_text(request, "zone"), _text(request, "setting"))
            case "destroy":
                return await self._zones.destroy(_text(request, "zone"))
            case "exec":
                command = request.get("command")
                if user not in (0, os.geteuid()):
                    raise Permanent("commands in virtual machines are for root: a guest's root reads this host's files")
                if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
                    raise InvalidInput("command", command, "a list of text")
                return await self._zones.execute(_text(request, "zone"), _text(request, "group"), command)
            case "sources":
                return self._zones.sources
            case "failures":
                return self._zones.failures
            case "keepsBack":
                kept = request.get("bytes")
                if kept is not None and (not isinstance(kept, int) or isinstance(kept, bool) or kept < 0):
                    raise InvalidInput("bytes", kept, "0 or more, null where it is not known")
                self._zones.keeps_back(kept)
                return None
            case other:
                raise InvalidInput("do", other, "create, switch, exec, destroy, sources, failures or keepsBack")


def _request(line: bytes) -> JsonObject:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidInput("request", line[:80].decode(errors="replace"), "a JSON object on one line")
    return found


def _text(request: JsonObject, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise InvalidInput(name, value, "text")
    return value
