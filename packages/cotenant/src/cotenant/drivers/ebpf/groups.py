"""Mapping between a cgroup's path and its id in the kernel.

eBPF identifies a group by a number. That number is the inode number of the group's folder (cgroup v1 and v2 alike). A
folder has a link for each subfolder, so a group without child groups costs one stat.
Limits: a group created after the last listing has no name until the next.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Iterator
from contextlib import suppress

from cotenant.model.machine.knob import Vanished

_LINKS_OF_A_LEAF = 2


class CgroupIndex:
    """Ids of the groups of one tree, and the paths of those that were listed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._paths: dict[int, str] = {}
        self._gone: frozenset[int] = frozenset()

    def members(self, group: str, apart: Container[str] = ()) -> tuple[int, ...]:
        """The ids of a group and of all below it, its own first; groups in `apart` and those below them are left
        out. Raises `Vanished`.
        """
        try:
            folder = os.stat(os.path.join(self._root, group))
        except OSError as error:
            raise Vanished(f"cgroup {group or '/'}: {error.strerror}") from error
        self._paths[folder.st_ino] = group
        below = self._below(group, apart) if folder.st_nlink != _LINKS_OF_A_LEAF else ()
        return (folder.st_ino, *below)

    def path(self, group_id: int) -> str | None:
        """The path of a group as of the last listing."""
        return self._paths.get(group_id)

    def is_new(self, group_id: int) -> bool:
        """Whether a new listing might find it."""
        return group_id not in self._paths and group_id not in self._gone

    def refresh(self, asked: Collection[int]) -> None:
        """List the whole tree again. Ids of `asked` that are not in it are gone: an id is not reused."""
        self._paths = dict(self._walk("", ()))
        with suppress(OSError):
            self._paths[os.stat(self._root).st_ino] = ""
        self._gone = frozenset(group_id for group_id in asked if group_id not in self._paths)

    def _below(self, group: str, apart: Container[str]) -> Iterator[int]:
        for inode, path in self._walk(group, apart):
            self._paths[inode] = path
            yield inode

    def _walk(self, group: str, apart: Container[str]) -> Iterator[tuple[int, str]]:
        waiting = [group]
        while waiting:
            parent = waiting.pop()
            try:
                with os.scandir(os.path.join(self._root, parent)) as entries:
                    folders = [(entry.name, entry.stat()) for entry in entries if entry.is_dir(follow_symlinks=False)]
            except OSError:
                continue  # gone while being listed
            for name, folder in folders:
                path = f"{parent}/{name}" if parent else name
                if path not in apart:
                    if folder.st_nlink != _LINKS_OF_A_LEAF:
                        waiting.append(path)
                    yield folder.st_ino, path
