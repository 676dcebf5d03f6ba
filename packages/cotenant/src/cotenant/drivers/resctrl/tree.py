"""The files of a resctrl tree: groups as folders, texts as files, and the meaning of their errors.

The kernel returns EINVAL for any wrong schemata and writes the cause to another file; a machine out of classes returns
ENOSPC to mkdir. One place maps those to this package's errors.
Limits: control groups directly below the root only, no monitor groups.

Source: Linux, Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

ROOT = "/sys/fs/resctrl"
NEEDS = "cache allocation in CPU and kernel (CONFIG_X86_CPU_RESCTRL), with resctrl mounted"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}")
_RESERVED = frozenset(("info", "mon_data", "mon_groups"))
_Answer = TypeVar("_Answer")


def is_group_name(name: str) -> bool:
    """Whether a control group below the root may have this name."""
    return bool(_NAME.fullmatch(name)) and name not in _RESERVED


class ResctrlTree:
    """The tree at `root`."""

    def __init__(self, root: str = ROOT) -> None:
        self.root = Path(root)

    @property
    def present(self) -> bool:
        """Whether a resctrl tree is mounted."""
        return (self.root / "schemata").is_file() and (self.root / "info").is_dir()

    def path(self, group: str) -> Path:
        """The folder of a group; "" = the root. Raises `InvalidInput` for an impossible name."""
        if group and not is_group_name(group):
            raise InvalidInput("resctrl group", group, "one name, not one of the tree's own")
        if not self.present:
            raise Unsupported("resctrl", NEEDS)
        return self.root / group

    def exists(self, group: str) -> bool:
        """Whether the group exists."""
        return self.path(group).is_dir()

    def groups(self) -> tuple[str, ...]:
        """All control groups but the root, sorted."""
        if not self.present:
            raise Unsupported("resctrl", NEEDS)
        found = (entry for entry in self.root.iterdir() if entry.is_dir() and entry.name not in _RESERVED)
        return tuple(sorted(entry.name for entry in found))

    def read(self, group: str, name: str) -> str:
        """Read a file of a group."""
        path = self.path(group) / name
        return self._mapped(f"/{group}/{name}", lambda: path.read_text(encoding="ascii", errors="replace"))

    def write(self, group: str, name: str, text: str) -> None:
        """Write a file of a group in one call, as the kernel requires."""
        path = self.path(group) / name

        def act() -> None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)

        self._mapped(f"/{group}/{name}", act, text)

    def make(self, group: str) -> None:
        """Create a control group, if it does not exist."""
        path = self.path(group)
        self._mapped(f"/{group}", lambda: path.mkdir(exist_ok=True))

    def remove(self, group: str) -> None:
        """Remove a control group; its tasks fall back to the root. A missing group is not an error."""
        if not group:
            raise InvalidInput("resctrl group", "", "a group below the root", "the root stays")
        path = self.path(group)
        try:
            self._mapped(f"/{group}", lambda: self.remove_folder(path))
        except Vanished:
            return

    def remove_folder(self, path: Path) -> None:
        """The kernel removes a group's files with its folder."""
        path.rmdir()

    def _mapped(self, what: str, act: Callable[[], _Answer], written: str = "") -> _Answer:
        try:
            return act()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise Vanished(f"resctrl {what}: no such group") from error
        except OSError as error:
            if error.errno == errno.ENODEV:
                raise Vanished(f"resctrl {what}: the group was removed") from error
            if error.errno == errno.ESRCH:
                raise Vanished(f"resctrl {what}: no such task as {written.strip()}") from error
            if error.errno in (errno.EINVAL, errno.ERANGE):
                raise InvalidInput(
                    f"resctrl {what}", written.strip(), self._cause() or "a value that the kernel accepts"
                ) from error
            if error.errno == errno.ENOSPC:
                raise Permanent(f"resctrl {what}: the hardware has no class left: {self._cause()}") from error
            if error.errno in (errno.EBUSY, errno.EINTR, errno.ENOMEM, errno.EAGAIN):
                raise Transient(f"resctrl {what}: {error.strerror}") from error
            raise Permanent(f"resctrl {what}: {error.strerror}") from error

    def _cause(self) -> str:
        try:
            status = (self.root / "info/last_cmd_status").read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return ""
        return "" if status == "ok" else status
