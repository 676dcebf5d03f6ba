"""NVIDIA's MPS control daemon, asked through its own program.

Its pipe has no published protocol, so `nvidia-cuda-mps-control` is run and given one command on its standard input, as
NVIDIA documents. The daemon is the one of `CUDA_MPS_PIPE_DIRECTORY`.
Limits: some milliseconds a command; one that does not answer within 5 s is ended.

Source: NVIDIA, Multi-Process Service, "nvidia-cuda-mps-control"; nvidia-cuda-mps-control(1).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cotenant.model.errors import Permanent, Transient, Unsupported

PROGRAM = "nvidia-cuda-mps-control"
USUAL_PIPE = Path("/tmp/nvidia-mps")
NEEDS = "a running MPS control daemon"
_TIMEOUT_S = 5.0
_ABSENT = "cannot find mps control daemon"


class MpsControl:
    """The daemon at a pipe directory; None: where CUDA looks."""

    def __init__(self, pipe: Path | None = None, program: str = PROGRAM) -> None:
        self.pipe = USUAL_PIPE if pipe is None else pipe
        self._program = program

    @property
    def identity(self) -> str:
        """Distinguishes this daemon from one that is started later, which knows nothing of what was set. Raises
        `Unsupported` without one.
        """
        try:
            found = os.stat(self.pipe / "control")
        except OSError as error:
            raise Unsupported("limits of MPS clients", f"{NEEDS} at {self.pipe} ({error.strerror})") from error
        return f"{found.st_ino}:{found.st_ctime_ns}"

    def ask(self, command: str) -> str:
        """The answer to one command, stripped. Raises `Unsupported` without program or daemon."""
        environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe)}
        try:
            found = subprocess.run(
                [self._program], input=command + "\n", env=environment, text=True, capture_output=True,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Unsupported("limits of MPS clients", f"{self._program}, of NVIDIA's driver") from error
        except subprocess.TimeoutExpired as error:
            raise Transient(f"the MPS control daemon did not answer {command!r}") from error
        except OSError as error:
            raise Permanent(f"{self._program}: {error.strerror}") from error
        said = (found.stdout + found.stderr).strip()
        if _ABSENT in said.lower():
            raise Unsupported("limits of MPS clients", f"{NEEDS} at {self.pipe}")
        if found.returncode != 0:
            raise Permanent(f"{self._program}: {command!r}: {said or f'status {found.returncode}'}")
        return found.stdout.strip()

    def servers(self) -> tuple[str, ...]:
        """Process ids of its servers."""
        return tuple(word for word in self.ask("get_server_list").split() if word.isdecimal())
