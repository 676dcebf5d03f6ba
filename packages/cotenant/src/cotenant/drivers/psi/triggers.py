"""Pressure triggers: events when tasks stall, instead of polling every second.

The kernel reports a pressure trigger's event as priority data (EPOLLPRI), which asyncio cannot wait for, and clears it
as soon as it is polled; and it grants windows by privilege. Each trigger is wrapped into an epoll of its own, whose
descriptor becomes readable: that readiness is itself the event, and `take` only distinguishes a stall from a group that
is gone. Where a window is refused, the next unprivileged one (a multiple of 2 s) is used with the same stall, so that
it fires no later than requested; `window_us` says which one it is.
Limits: at most one event per window; an event before the descriptor is waited for may be lost, the next follows while
the stall lasts.

Source: Linux, Documentation/accounting/psi.rst, "Monitoring for pressure thresholds"; kernel/sched/psi.c
(`psi_trigger_create`, `psi_trigger_poll`).
"""

from __future__ import annotations

import errno
import os
import select
from contextlib import suppress
from enum import StrEnum
from types import TracebackType

from cotenant.drivers.cgroup.files import CgroupTree
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

MIN_WINDOW_US = 500_000
MAX_WINDOW_US = 10_000_000
UNPRIVILEGED_WINDOW_US = 2_000_000  # without CAP_SYS_RESOURCE: multiples of this
HOST = None  # in place of a group
_FLAGS = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC


class PressureResource(StrEnum):
    """The resource that tasks wait for."""

    CPU = "cpu"
    MEMORY = "memory"
    IO = "io"


class TriggerEvent(StrEnum):
    """The event of a ready trigger."""

    STALLED = "stalled"  # tasks waited at least the stall within a window
    GONE = "gone"  # the group was removed; the trigger is dead


class PressureTrigger:
    """One trigger. Wait until `fileno()` is readable (`loop.add_reader`), then call `take`. Created by
    `PressureFiles.trigger`.
    """

    def __init__(
        self, pressure: int, group: str | None, resource: PressureResource, stall_us: int, window_us: int
    ) -> None:
        self.group = group
        self.resource = resource
        self.stall_us = stall_us
        self.window_us = window_us
        self._pressure = pressure
        self._epoll = select.epoll()
        self._epoll.register(pressure, select.EPOLLPRI)

    def fileno(self) -> int:
        """The descriptor to wait for."""
        return self._epoll.fileno()

    def pressure_fileno(self) -> int:
        """The descriptor that keeps the trigger alive, for handing it to another process."""
        return self._pressure

    def take(self) -> TriggerEvent:
        """The event that made the descriptor readable. Does not block."""
        for _, event in self._epoll.poll(0):
            if event & (select.EPOLLERR | select.EPOLLHUP):
                return TriggerEvent.GONE
        return TriggerEvent.STALLED

    def close(self) -> None:
        """Stop waiting. Remove the reader first."""
        self._epoll.close()
        if self._pressure >= 0:
            os.close(self._pressure)
            self._pressure = -1

    def __enter__(self) -> PressureTrigger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PressureFiles:
    """The *.pressure files of the host and its groups. Holds the v2 tree open until `close`."""

    def __init__(self, layout: CgroupLayout | None, proc_root: str = "/proc") -> None:
        self._proc_root = proc_root
        self._tree: CgroupTree | None = None
        if layout is not None and layout.unified is not None:
            try:
                self._tree = CgroupTree(layout.unified.path)
            except OSError as error:
                raise Unsupported("pressure of groups", f"{layout.unified.path} ({error.strerror})") from error

    def close(self) -> None:
        """Close the tree. Triggers stay open."""
        if self._tree is not None:
            self._tree.close()
            self._tree = None

    def trigger(
        self, group: str | None, resource: PressureResource, stall_us: int, window_us: int, full: bool = False
    ) -> PressureTrigger:
        """A trigger on a group (or the HOST) for `stall_us` of stall, of some or all (`full`) tasks, within
        `window_us`.

        Raises `InvalidInput` for amounts that no kernel accepts, `Vanished` for a group that does not exist,
        `Unsupported` where this machine has no pressure information or grants no such window.
        """
        if not MIN_WINDOW_US <= window_us <= MAX_WINDOW_US:
            raise InvalidInput("window", window_us, f"{MIN_WINDOW_US} to {MAX_WINDOW_US} microseconds")
        if not 0 < stall_us <= window_us:
            raise InvalidInput("stall", stall_us, "microseconds above 0, and not above the window's")
        granted = -(-window_us // UNPRIVILEGED_WINDOW_US) * UNPRIVILEGED_WINDOW_US
        pressure = self._open(group, resource)
        try:
            try:
                _arm(pressure, full, stall_us, window_us)
                granted = window_us
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EPERM) or granted == window_us:
                    raise
                _arm(pressure, full, stall_us, granted)
            return PressureTrigger(pressure, group, resource, stall_us, granted)
        except OSError as error:
            with suppress(OSError):
                os.close(pressure)
            raise self._error(group, resource, error) from error

    def _open(self, group: str | None, resource: PressureResource) -> int:
        name = f"{resource}.pressure"
        try:
            if group is None:
                return os.open(os.path.join(self._proc_root, "pressure", str(resource)), _FLAGS)
            if self._tree is None:
                raise Unsupported("pressure of groups", "a cgroup v2 tree, which may be mounted beside v1")
            return self._tree.open(group, name, _FLAGS)
        except OSError as error:
            raise self._error(group, resource, error) from error

    def _error(self, group: str | None, resource: PressureResource, error: OSError) -> Exception:
        where = f"{resource} pressure of " + ("the host" if group is None else f"/{group}")
        match error.errno:
            case errno.ENOENT | errno.ENODEV | errno.ENOTDIR:
                if group is not None and self._tree is not None and not self._tree.exists(group):
                    return Vanished(f"{where}: no such group")
                return Unsupported(where, "a kernel with CONFIG_PSI, and pressure not switched off (cgroup.pressure)")
            case errno.EOPNOTSUPP:
                return Unsupported(where, "pressure not switched off at boot (psi=1)")
            case errno.EINVAL:
                return Unsupported(f"a trigger on {where}", "CAP_SYS_RESOURCE for this window, or Linux 6.5")
            case errno.EPERM | errno.EACCES | errno.EROFS:
                return Unsupported(
                    f"a trigger on {where}", "CAP_SYS_RESOURCE, or Linux 6.5, and a tree that may be written"
                )
            case errno.EINTR | errno.ENOMEM | errno.EMFILE | errno.ENFILE:
                return Transient(f"{where}: {error.strerror}")
        return Permanent(f"{where}: {error.strerror}")


def _arm(pressure: int, full: bool, stall_us: int, window_us: int) -> None:
    os.write(pressure, f"{'full' if full else 'some'} {stall_us} {window_us}\0".encode())
