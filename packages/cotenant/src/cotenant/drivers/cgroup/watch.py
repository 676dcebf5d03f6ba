"""Notices writes to the files of groups, by whomever: the kernel reports a write to a cgroup file like one to any
other.

Another process puts a knob back, and a keeper that looks every ten seconds leaves best-effort work unlimited until
then. Inotify on the folders of the groups whose knobs are held. A write of our own is reported too.
Limits: one inotify instance; where the kernel grants none, or no more watches, `start` or `follow` says so and the
keeper looks from time to time instead. What the kernel changes by itself is not reported.

Source: inotify(7); Linux, fs/kernfs/file.c (writes from user space pass through the VFS, which notifies).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from inotify_simple import INotify, flags

from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.translation import FILES
from cotenant.model.machine.knob import KnobScope, KnobTarget

_MASK = flags.MODIFY | flags.ONLYDIR | flags.DONT_FOLLOW


class KnobWatch:
    """Watches the groups of held knobs. `descriptor` becomes readable when something was written."""

    def __init__(self, layout: CgroupLayout) -> None:
        """Raises `OSError` where the kernel grants no instance."""
        self._layout = layout
        self._inotify = INotify(nonblocking=True)
        self._watches: dict[tuple[str, str], int] = {}  # by tree and group
        self._groups: dict[int, str] = {}
        self.unwatched: frozenset[str] = frozenset()  # groups for which there was no watch left

    @property
    def descriptor(self) -> int:
        """The descriptor to wait for."""
        return self._inotify.fileno()

    def close(self) -> None:
        """End all watches."""
        self._inotify.close()

    def follow(self, targets: Iterable[KnobTarget]) -> None:
        """Watch the groups of these knobs, and only these."""
        wanted = {place for target in targets if (place := self._place(target)) is not None}
        for place in self._watches.keys() - wanted:
            watch = self._watches.pop(place)
            self._groups.pop(watch, None)
            with suppress(OSError):  # the kernel ended it with the group
                self._inotify.rm_watch(watch)
        unwatched = set()
        for tree, group in wanted - self._watches.keys():
            try:
                watch = self._inotify.add_watch(os.path.join(tree, group), _MASK)
            except OSError:  # gone meanwhile, or no watch is left
                unwatched.add(group)
                continue
            self._watches[tree, group] = watch
            self._groups[watch] = group
        self.unwatched = frozenset(unwatched)

    def written(self) -> frozenset[str]:
        """The groups in which a file was written since the last call."""
        found = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                return frozenset(self._groups.values())
            if event.mask & flags.IGNORED:
                self._forget(event.wd)
            elif event.wd in self._groups:
                found.add(self._groups[event.wd])
        return frozenset(found)

    def _forget(self, watch: int) -> None:
        self._groups.pop(watch, None)
        for place in [place for place, number in self._watches.items() if number == watch]:
            del self._watches[place]

    def _place(self, target: KnobTarget) -> tuple[str, str] | None:
        if target.knob.scope is not KnobScope.CGROUP:
            return None
        hierarchy = self._layout.by_controller.get(FILES[target.knob].controller)
        return None if hierarchy is None else (hierarchy.path, target.group)
