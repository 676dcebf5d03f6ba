"""The keeper's socket: which peers may connect, how much they may send, and how requests are served.

A process that reaches the socket may flood it or send half a message, a huge one, or none; expiry must continue
meanwhile. The socket is open to one group, the kernel identifies the peer, and unauthorized peers are disconnected
before anything is read and take no connection; few connections, one request at a time on each, bounded in size and
time. Rounds of all connections and expiry are serialized in the keeper's own thread, in order of arrival.
Limits: an authorized peer can use up the few connections; it only hurts other authorized peers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol

from cotenant.drivers.proc.capabilities import lacking
from cotenant.model.errors import CotenantError, InvalidInput, Unsupported
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import GiveBack, KnobLease, KnobTarget, LeaseAnswer, SetKnob
from cotenant.model.machine.run_queue import BLAME, RunQueueReading
from cotenant.services.knobs import wire
from cotenant.services.knobs.host import groups_of
from cotenant.services.knobs.rules import KnobRules, Requester
from cotenant.services.sockets.peers import Peers, RefusalLog, credentials
from cotenant.services.sockets.unix_socket import listening_socket

_log = logging.getLogger(__name__)
MAX_CONNECTIONS = 16
REST_OF_MESSAGE_S = 5.0
IDLE_S = 300.0
REPLY_S = 10.0  # to a peer that does not read
MAX_TRIGGERS, TRIGGER_EVERY_S = 256, 10.0


class TriggerAllowance:
    """How many pressure triggers may be opened: so many at once, and one more every `every_s`.

    Each costs the kernel work until its holder closes it, which the keeper does not learn: a leak is slow instead of
    without bound.
    """

    def __init__(self, most: int, every_s: float, now: Callable[[], float] = monotonic) -> None:
        self._max, self._every_s, self._now = most, every_s, now
        self._left, self._counted_s = float(most), now()

    def take(self) -> bool:
        """Whether one more may be opened."""
        now_s = self._now()
        self._left = min(self._max, self._left + max(0.0, now_s - self._counted_s) / self._every_s)
        self._counted_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def give_back(self) -> None:
        """One that was taken has not been opened."""
        self._left += 1


class RequesterKeeper(Protocol):
    """A keeper that knows its clients: `local_keeper.LocalKeeper`."""

    async def hold(self, wanted: Sequence[SetKnob], requester: Requester) -> tuple[LeaseAnswer, ...]:
        """Write and hold."""
        ...

    async def give_back(self, requests: Sequence[GiveBack], requester: Requester) -> tuple[LeaseAnswer, ...]:
        """Restore."""
        ...

    async def leases(self) -> tuple[KnobLease, ...]:
        """All live leases."""
        ...

    async def read(self, targets: Sequence[KnobTarget]) -> tuple[str | None, ...]:
        """The current values."""
        ...

    @property
    def rules(self) -> KnobRules:
        """What it grants."""
        ...

    async def facts(self) -> KubeletFacts:
        """What is known of the other writers."""
        ...


class TriggerOpener(Protocol):
    """Opens pressure triggers, which need a privilege."""

    def open(self, request: wire.OpenTrigger) -> tuple[int, int]:
        """A descriptor, which the caller closes, and the window that the kernel accepted."""
        ...


class WaitsReader(Protocol):
    """Says who ran while groups waited for a CPU, which needs a privilege. `needs`: what is missing; "" = nothing."""

    needs: str

    def read(self, asker: int, groups: Sequence[str]) -> RunQueueReading:
        """Counted from when each was first asked for, by whichever asker."""
        ...

    def left(self, asker: int) -> None:
        """Nobody waits for the groups of this one any more, unless another asked for them too."""
        ...


class NoWaits:
    """For a keeper that does not measure it."""

    WANTED = "`cotenant keeper --waits` (the chart: node.waits=true)"

    def __init__(self, needs: str = WANTED) -> None:
        self.needs = needs

    def read(self, asker: int, groups: Sequence[str]) -> RunQueueReading:
        """Raises `Unsupported`."""
        raise Unsupported(BLAME, self.needs)

    def left(self, asker: int) -> None:
        """Nothing is watched."""


class NoTriggers:
    """For a machine without pressure stall information."""

    def open(self, request: wire.OpenTrigger) -> tuple[int, int]:
        """Raises `Unsupported`."""
        raise Unsupported("pressure triggers", "a kernel with CONFIG_PSI and a cgroup v2 tree")


@dataclass(slots=True)
class ConnectionCounts:
    """Counts of connections and requests, for logs and tests."""

    requests: int = 0
    unauthorized: int = 0  # disconnected before anything was read
    over_limit: int = 0  # disconnected because there were too many
    malformed: int = 0  # ended by an incomplete or malformed message
    open: int = 0  # of authorized peers, and within the limit


class KeeperServer:
    """Serves one keeper at one path. `start`, then `stop`."""

    def __init__(
        self,
        path: Path,
        keeper: RequesterKeeper,
        peers: Peers,
        triggers: TriggerOpener | None = None,
        rest_of_message_s: float = REST_OF_MESSAGE_S,
        waits: WaitsReader | None = None,
    ) -> None:
        self._path = path
        self._keeper = keeper
        self._peers = peers
        self._triggers = triggers or NoTriggers()
        self._waits = waits or NoWaits()
        self._rest_of_message_s = rest_of_message_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._refusals = RefusalLog()
        self._grants = TriggerAllowance(MAX_TRIGGERS, TRIGGER_EVERY_S)
        self._accepted_so_far = 0
        self.counts = ConnectionCounts()

    async def start(self) -> None:
        """Listen. Raises `Permanent` where the path is not a socket, or another process listens there."""
        listening = listening_socket(self._path, self._peers.socket_group)
        self._server = await asyncio.start_unix_server(
            self._accepted, sock=listening, limit=wire.MAX_REQUEST_BYTES, backlog=MAX_CONNECTIONS
        )

    async def stop(self) -> None:
        """Stop listening and close all connections; a request that is under way is carried out, but not answered."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, user, group = credentials(writer)
        now_s = asyncio.get_running_loop().time()
        if not self._peers.allows(user, group):
            self.counts.unauthorized += 1
            self._refusals.refused("stranger", f"user {user} (process {pid}) may not use the keeper", now_s)
            writer.transport.abort()
            return
        if self.counts.open >= MAX_CONNECTIONS:
            self.counts.over_limit += 1
            line = f"{MAX_CONNECTIONS} connections are open; one of user {user} (process {pid}) was refused"
            self._refusals.refused("limit", line, now_s)
            writer.transport.abort()
            return
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        self.counts.open += 1
        self._accepted_so_far += 1
        asker = self._accepted_so_far
        try:
            writer.transport.set_write_buffer_limits(high=0)  # drain returns once the kernel has everything
            await self._serve(reader, writer, Requester(f"uid {user}, pid {pid}", groups_of(pid)), asker)
        except (asyncio.IncompleteReadError, TimeoutError, ConnectionError):
            self.counts.malformed += 1
        except asyncio.CancelledError:
            pass  # only by `stop`; asyncio logs a handler that ends cancelled as an error
        finally:
            self.counts.open -= 1
            self._connections.discard(connection)
            self._waits.left(asker)
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requester: Requester, asker: int
    ) -> None:
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
                    if length > wire.MAX_REQUEST_BYTES:
                        raise InvalidInput("message", length, f"at most {wire.MAX_REQUEST_BYTES} bytes")
                    data = await reader.readexactly(length)
                request = wire.request(data)
            except CotenantError as error:  # the start of the next message is not known
                self.counts.malformed += 1
                await _send(writer, wire.refusal(error))
                return
            self.counts.requests += 1
            if isinstance(request, wire.OpenTrigger):
                await self._grant(writer, request, requester)
                continue
            try:
                reply = await self._answer(request, requester, asker)
            except CotenantError as error:
                reply = wire.refusal(error)
            await _send(writer, reply)

    async def _answer(
        self,
        request: wire.Hold | wire.End | wire.ListLeases | wire.ReadKnobs | wire.DescribeKeeper | wire.ReadWaits,
        requester: Requester,
        asker: int,
    ) -> wire.Reply:
        match request:
            case wire.Hold(knobs=knobs):
                return wire.Answers(await self._keeper.hold(knobs, requester))
            case wire.End(requests=requests):
                return wire.Answers(await self._keeper.give_back(requests, requester))
            case wire.ReadKnobs(targets=targets):
                return wire.KnobValues(await self._keeper.read(targets))
            case wire.DescribeKeeper():
                return await self._described()
            case wire.ReadWaits(groups=groups):
                return wire.Waited.of(self._waits.read(asker, groups))
            case _:
                return wire.LeaseList(await self._keeper.leases())

    async def _described(self) -> wire.Described:
        rules = self._keeper.rules
        facts = await self._keeper.facts()
        return wire.Described(
            rules.roots, rules.knobs, rules.raises_roots, rules.longest_ttl_us, facts, lacking(), self._waits.needs
        )

    async def _grant(self, writer: asyncio.StreamWriter, request: wire.OpenTrigger, requester: Requester) -> None:
        if not self._grants.take():
            hint = f"one more every {TRIGGER_EVERY_S:g} s"
            refused = InvalidInput("triggers", requester.name, f"at most {MAX_TRIGGERS} at once", hint)
            await _send(writer, wire.refusal(refused))
            return
        try:
            descriptor, window_us = self._triggers.open(request)
        except CotenantError as error:
            self._grants.give_back()
            await _send(writer, wire.refusal(error))
            return
        try:
            await writer.drain()
            with _real_socket(writer) as peer:
                # one small message into an empty buffer: it is sent at once or not at all
                socket.send_fds(peer, [wire.frame(wire.Granted(window_us))], [descriptor])
        except BlockingIOError as error:
            raise ConnectionError("the peer does not read") from error
        finally:
            os.close(descriptor)


async def _send(writer: asyncio.StreamWriter, reply: wire.Reply) -> None:
    writer.write(wire.frame(reply))
    async with asyncio.timeout(REPLY_S):
        await writer.drain()


@contextlib.contextmanager
def _real_socket(writer: asyncio.StreamWriter) -> Iterator[socket.socket]:
    peer = writer.get_extra_info("socket").dup()
    try:
        peer.setblocking(False)
        yield peer
    finally:
        peer.close()
