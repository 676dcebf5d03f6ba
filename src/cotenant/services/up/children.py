"""The processes that `cotenant up` runs beside itself, and what becomes of them.

Problem: the scheduler and the extender must not share the API server's interpreter (each wants a core), must be ready before a person is told
so, come back when they die, and never outlive their parent, not even after kill -9. Choice: ordinary child processes with their output
in a log file; ready = their `/readyz` answers 200; a child that dies is started again after a pause that doubles; the kernel
kills them when the parent dies. Limits: Linux (the parent's death signal); elsewhere an orphan has to be stopped by hand.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from cotenant.model.errors import CotenantError, Permanent, Transient

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0  # a child that lived this long starts afresh with the first pause
STOP_S = 10.0  # what a child gets to end by itself
_PR_SET_PDEATHSIG = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run: `python -m cotenant ARGUMENTS`, its log, and the port whose `/readyz` tells that it is ready.

    `before` is awaited before it is run again.
    """

    name: str
    arguments: tuple[str, ...]
    log: Path
    port: int
    before: Callable[[], Awaitable[object]] | None = None


class Child:
    """One process, kept alive until `stop`."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.restarts = 0
        self.pid = 0
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._spawning: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Run it and keep it running."""
        await self._spawn()
        self._supervisor = asyncio.create_task(self._keep(), name=f"keep {self.spec.name}")

    async def ready(self, within_s: float) -> None:
        """Return when it answers that it is ready. `Transient` with the end of its log where it does not in time."""
        until = monotonic() + within_s
        while monotonic() < until:
            if await _answers(self.spec.port):
                return
            await asyncio.sleep(0.03)
        raise Transient(
            f"{self.spec.name} is not ready after {within_s:g} s; the end of {self.spec.log}:\n{self.log_tail()}"
        )

    async def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL for one that does not listen."""
        if self._supervisor is not None:
            self._supervisor.cancel()
        if self._spawning is not None:  # a process that is just being made must be ended too
            await asyncio.wait((self._spawning,))
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def log_tail(self, lines: int = 5) -> str:
        """The end of its log."""
        try:
            return "\n".join(self.spec.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    async def _spawn(self) -> None:
        with self.spec.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "cotenant",
                *self.spec.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(),
                start_new_session=True,  # the terminal's Ctrl-C is for the parent, which stops them in order
            )
        self.pid = self._process.pid

    async def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while self._process is not None:
            started = monotonic()
            status = await self._process.wait()
            if monotonic() - started > STEADY_S:
                pause_s = FIRST_PAUSE_S
            _log.warning("%s ended with status %d, is started again in %g s", self.spec.name, status, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self.restarts += 1
            try:
                if self.spec.before is not None:
                    await self.spec.before()
                self._spawning = asyncio.create_task(self._spawn(), name=f"start {self.spec.name}")
                await asyncio.shield(self._spawning)
            except (OSError, CotenantError) as error:  # no memory or no process to be had now
                _log.warning("%s cannot be started: %s", self.spec.name, error)


async def stop_all(children: Sequence[Child]) -> None:
    """End them all, side by side."""
    await asyncio.gather(*(child.stop() for child in children))


def free_port() -> int:
    """A loopback port that nobody listens on now. Another process may take it before it is used."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(1.0):
            line = await reader.readline()
        return b" 200 " in line
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()


def die_with_parent() -> Callable[[], None]:
    """For `preexec_fn`: ask the kernel for SIGTERM when this process, which will be the parent, dies."""
    parent = os.getpid()

    def ask() -> None:
        if sys.platform != "linux":
            return
        if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
            raise Permanent("prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask
