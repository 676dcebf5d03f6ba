"""A cable between a process and a server: bytes pass until it is cut, and what it held passes when it is mended.

A partition is not a refusal: connections stay open, new ones are accepted, and nothing comes back. The worst of it is
what was on its way, since a request that was given up long ago reaches the server late. It may be one-sided: with
`hold_requests` a process still hears of everything, and acts on it into the void.
Limits: loopback; a side that closes is told to the other only while bytes pass.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.fakes.waiting import patience


class Cable:
    """One way from a port of its own to a server. It may be cut and mended from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._ends = asyncio.Event()
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._up.set()
        self._down.set()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._listens.wait(patience(30))

    def hold_requests(self) -> None:
        """Nothing passes to the server from here on; what is read meanwhile is held. Answers and watches pass."""
        self._tell(self._up.clear)

    def cut(self) -> None:
        """Nothing passes either way from here on."""
        self.hold_requests()
        self._tell(self._down.clear)

    def mend(self) -> None:
        """What was held passes, then everything."""
        self._tell(self._up.set)
        self._tell(self._down.set)

    def end(self) -> None:
        self._tell(self._ends.set)
        self._thread.join(patience(30))
        assert not self._thread.is_alive()
        self._loop.close()

    def _tell(self, what: Callable[[], None]) -> None:
        done = threading.Event()

        def tell() -> None:
            what()
            done.set()

        self._loop.call_soon_threadsafe(tell)
        assert done.wait(patience(30))

    async def _run(self) -> None:
        server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        await self._ends.wait()
        server.close()
        joined = asyncio.all_tasks() - {asyncio.current_task()}
        for task in joined:
            task.cancel()
        await asyncio.gather(*joined, return_exceptions=True)

    async def _join(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            await self._up.wait()
            far, far_out = await asyncio.open_connection(*self._server)
        except (OSError, asyncio.CancelledError):
            near_out.close()
            return
        with suppress(OSError, asyncio.CancelledError):  # asyncio reports a cancelled one as an error of its own
            await asyncio.gather(self._pass(near, far_out, self._up), self._pass(far, near_out, self._down))
        near_out.close()
        far_out.close()

    async def _pass(self, of: asyncio.StreamReader, to: asyncio.StreamWriter, is_whole: asyncio.Event) -> None:
        while raw := await of.read(1 << 16):
            await is_whole.wait()
            to.write(raw)
            await to.drain()
        await is_whole.wait()
        if to.can_write_eof():
            to.write_eof()


@contextmanager
def cable(host: str, port: int) -> Iterator[Cable]:
    """A cable that passes bytes."""
    made = Cable(host, port)
    made.start()
    try:
        yield made
    finally:
        made.end()
