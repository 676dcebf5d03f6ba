"""The agent's command in a fork of the tests' own process: starting Python and importing it again takes half a
minute of the guest's time.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import traceback
from typing import TextIO

from tests.fakes.waiting import eventually
from tests.node.test_agent import AgentProcess

import cotenant.services.agent.main
import cotenant.services.agent.wiring
import cotenant.services.keeper.main  # noqa: F401
from cotenant.cli.main import main


class Forked:
    """What `AgentProcess` needs of a `subprocess.Popen`."""

    def __init__(self, arguments: list[str], log: TextIO) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(arguments, writing, log)
        os.close(writing)
        self.stdout = os.fdopen(reading)
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, within_s: float = 30.0) -> int:
        eventually("the agent ends", self._ended, within_s)
        assert self.returncode is not None
        return self.returncode

    def _ended(self) -> bool:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode is not None


class ForkedAgent(AgentProcess):
    """The same agent, started without a Python of its own."""

    def start(self, command: list[str] | None = None) -> ForkedAgent:
        with (self.folder / "agent.log").open("a") as log:
            self.process = Forked((command or self.command)[3:], log)  # type: ignore[assignment]
        assert self.process is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("listening on unix:"), (self.folder / "agent.log").read_text()
        return self


def _run(arguments: list[str], out: int, log: TextIO) -> None:
    """Never returns."""
    status = 70
    try:
        os.dup2(out, 1)
        os.dup2(log.fileno(), 2)
        os.close(out)
        # pytest has put its own in their places
        sys.stdout, sys.stderr = open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
        logging.getLogger().handlers.clear()
        gc.enable()
        status = main(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
