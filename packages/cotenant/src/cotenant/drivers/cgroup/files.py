"""Files of one cgroup tree, accessed without ever leaving the tree.

A group's name is chosen by any process that may create a folder, and the writer is root: a name such as `..`, or a link
put in place of a group, must not lead out of the tree. The tree's root is held open and every part of a path is opened
separately, without following links.
Limits: errors are the kernel's `OSError`s, interpreted by callers. A name that no file can have counts as absent
(ENOENT).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

READ_BYTES = 64 * 1024  # enough for memory.numa_stat of large machines; longer files are truncated
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def parts_of(group: str) -> tuple[bytes, ...]:
    """The parts of a group's path as bytes; () is the root. Raises ENOENT for an impossible path."""
    if not group:
        return ()
    try:
        parts = tuple(os.fsencode(part) for part in group.split("/"))
    except UnicodeEncodeError:
        parts = (b"",)
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), group)
    return parts


class CgroupTree:
    """One mounted hierarchy. Holds one file descriptor until `close`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._root = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the root; the tree cannot be used afterwards."""
        if self._root >= 0:
            os.close(self._root)
            self._root = -1

    def __enter__(self) -> CgroupTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def folder(self, parts: tuple[bytes, ...]) -> Iterator[int]:
        """The folder of a group, held open while the block runs."""
        at = os.dup(self._root)
        try:
            for part in parts:
                below = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    def open(self, group: str, name: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of one of a group's files."""
        with self.folder(parts_of(group)) as at:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)

    def exists(self, group: str) -> bool:
        """Whether there is such a group now."""
        try:
            with self.folder(parts_of(group)):
                return True
        except OSError:
            return False

    def has(self, group: str, name: str) -> bool:
        """Whether the group has such a file."""
        try:
            os.close(self.open(group, name, os.O_PATH))
        except OSError:
            return False
        return True

    def read(self, group: str, name: str) -> str:
        """The contents of a file, stripped. Bytes that are not text are replaced."""
        at = self.open(group, name)
        try:
            return os.read(at, READ_BYTES).decode("utf-8", "replace").strip()
        finally:
            os.close(at)

    def read_all(self, group: str, name: str) -> str:
        """The whole contents of a file that may be long, e.g. a list of processes."""
        at = self.open(group, name)
        with open(at, "rb") as file:
            return file.read().decode("utf-8", "replace")

    def write(self, group: str, name: str, text: str) -> None:
        """Write a file in one call, as the kernel requires. An empty text is written as a line feed: an empty write
        would not reach the kernel.
        """
        at = self.open(group, name, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(at, (text or "\n").encode())
        finally:
            os.close(at)

    def children(self, group: str) -> list[str]:
        """The names of the groups directly below, in order."""
        with self.folder(parts_of(group)) as at:
            listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
        try:
            with os.scandir(listing) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        finally:
            os.close(listing)

    def make(self, group: str) -> None:
        """Create one group; its parent must exist."""
        *above, last = parts_of(group)
        with self.folder(tuple(above)) as at:
            os.mkdir(last, dir_fd=at)

    def remove(self, group: str) -> None:
        """Remove one group that has no processes and no child groups."""
        *above, last = parts_of(group)
        with self.folder(tuple(above)) as at:
            os.rmdir(last, dir_fd=at)
