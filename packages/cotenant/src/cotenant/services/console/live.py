"""Live changes for any number of viewers, by server-sent events.

    event: change   id: EPOCH-SEQ   data: what changed since the viewer's last id (encoding.py)
    event: reload                   data: the epoch; the viewer loads the snapshot again
    event: sources                  data: which sources answer, and since when one does not
    event: hosts                    data: the version of what is known of the fleet's hosts; pages that show them ask
    event: beat                     data: the time; every `BEAT_S`, so that a viewer notices a dead connection

A viewer that reads slowly must not make the process hold a backlog for it. Nothing is queued. A viewer has a position,
and whenever it can take more it gets one frame with all that changed since; frames are encoded once for all viewers at
the same position. An id that a browser sends after a reconnect is such a position, so no log of past frames is needed.
The connection's flow control is what makes a slow viewer wait.
Limits: a reader that takes nothing for 30 s is disconnected by the server's limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from cotenant.drivers.http.messages import Receive, Send
from cotenant.services.console.encoding import change, snapshot
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.sources import ConsoleSources

BEAT_S = 5.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold frames back
]


class Live:
    """Frames of the fleet's changes, and the snapshot, each encoded once."""

    def __init__(self, fleet: MeasuredFleet, sources: ConsoleSources, now: Callable[[], float]) -> None:
        self.viewers = 0
        self.frames = 0  # sent
        self._fleet, self._sources, self._now = fleet, sources, now
        self._hosts = 0
        self._changed = asyncio.Event()
        self._by_position: dict[int, bytes] = {}
        self._snapshot: tuple[str, bytes] = ("", b"")

    def wake(self) -> None:
        """The fleet or the sources have changed."""
        self._by_position.clear()
        self._wake_viewers()

    def hosts_changed(self, version: int) -> None:
        """Something new is known of the fleet's hosts."""
        self._hosts = version
        self._wake_viewers()

    @property
    def tag(self) -> str:
        """The version of the snapshot."""
        return f"{self._fleet.epoch}-{self._fleet.seq}"

    def snapshot(self) -> bytes:
        """Everything, as of now."""
        if self._snapshot[0] != self.tag:
            self._snapshot = (self.tag, snapshot(self._fleet, self._now()))
        return self._snapshot[1]

    def frame(self, epoch: int, seq: int) -> bytes:
        """What a viewer at this position lacks; empty where it has everything."""
        fleet = self._fleet
        if epoch != fleet.epoch or seq > fleet.seq:
            return b"event: reload\ndata: %d\n\n" % fleet.epoch
        if seq == fleet.seq:
            return b""
        found = self._by_position.get(seq)
        if found is None:
            data = change(fleet, seq, self._now())
            found = self._by_position[seq] = b"event: change\nid: %s\ndata: %s\n\n" % (self.tag.encode(), data)
        return found

    async def stream(self, position: str, receive: Receive, send: Send, is_allowed: Callable[[], bool]) -> None:
        """Send frames from a position on, until the viewer leaves or may no longer see them."""
        epoch, seq = read_position(position)
        gone = asyncio.create_task(_until_gone(receive), name="viewer")
        self.viewers += 1
        stated, hosts = -1, 0
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send(send, b"retry: 2000\n\n")
            while not gone.done() and is_allowed():
                changed = self._changed
                parts = []
                if stated != self._sources.version:
                    stated = self._sources.version
                    parts.append(b"event: sources\ndata: %s\n\n" % msgspec.json.encode(self._sources.view()))
                if hosts != self._hosts:
                    hosts = self._hosts
                    parts.append(b"event: hosts\ndata: %d\n\n" % hosts)
                if frame := self.frame(epoch, seq):
                    epoch, seq = self._fleet.epoch, self._fleet.seq
                    parts.append(frame)
                if parts:
                    await self._send(send, b"".join(parts))
                    continue
                waiting = asyncio.create_task(changed.wait())
                await asyncio.wait({waiting, gone}, timeout=BEAT_S, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                    if not gone.done():
                        await self._send(send, b"event: beat\ndata: %.3f\n\n" % self._now())
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.viewers -= 1
            gone.cancel()

    def _wake_viewers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _send(self, send: Send, data: bytes) -> None:
        self.frames += 1
        await send({"type": "http.response.body", "body": data, "more_body": True})


def read_position(text: str) -> tuple[int, int]:
    """The epoch and the sequence number of an event's id; (0, 0), which is never valid, where there is none."""
    epoch, _, seq = text.partition("-")
    if all(part.isascii() and part.isdecimal() and len(part) < 19 for part in (epoch, seq)):
        return int(epoch), int(seq)
    return 0, 0


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
