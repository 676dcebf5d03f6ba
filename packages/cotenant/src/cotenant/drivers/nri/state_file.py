"""A file by which others on the node see that a runtime hook is there.

`cotenant node status` must say whether new containers start with our values, and a process that was killed leaves its
files behind. The file has the runtime's name and is locked while its process lives; the kernel lifts the lock whatever
ends the process. A process that lives and hangs keeps the lock, and its runtime has parted with it: so the file also
has the time at which the process last came round.
Limits: whoever cannot open the file sees no hook. Times are of the machine's monotonic clock, which containers share.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from cotenant.model.devices.shares import HookedShares

PATH = Path("/run/cotenant/nri.json")
HANGS_AFTER_S = 10.0
HANGS = f"an answer from `cotenant nri`: its process lives and has not come round for {HANGS_AFTER_S:g} s"
_MAX_BYTES = 4096


class HookState(msgspec.Struct, frozen=True):
    """What a living hook says of itself. `runtime` "": not connected."""

    runtime: str = ""
    acts: bool = False  # else it decides, and changes nothing
    shares: HookedShares = HookedShares()  # of GPUs
    hangs: bool = False  # it has not come round for `HANGS_AFTER_S`, so no creation has its answer


class _HookFile(msgspec.Struct, frozen=True):
    """The file's content."""

    runtime: str = ""
    acts: bool = False
    shares: HookedShares = HookedShares()
    at_s: float | None = None


class StateFile:
    """The file of this process. Raises `OSError` where it cannot be made, `BlockingIOError` where another process
    has it.
    """

    def __init__(self, path: Path = PATH, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic, self._length = monotonic, 0
        self._runtime, self._said_s, self._hung = "", monotonic(), False
        path.parent.mkdir(parents=True, exist_ok=True)
        self._at = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(self._at, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._at)
            raise
        os.ftruncate(self._at, 0)  # what a killed process left would be taken for this one's

    def write(self, state: HookState) -> None:
        """Replace what it says, or say it again: a process that comes round does. A runtime that parted with the
        process while it hung is not said to be connected the first time after: that may not have been read yet.
        """
        now_s = self._monotonic()
        is_first = not self._hung and now_s - self._said_s > HANGS_AFTER_S
        if is_first and state.runtime and state.runtime == self._runtime:
            self._hung = True
            return
        self._runtime, self._said_s, self._hung = state.runtime, now_s, False
        said = msgspec.json.encode(_HookFile(state.runtime, state.acts, state.shares, now_s))
        self._length = max(self._length, len(said))
        os.pwrite(self._at, said.ljust(self._length), 0)  # never shorter: a reader finds one state or the other

    def close(self) -> None:
        """Give the file up."""
        with suppress(OSError):
            os.ftruncate(self._at, 0)
        os.close(self._at)


def read_state(path: Path = PATH, monotonic: Callable[[], float] = time.monotonic) -> HookState | None:
    """What the node's hook says of itself; None where none lives."""
    try:
        at = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(at, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            said = msgspec.json.decode(os.pread(at, _MAX_BYTES, 0), type=_HookFile)
        except msgspec.DecodeError:  # it has not said anything yet
            return HookState()
        hangs = said.at_s is not None and monotonic() - said.at_s > HANGS_AFTER_S
        return HookState(said.runtime, said.acts, said.shares, hangs)
    except OSError:
        return None
    finally:
        os.close(at)
    return None
