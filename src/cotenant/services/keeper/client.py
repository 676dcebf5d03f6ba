"""The agent's side of the keeper's socket. Meets engine/node_ports.Keeper.

Problem: the keeper may be away, restart between two requests, or stop to answer; the agent's loop must go on. Choice: one connection, made when it is
needed, given up at the first trouble, which is a `Transient`; the next request tries anew. A request that may have been carried out is not sent
again: the agent asks for all it wants each time anyway, and leases end by themselves. Limits: batches above `wire.MOST_IN_ONE` go as several.
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
from cotenant.model.machine.knob import GiveBack, Lease, LeaseAnswer, LeaseState, SetKnob, Target
from cotenant.model.machine.node_decision import in_unicode
from cotenant.services.keeper import wire

PATIENCE_S = 10.0


class KeeperClient:
    """Speaks to the keeper at `path`. One request at a time; further ones wait."""

    def __init__(self, path: Path, patience_s: float = PATIENCE_S) -> None:
        self._path = path
        self._patience_s = patience_s
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def hold(self, wishes: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        asked = [replace(wish, reason=in_unicode(wish.reason)) for wish in wishes if _is_text(wish.target)]
        answers: list[LeaseAnswer] = []
        for at in range(0, len(asked), wire.MOST_IN_ONE):
            answers += await self._answers(wire.Hold(tuple(asked[at : at + wire.MOST_IN_ONE])))
        told = iter(answers)
        return tuple(next(told) if _is_text(wish.target) else _unsayable(wish.target) for wish in wishes)

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """As the Protocol."""
        asked = [replace(one, reason=in_unicode(one.reason)) for one in requests if _is_text(one.target)]
        answers: list[LeaseAnswer] = []
        for at in range(0, len(asked), wire.MOST_IN_ONE):
            answers += await self._answers(wire.End(tuple(asked[at : at + wire.MOST_IN_ONE])))
        told = iter(answers)
        return tuple(next(told) if _is_text(one.target) else _not_held(one.target) for one in requests)

    async def leases(self) -> tuple[Lease, ...]:
        """As the Protocol."""
        told = await self._ask(wire.List())
        return told.leases if isinstance(told, wire.Leases) else _odd(told)

    async def read(self, targets: Sequence[Target]) -> tuple[str | None, ...]:
        """The canonical values that stand, by the keeper's rights; None where they could not be read."""
        values: list[str | None] = []
        for at in range(0, len(targets), wire.MOST_IN_ONE):
            told = await self._ask(wire.Read(tuple(targets[at : at + wire.MOST_IN_ONE])))
            values += told.values if isinstance(told, wire.Values) else _odd(told)
        return tuple(values)

    async def trigger(self, asked: wire.Trigger) -> tuple[int, int]:
        """The descriptor of a pressure trigger, which the caller closes, and the window that the kernel took, in microseconds."""
        return await asyncio.to_thread(_granted, self._path, asked, self._patience_s)

    async def close(self) -> None:
        """End the connection; the next request makes a new one."""
        if self._ends is not None:
            writer = self._ends[1]
            self._ends = None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answers(self, asked: wire.Hold | wire.End) -> tuple[LeaseAnswer, ...]:
        told = await self._ask(asked)
        return told.answers if isinstance(told, wire.Answers) else _odd(told)

    async def _ask(self, asked: wire.Request) -> wire.Reply:
        data = wire.frame(asked)
        async with self._turn:
            try:
                async with asyncio.timeout(self._patience_s):
                    reader, writer = await self._connected()
                    writer.write(data)
                    await writer.drain()
                    (length,) = wire.LENGTH.unpack(await reader.readexactly(wire.LENGTH.size))
                    if length > wire.MOST_REPLY_BYTES:
                        raise ConnectionError(f"a reply of {length} bytes")
                    told = wire.reply(await reader.readexactly(length))
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self._give_up()
                raise Transient(f"the keeper at {self._path} does not answer: {str(error) or 'too late'}") from error
            except BaseException:  # cancelled in the middle of a message
                self._give_up()
                raise
        if isinstance(told, wire.Refused):
            raise wire.error_of(told)
        return told

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._ends is None or self._ends[0].at_eof():
            self._give_up()
            self._ends = await asyncio.open_unix_connection(os.fspath(self._path), limit=wire.MOST_REQUEST_BYTES)
        return self._ends

    def _give_up(self) -> None:
        if self._ends is not None:
            self._ends[1].transport.abort()
            self._ends = None


def _granted(path: Path, asked: wire.Trigger, patience_s: float) -> tuple[int, int]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        descriptors: list[int] = []
        try:
            peer.settimeout(patience_s)
            peer.connect(os.fspath(path))
            peer.sendall(wire.frame(asked))
            data = b""
            while len(data) < wire.LENGTH.size or len(data) < wire.LENGTH.size + wire.LENGTH.unpack(data[:4])[0]:
                part, came, _, _ = socket.recv_fds(peer, 65536, 1)
                descriptors += came
                if not part:
                    raise ConnectionError("it hung up")
                data += part
            told = wire.reply(data[wire.LENGTH.size :])
            if isinstance(told, wire.Refused):
                raise wire.error_of(told)
            if not isinstance(told, wire.Granted) or len(descriptors) != 1:
                _odd(told)
            return descriptors.pop(), told.window_us
        except OSError as error:
            raise Transient(f"the keeper at {path} does not answer: {error}") from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _is_text(target: Target) -> bool:
    """Whether its group's name can be sent; the keeper grants no other."""
    try:
        target.group.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unsayable(target: Target) -> LeaseAnswer:
    return LeaseAnswer(target, LeaseState.REFUSED, "the group's name is no Unicode text")


def _not_held(target: Target) -> LeaseAnswer:
    return LeaseAnswer(target, LeaseState.RESTORED, "is not held")


def _odd(told: wire.Reply) -> Never:
    raise Permanent(f"the keeper answered with {type(told).__name__}")
