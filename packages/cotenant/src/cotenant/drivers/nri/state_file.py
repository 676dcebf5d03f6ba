"""A file by which others on the node see that a runtime hook is there.

`cotenant node status` must say whether new containers start with our values, and a process that was killed leaves its
files behind. The file has the runtime's name and is locked while its process lives; the kernel lifts the lock whatever
ends the process.
Limits: whoever cannot open the file sees no hook.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

import msgspec

PATH = Path("/run/cotenant/nri.json")
_MAX_BYTES = 4096


class HookState(msgspec.Struct, frozen=True):
    """What a living hook says of itself. `runtime` "": not connected."""

    runtime: str = ""
    acts: bool = False  # else it decides, and changes nothing


class StateFile:
    """The file of this process. Raises `OSError` where it cannot be made, `BlockingIOError` where another process
    has it.
    """

    def __init__(self, path: Path = PATH) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._at = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(self._at, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._at)
            raise

    def write(self, state: HookState) -> None:
        """Replace what it says."""
        os.ftruncate(self._at, 0)
        os.pwrite(self._at, msgspec.json.encode(state), 0)

    def close(self) -> None:
        """Give the file up."""
        with suppress(OSError):
            os.ftruncate(self._at, 0)
        os.close(self._at)


def read_state(path: Path = PATH) -> HookState | None:
    """What the node's hook says of itself; None where none lives."""
    try:
        at = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(at, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            return msgspec.json.decode(os.pread(at, _MAX_BYTES, 0), type=HookState)
        except msgspec.DecodeError:  # it is being written
            return HookState()
    except OSError:
        return None
    finally:
        os.close(at)
    return None
