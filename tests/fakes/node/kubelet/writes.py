"""Every write of the stand-in: where, what, and what came of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Write:
    """One write to a file, or one call of systemd (`path` is then the unit's name)."""

    path: str
    value: str
    error: str = ""  # the error's name, as in "EINVAL"; "" = done
    ignored: bool = False  # an error that the real one expects, and goes on


class Failed(Exception):
    """A step of the kubelet or the runtime that failed, as it would say it."""


@dataclass(slots=True)
class Recorder:
    """Writes, and remembers. Raises the kernel's error as `Failed`."""

    writes: list[Write] = field(default_factory=list)

    @property
    def failures(self) -> list[Write]:
        """Those that failed and should not have."""
        return [write for write in self.writes if write.error and not write.ignored]

    def write(self, folder: Path, file: str, value: str, ignores: Callable[[int], bool] = lambda number: False) -> bool:
        """Whether it was written; False for an error that `ignores` accepts. Raises `Failed`."""
        path = folder / file
        try:
            # as opencontainers' WriteFile: the file is never created
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            number = error.errno or 0
            name = errno.errorcode.get(number, str(number))
            self.writes.append(Write(str(path), value, name, ignores(number)))
            if ignores(number):
                return False
            raise Failed(f"failed to write {value!r} to {path}: {name}") from error
        self.writes.append(Write(str(path), value))
        return True

    def told(self, path: str, value: str, error: str = "", ignored: bool = False) -> None:
        """Something that was not a file."""
        self.writes.append(Write(path, value, error, ignored))
