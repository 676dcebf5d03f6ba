"""The agent's side of the keeper's socket. Implements engine/node/interfaces.Keeper.

The keeper may be down, restart between two requests, or stop answering; the agent's loop must continue. One connection,
opened on demand and closed at the first error, which is raised as `Transient`; the next request reconnects. A request
that may have been carried out is not sent again: the agent repeats all it needs anyway, and leases expire.
Limits: batches above `wire.MAX_IN_ONE` go as several messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Never

from cotenant.model.errors import Permanent, Transient
from cotenant.model.machine.knob import GiveBack, KnobLease, KnobTarget, LeaseAnswer, LeaseState, SetKnob
from cotenant.model.machine.node_decision import in_unicode
from cotenant.model.machine.run_queue import RunQueueReading
from cotenant.services.knobs import wire

TIMEOUT_S = 10.0


class KeeperClient:
    """A client of the keeper at `path`. One request at a time; further ones wait."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()

    async def hold(self, wanted: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        sent = [replace(wish, reason=in_unicode(wish.reason)) for wish in wanted if _is_text(wish.target)]
        answers: list[LeaseAnswer] = []
        for at in range(0, len(sent), wire.MAX_IN_ONE):
            answers += await self._answers(wire.Hold(tuple(sent[at : at + wire.MAX_IN_ONE])))
        replies = iter(answers)
        return tuple(next(replies) if _is_text(wish.target) else _refuse_non_text(wish.target) for wish in wanted)

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        sent = [replace(request, reason=in_unicode(request.reason)) for request in requests if _is_text(request.target)]
        answers: list[LeaseAnswer] = []
        for at in range(0, len(sent), wire.MAX_IN_ONE):
            answers += await self._answers(wire.End(tuple(sent[at : at + wire.MAX_IN_ONE])))
        replies = iter(answers)
        return tuple(next(replies) if _is_text(request.target) else _not_held(request.target) for request in requests)

    async def leases(self) -> tuple[KnobLease, ...]:
        """As the Protocol."""
        reply = await self._ask(wire.ListLeases())
        return reply.leases if isinstance(reply, wire.LeaseList) else _unexpected(reply)

    async def read(self, targets: Sequence[KnobTarget]) -> tuple[str | None, ...]:
        """The canonical values, read with the keeper's privileges; None where they could not be read."""
        values: list[str | None] = []
        for at in range(0, len(targets), wire.MAX_IN_ONE):
            reply = await self._ask(wire.ReadKnobs(tuple(targets[at : at + wire.MAX_IN_ONE])))
            values += reply.values if isinstance(reply, wire.KnobValues) else _unexpected(reply)
        return tuple(values)

    async def describe(self) -> wire.Described:
        """What the keeper grants, and what it knows of the other writers."""
        reply = await self._ask(wire.DescribeKeeper())
        return reply if isinstance(reply, wire.Described) else _unexpected(reply)

    async def waits(self, groups: Sequence[str]) -> RunQueueReading:
        """Who ran while these groups waited for a CPU. Raises `Unsupported` where the keeper does not measure it."""
        reply = await self._ask(wire.ReadWaits(tuple(groups)))
        return reply.reading() if isinstance(reply, wire.Waited) else _unexpected(reply)

    async def trigger(self, request: wire.OpenTrigger) -> tuple[int, int]:
        """The descriptor of a pressure trigger, which the caller closes, and the window that the kernel accepted,
        in microseconds.
        """
        return await asyncio.to_thread(_granted, self._path, request, self._timeout_s)

    async def close(self) -> None:
        """End the connection; the next request opens a new one."""
        if self._streams is not None:
            writer = self._streams[1]
            self._streams = None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answers(self, request: wire.Hold | wire.End) -> tuple[LeaseAnswer, ...]:
        reply = await self._ask(request)
        return reply.answers if isinstance(reply, wire.Answers) else _unexpected(reply)

    async def _ask(self, request: wire.Request) -> wire.Reply:
        data = wire.frame(request)
        async with self._lock:
            try:
                async with asyncio.timeout(self._timeout_s):
                    reader, writer = await self._connected()
                    writer.write(data)
                    await writer.drain()
                    (length,) = wire.LENGTH.unpack(await reader.readexactly(wire.LENGTH.size))
                    if length > wire.MAX_REPLY_BYTES:
                        raise ConnectionError(f"a reply of {length} bytes")
                    reply = wire.reply(await reader.readexactly(length))
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self._disconnect()
                raise Transient(f"the keeper at {self._path} does not answer: {str(error) or 'timeout'}") from error
            except BaseException:  # cancelled in the middle of a message
                self._disconnect()
                raise
        if isinstance(reply, wire.RequestRefused):
            raise wire.error_of(reply)
        return reply

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None or self._streams[0].at_eof():
            self._disconnect()
            self._streams = await asyncio.open_unix_connection(os.fspath(self._path), limit=wire.MAX_REQUEST_BYTES)
        return self._streams

    def _disconnect(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def _granted(path: Path, request: wire.OpenTrigger, timeout_s: float) -> tuple[int, int]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        descriptors: list[int] = []
        try:
            peer.settimeout(timeout_s)
            peer.connect(os.fspath(path))
            peer.sendall(wire.frame(request))
            data = b""
            while len(data) < wire.LENGTH.size or len(data) < wire.LENGTH.size + wire.LENGTH.unpack(data[:4])[0]:
                part, came, _, _ = socket.recv_fds(peer, 65536, 1)
                descriptors += came
                if not part:
                    raise ConnectionError("connection closed")
                data += part
            reply = wire.reply(data[wire.LENGTH.size :])
            if isinstance(reply, wire.RequestRefused):
                raise wire.error_of(reply)
            if not isinstance(reply, wire.Granted) or len(descriptors) != 1:
                _unexpected(reply)
            return descriptors.pop(), reply.window_us
        except OSError as error:
            raise Transient(f"the keeper at {path} does not answer: {error}") from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _is_text(target: KnobTarget) -> bool:
    """Whether its group's name can be encoded; the keeper grants no other."""
    try:
        target.group.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_non_text(target: KnobTarget) -> LeaseAnswer:
    return LeaseAnswer(target, LeaseState.REFUSED, "the group's name is not Unicode text")


def _not_held(target: KnobTarget) -> LeaseAnswer:
    return LeaseAnswer(target, LeaseState.RESTORED, "is not held")


def _unexpected(reply: wire.Reply) -> Never:
    raise Permanent(f"unexpected reply from the keeper: {type(reply).__name__}")
