"""The child processes of `cotenant up`, supervised.

The scheduler and the extender must not share the API server's interpreter (each needs a core), must be ready before the
cluster is reported ready, must be restarted when they die, and must not outlive their parent, not even after kill -9.
Ordinary child processes with their output in a log file; ready = their `/readyz` answers 200; a child that dies is
restarted after a back-off that doubles; the kernel kills them when the parent dies.
Limits: Linux (parent-death signal); elsewhere an orphan has to be stopped by hand.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from cotenant.model.errors import CotenantError, Permanent, Transient

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0  # a child that ran this long is restarted after the first pause again
STOP_S = 10.0  # grace period for a child to end by itself
SLOWLY = 5.0  # times as long for a process that has not ended since it was started: the machine may be busy
PATIENCE_S = 5.0  # a process that takes longer to answer on a busy machine is worth a word
_PR_SET_PDEATHSIG = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run: `python -m cotenant ARGUMENTS`, its log, and the port with its `/readyz`."""

    name: str
    arguments: tuple[str, ...]
    log: Path
    port: int


class Child:
    """One process, restarted until `stop`."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.restarts = 0
        self.pid = 0
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._spawning: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it and its supervision."""
        await self._spawn()
        self._supervisor = asyncio.create_task(self._supervise(), name=f"supervise {self.spec.name}")

    async def ready(self, within_s: float) -> None:
        """Wait until it is ready. Raises `Transient` with the end of its log where that takes too long: `within_s`
        where it has ended meanwhile and was started again, else `SLOWLY` times that.
        """
        began_s = monotonic()
        while (took_s := monotonic() - began_s) < within_s * (1.0 if self.restarts else SLOWLY):
            if (await _readiness(self.spec.port))[0]:
                return
            await asyncio.sleep(0.03)
        raise Transient(
            f"{self.spec.name} is not ready after {took_s:.0f} s; the end of {self.spec.log}:\n{self.log_tail()}"
        )

    async def standing(self) -> str:
        """What is wrong with it now, or what a person should know; empty = nothing."""
        is_ready, said = await _readiness(self.spec.port, PATIENCE_S)
        return said.removeprefix("ok").removeprefix("; ") if is_ready else said or "does not answer"

    async def stop(self) -> None:
        """Stop it: SIGTERM, then SIGKILL after the grace period."""
        if self._supervisor is not None:
            self._supervisor.cancel()
        if self._spawning is not None:  # a process that is being started must be stopped too
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
                start_new_session=True,  # Ctrl-C goes to the parent only, which stops them in order
            )
        self.pid = self._process.pid

    async def _supervise(self) -> None:
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
                self._spawning = asyncio.create_task(self._spawn(), name=f"start {self.spec.name}")
                await asyncio.shield(self._spawning)
            except (OSError, CotenantError) as error:  # no memory or process available now
                _log.warning("%s cannot be started: %s", self.spec.name, error)


async def stop_all(children: Sequence[Child]) -> None:
    """Stop them all, concurrently."""
    await asyncio.gather(*(child.stop() for child in children))


async def _readiness(port: int, within_s: float = 1.0) -> tuple[bool, str]:
    """Whether the process at the port is ready, and what its `/readyz` says."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False, ""
    try:
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(within_s):
            answer = await reader.read()
        head, _, body = answer.partition(b"\r\n\r\n")
        return b" 200 " in head.partition(b"\r\n")[0], body.decode(errors="replace").strip()
    except (OSError, TimeoutError):
        return False, ""
    finally:
        writer.close()


def die_with_parent() -> Callable[[], None]:
    """For `preexec_fn`: ask the kernel for SIGTERM when this process, the parent, dies."""
    parent = os.getpid()

    def ask() -> None:
        if sys.platform != "linux":
            return
        if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
            raise Permanent("prctl(PR_SET_PDEATHSIG) failed")
        if os.getppid() != parent:  # the parent died before the request
            os._exit(1)

    return ask
