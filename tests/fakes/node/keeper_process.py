"""`cotenant keeper` as a process of its own, over any cgroup tree."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fakes.waiting import WITHIN_S, eventually, patience


class KeeperProcess:
    """Started at once; `ready` waits until it serves. As a context manager it is killed at the end, if it still
    runs.
    """

    def __init__(self, state: Path, roots: Sequence[str], *arguments: str) -> None:
        self.path = state / "keeper.sock"
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify = state.parent / f"notify-{state.name}"
        notify.unlink(missing_ok=True)
        self._told.bind(str(notify))
        self._log = (state.parent / f"log-{state.name}").open("a+")
        asked = [word for root in roots for word in ("--root", root)]
        if not any(word.startswith("--cpu-manager-state") for word in arguments):
            asked.append(f"--cpu-manager-state={state.parent}/cpu_manager_state")  # not of a kubelet on this machine
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cotenant", "keeper", *asked, "--state-dir", str(state), "--socket", str(self.path),
                *arguments],
            env={**os.environ, "NOTIFY_SOCKET": str(notify)},
            stdout=self._log,
            stderr=self._log,
        )  # fmt: skip

    def __enter__(self) -> KeeperProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._told.close()
        self._log.close()

    def ready(self) -> KeeperProcess:
        """Wait until it says so."""

        def has_told() -> bool:
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said()}"
            return bool(select.select([self._told], [], [], 0)[0])

        eventually("the keeper serves", has_told)
        assert self._told.recv(100) == b"READY=1"
        return self

    def kill(self) -> None:
        """kill -9."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def terminate(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.ends()

    def ends(self) -> int:
        """The exit status."""
        return self.process.wait(patience(WITHIN_S))

    def said(self) -> str:
        """Its log."""
        self._log.seek(0)
        return self._log.read()
