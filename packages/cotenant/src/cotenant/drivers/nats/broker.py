"""The bus of one process for other processes: the part of NATS's client protocol that clients need, over loopback.

What speaks to a NATS server speaks to this one: nats-py, the `nats` command. It has no JetStream, no clusters and one
right: a token, since whoever reaches the bus can start containers, and other users of this machine reach its loopback.

Source: NATS client protocol (docs.nats.io), version 1 with headers and no-responders.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from cotenant.drivers.nats.contract import MAX_PAYLOAD, BusMessage
from cotenant.drivers.nats.memory import MemoryBus, MemorySubscription
from cotenant.drivers.nats.subjects import check_subject
from cotenant.model.errors import InvalidInput, Permanent

_log = logging.getLogger(__name__)
_HEADER = b"NATS/1.0"
_NOBODY = _HEADER + b" 503\r\n\r\n"
_MAX_LINE = 4096
_MAX_BEHIND = 8 << 20  # bytes that a client has not read


class _Options(msgspec.Struct):
    auth_token: str = ""
    headers: bool = False
    no_responders: bool = False
    verbose: bool = False


class Broker:
    """Serves `bus` at 127.0.0.1. `port` 0: any free one."""

    def __init__(self, bus: MemoryBus, token: str, port: int = 0) -> None:
        self._bus = bus
        self._token = token
        self._port = port
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where clients connect."""
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def start(self) -> None:
        """Listen. Raises `Permanent` where the port is taken."""
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=_MAX_LINE * 2)
        except OSError as error:
            raise Permanent(f"cannot listen on 127.0.0.1:{self._port}: {error.strerror or error}") from error

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._clients):
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        client = _Client(self._bus, self._token, reader, writer)
        try:
            await client.run()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, ValueError, IndexError):
            pass  # the client went away, or sent a line without end
        except (InvalidInput, msgspec.DecodeError) as error:
            client.complain(str(error))
        finally:
            self._clients.discard(task)
            await client.close()


class _Client:
    """One connection."""

    def __init__(self, bus: MemoryBus, token: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._bus = bus
        self._token = token
        self._reader = reader
        self._writer = writer
        self._options = _Options()
        self._known = False
        self._subscriptions: dict[bytes, MemorySubscription] = {}
        self._left: dict[bytes, int] = {}  # messages until a subscription ends by itself

    async def run(self) -> None:
        info = {
            "server_id": "cotenant",
            "version": "2.10.0",
            "proto": 1,
            "headers": True,
            "max_payload": MAX_PAYLOAD,
            "auth_required": True,
        }
        self._writer.write(b"INFO " + msgspec.json.encode(info) + b"\r\n")
        while line := await self._reader.readline():
            if len(line) > _MAX_LINE:
                raise InvalidInput("command", line[:40].decode(errors="replace"), f"at most {_MAX_LINE} bytes")
            verb, _, rest = line.strip().partition(b" ")
            command = _COMMANDS.get(verb.upper())
            if command is None:
                raise InvalidInput("command", verb.decode(errors="replace"), "a command of NATS's client protocol")
            if not self._known and verb.upper() != b"CONNECT":
                self.complain("Authorization Violation")
                return
            await command(self, rest.strip())
            if not self._known:
                return

    def complain(self, why: str) -> None:
        self._writer.write(f"-ERR '{why}'\r\n".encode())

    async def close(self) -> None:
        for subscription in self._subscriptions.values():
            await subscription.unsubscribe()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _connect(self, rest: bytes) -> None:
        self._options = msgspec.json.decode(rest, type=_Options)
        self._known = hmac.compare_digest(self._options.auth_token.encode(), self._token.encode())
        if not self._known:
            self.complain("Authorization Violation")
        elif self._options.verbose:
            self._writer.write(b"+OK\r\n")

    async def _ping(self, rest: bytes) -> None:
        self._writer.write(b"PONG\r\n")

    async def _pong(self, rest: bytes) -> None:
        pass

    async def _sub(self, rest: bytes) -> None:
        words = rest.split()
        if len(words) not in (2, 3):
            raise InvalidInput("SUB", rest.decode(errors="replace"), "SUBJECT [QUEUE] SID")
        sid = words[-1]

        async def forward(message: BusMessage) -> None:
            self._send(sid, message)

        queue = words[1].decode() if len(words) == 3 else ""
        self._subscriptions[sid] = self._bus.attach(words[0].decode(), forward, queue)

    async def _unsub(self, rest: bytes) -> None:
        sid, _, count = rest.partition(b" ")
        if count.strip():
            self._left[sid] = int(count)
            return
        await self._end(sid)

    async def _end(self, sid: bytes) -> None:
        self._left.pop(sid, None)
        subscription = self._subscriptions.pop(sid, None)
        if subscription is not None:
            await subscription.unsubscribe()

    async def _pub(self, rest: bytes) -> None:
        words = rest.split()
        await self._publish(words[:-1], int(words[-1]), 0)

    async def _hpub(self, rest: bytes) -> None:
        words = rest.split()
        await self._publish(words[:-2], int(words[-1]), int(words[-2]))

    async def _publish(self, words: list[bytes], size: int, head: int) -> None:
        if not 0 <= head <= size <= MAX_PAYLOAD or len(words) not in (1, 2):
            raise InvalidInput("size of a message", size, f"at most {MAX_PAYLOAD} bytes")
        data = (await self._reader.readexactly(size + 2))[:-2]
        reply = words[1].decode() if len(words) == 2 else ""
        subject = words[0].decode()
        check_subject(subject)
        heard = self._bus.send(BusMessage(subject, data[head:], _headers(data[:head]), reply))
        if not heard and reply and self._options.no_responders:
            self._bus.send(BusMessage(reply, b"", {"Status": "503"}))

    def _send(self, sid: bytes, message: BusMessage) -> None:
        if self._writer.transport.get_write_buffer_size() > _MAX_BEHIND:
            _log.warning("a client of the bus reads too slowly: its connection is closed")
            self._writer.transport.abort()
            return
        reply = b" " + message.reply.encode() if message.reply else b""
        head = b""
        if message.headers and self._options.headers:
            head = _NOBODY if message.headers.get("Status") == "503" else _written(message.headers)
        verb, sizes = (
            (b"HMSG", b"%d %d" % (len(head), len(head) + len(message.data)))
            if head
            else (b"MSG", b"%d" % len(message.data))
        )
        self._writer.write(
            b"%s %s %s%s %s\r\n%s%s\r\n" % (verb, message.subject.encode(), sid, reply, sizes, head, message.data)
        )
        if sid in self._left:
            self._left[sid] -= 1
            if self._left[sid] <= 0:
                asyncio.get_running_loop().create_task(self._end(sid))


_COMMANDS: dict[bytes, Callable[[_Client, bytes], Awaitable[None]]] = {
    b"CONNECT": _Client._connect,
    b"PING": _Client._ping,
    b"PONG": _Client._pong,
    b"SUB": _Client._sub,
    b"UNSUB": _Client._unsub,
    b"PUB": _Client._pub,
    b"HPUB": _Client._hpub,
}


def _headers(head: bytes) -> Mapping[str, str]:
    lines = head.decode(errors="replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


def _written(headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in headers.items())
    return _HEADER + b"\r\n" + lines.encode() + b"\r\n"
