"""The host's end of a guest's port: requests with their answers.

Several requests are under way at once (a command that runs for minutes beside readings), and a guest may be gone, stuck
or hostile. One reader that gives each answer to its request; lines are bounded, and an answer that no request waits for
is dropped.
Limits: a request that was given up goes on in the guest.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path

from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject, JsonValue
from cotenant.services.running import cancelled
from cotenant.services.zones.backends import BackendLost

MAX_LINE = 16 << 20  # two streams of a command, escaped
ANSWER_S = 60.0


class GuestLink:
    """`open`, then `ask`, then `close`. `lost` is why the guest answers no more, "" while it may."""

    def __init__(self) -> None:
        self.lost = ""
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._number = 0

    async def open(self, path: Path, within_s: float) -> JsonObject:
        """Connect, and wait for the guest's greeting: its kernel and Python. Raises `Permanent` where none came in
        time.
        """
        greeting: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[0] = greeting
        reader, self._writer = await asyncio.open_unix_connection(os.fspath(path), limit=MAX_LINE)
        self._reading = asyncio.create_task(self._read(reader), name="guest")
        try:
            async with asyncio.timeout(within_s):
                answer = await greeting
        except TimeoutError:
            raise Permanent(f"the guest's agent did not start within {within_s:g} s") from None
        found: JsonObject = answer["ok"]
        return found

    async def ask(self, do: str, timeout_s: float = ANSWER_S, **fields: object) -> JsonValue:
        """One request. Raises `BackendLost` where the guest is gone or does not answer, `Permanent` with its
        refusal.
        """
        if self.lost or self._writer is None:
            raise BackendLost(self.lost or "the guest is not connected")
        self._number += 1
        number = self._number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(json.dumps({"id": number, "do": do, **fields}).encode() + b"\n")
            async with asyncio.timeout(timeout_s):
                answer = await future
        except TimeoutError:
            raise BackendLost(f"the guest did not answer within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(number, None)
        if "ok" not in answer:
            raise Permanent(f"in the guest: {answer.get('error')}")
        return answer["ok"]

    def end(self, why: str) -> None:
        """The guest is gone: every request under way fails."""
        self.lost = self.lost or why
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BackendLost(self.lost))

    async def close(self) -> None:
        """Disconnect."""
        self.end("the zone ends")
        if self._reading is not None:
            await cancelled([self._reading])
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                # a line that is no answer is the guest's affair; whoever waits for one hears of it by the time
                with contextlib.suppress(ValueError, TypeError, RecursionError):
                    answer = json.loads(line)
                    future = self._waiting.get(answer["id"]) if isinstance(answer, dict) and "id" in answer else None
                    if future is not None and not future.done():
                        future.set_result(answer)
        except (OSError, ValueError) as error:
            self.end(f"the guest's port: {error}")
            return
        self.end("the virtual machine ended")
