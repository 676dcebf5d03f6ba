"""The keeper's socket: who may speak, how much, and what is done with it.

Problem: whoever can reach the socket may flood it, send half a message, a huge one, or none; expiry must go on meanwhile. Choice: the kernel says who
is at the other end (SO_PEERCRED), strangers are cut off before anything is read; few connections, one request at a time each, bounded in size and
time. Rounds of several connections and expiry take turns in the keeper's own thread, first come, first served. Limits: a peer that is allowed can fill the
few connections that there are; it can only hurt its own kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Unsupported
from cotenant.model.machine.knob import GiveBack, Lease, LeaseAnswer, SetKnob, Target
from cotenant.services.keeper import wire
from cotenant.services.keeper.allowed import Asker
from cotenant.services.keeper.opening import groups_of

_log = logging.getLogger(__name__)
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
MOST_CONNECTIONS = 16
REST_OF_MESSAGE_S = 5.0
IDLE_S = 300.0
REPLY_S = 10.0  # to a peer that does not read


class Holder(Protocol):
    """A keeper that is told who asks: `here.KeptHere`."""

    async def hold(self, wishes: Sequence[SetKnob], asker: Asker) -> tuple[LeaseAnswer, ...]:
        """Turn and hold."""
        ...

    async def give_back(self, requests: Sequence[GiveBack], asker: Asker) -> tuple[LeaseAnswer, ...]:
        """Put back."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """All."""
        ...

    async def read(self, targets: Sequence[Target]) -> tuple[str | None, ...]:
        """What stands."""
        ...


class Triggers(Protocol):
    """Opens pressure triggers that need a privilege."""

    def open(self, asked: wire.Trigger) -> tuple[int, int]:
        """A descriptor, which the caller closes, and the window that the kernel took."""
        ...


class NoTriggers:
    """On a machine without pressure."""

    def open(self, asked: wire.Trigger) -> tuple[int, int]:
        """Refused."""
        raise Unsupported("pressure triggers", "a kernel with CONFIG_PSI and a cgroup v2 tree")


@dataclass(frozen=True, slots=True)
class Peers:
    """Who may speak. `own`: root and the keeper's own user."""

    users: frozenset[int] = frozenset()
    groups: frozenset[int] = frozenset()
    own: bool = True

    def allows(self, user: int, group: int) -> bool:
        """By effective user or group at the time of its connect."""
        return (self.own and user in (0, os.geteuid())) or user in self.users or group in self.groups


@dataclass(slots=True)
class Counts:
    """What came in, for logs and tests."""

    requests: int = 0
    strangers: int = 0  # cut off before anything was read
    crowded: int = 0  # cut off because there were too many
    broken: int = 0  # ended in half a message, or in one that is none
    open: int = 0


class KeeperServer:
    """Serves one keeper at one path. `start`, then `stop`."""

    def __init__(
        self,
        path: Path,
        keeper: Holder,
        peers: Peers,
        triggers: Triggers | None = None,
        rest_of_message_s: float = REST_OF_MESSAGE_S,
    ) -> None:
        self._path = path
        self._keeper = keeper
        self._peers = peers
        self._triggers = triggers or NoTriggers()
        self._rest_of_message_s = rest_of_message_s
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self.counts = Counts()

    async def start(self) -> None:
        """Listen. Raises `Permanent` where something that is no socket stands at the path, or somebody listens there."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._bind(listening)
        except BaseException:
            listening.close()
            raise
        self._server = await asyncio.start_unix_server(
            self._accepted, sock=listening, limit=wire.MOST_REQUEST_BYTES, backlog=MOST_CONNECTIONS
        )

    async def stop(self) -> None:
        """Accept nobody and end all conversations; a request that is under way is carried out, but not answered."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for talk in tuple(self._talks):
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    def _bind(self, listening: socket.socket) -> None:
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISSOCK(os.lstat(self._path).st_mode):
                    raise Permanent(f"{self._path} is no socket; it is not removed")
                if _somebody_listens(self._path):
                    raise Permanent(f"somebody listens at {self._path} already")
                self._path.unlink()
            mask = os.umask(0o177)
            try:
                listening.bind(os.fspath(self._path))
            finally:
                os.umask(mask)
            self._path.chmod(0o600 if not (self._peers.users or self._peers.groups) else 0o666)  # who it is, is asked
        except OSError as error:
            raise InvalidInput("--socket", str(self._path), "a path for a socket", str(error)) from error

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        self.counts.open += 1
        try:
            pid, user, group = _credentials(writer)
            if not self._peers.allows(user, group):
                self.counts.strangers += 1
                _log.warning("user %d (process %d) may not speak to the keeper", user, pid)
                return
            if self.counts.open > MOST_CONNECTIONS:
                self.counts.crowded += 1
                return
            writer.transport.set_write_buffer_limits(high=0)  # drain: all is in the kernel
            await self._talk(reader, writer, Asker(f"uid {user}, pid {pid}", groups_of(pid)))
        except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
            self.counts.broken += 1
        except asyncio.CancelledError:
            pass  # by `stop` alone; asyncio tells a handler that ends cancelled as an error
        finally:
            self.counts.open -= 1
            self._talks.discard(talk)
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asker: Asker) -> None:
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    first = await reader.read(1)
            except TimeoutError:
                return
            if not first:
                return
            try:
                async with asyncio.timeout(self._rest_of_message_s):
                    (length,) = wire.LENGTH.unpack(first + await reader.readexactly(wire.LENGTH.size - 1))
                    if length > wire.MOST_REQUEST_BYTES:
                        raise InvalidInput("message", length, f"at most {wire.MOST_REQUEST_BYTES} bytes")
                    data = await reader.readexactly(length)
                asked = wire.request(data)
            except CotenantError as error:  # nothing that follows can be trusted to be a beginning
                self.counts.broken += 1
                await _send(writer, wire.refusal(error))
                return
            self.counts.requests += 1
            if isinstance(asked, wire.Trigger):
                await self._grant(writer, asked)
                continue
            try:
                told = await self._answer(asked, asker)
            except CotenantError as error:
                told = wire.refusal(error)
            await _send(writer, told)

    async def _answer(self, asked: wire.Hold | wire.End | wire.List | wire.Read, asker: Asker) -> wire.Reply:
        match asked:
            case wire.Hold(wishes=wishes):
                return wire.Answers(await self._keeper.hold(wishes, asker))
            case wire.End(requests=requests):
                return wire.Answers(await self._keeper.give_back(requests, asker))
            case wire.Read(targets=targets):
                return wire.Values(await self._keeper.read(targets))
            case _:
                return wire.Leases(await self._keeper.leases())

    async def _grant(self, writer: asyncio.StreamWriter, asked: wire.Trigger) -> None:
        try:
            descriptor, window_us = self._triggers.open(asked)
        except CotenantError as error:
            await _send(writer, wire.refusal(error))
            return
        try:
            await writer.drain()
            with _real_socket(writer) as peer:
                # one small message into an empty buffer: it goes at once or not at all
                socket.send_fds(peer, [wire.frame(wire.Granted(window_us))], [descriptor])
        except BlockingIOError as error:
            raise ConnectionError("the peer does not read") from error
        finally:
            os.close(descriptor)


async def _send(writer: asyncio.StreamWriter, told: wire.Reply) -> None:
    writer.write(wire.frame(told))
    async with asyncio.timeout(REPLY_S):
        await writer.drain()


def _credentials(writer: asyncio.StreamWriter) -> tuple[int, int, int]:
    at = writer.get_extra_info("socket")
    pid, user, group = _CREDENTIALS.unpack(at.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, user, group


@contextlib.contextmanager
def _real_socket(writer: asyncio.StreamWriter) -> Iterator[socket.socket]:
    peer = writer.get_extra_info("socket").dup()
    try:
        peer.setblocking(False)
        yield peer
    finally:
        peer.close()


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(1.0)
        try:
            trial.connect(os.fspath(path))
        except OSError:
            return False
    return True
