"""Dropping the privileges that the keeper does not need.

The keeper runs as root because cgroup files belong to root; it needs none of root's other powers. At start, before any
thread, no new privileges ever (not through exec either), and only the capabilities that its arguments call for. A
capability that the unit or container does not grant is not missed until it is needed: that one operation then fails.
Limits: the user stays root, so files of root stay writable; a container or unit restricts that further (deploy/node).
Capabilities are per thread: threads started later have no more.

Source: capabilities(7), prctl(2), capset(2).
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING

from cotenant.model.errors import Permanent

if TYPE_CHECKING:
    from cotenant.services.keeper.keeper_arguments import KeeperArguments

_PR_CAPBSET_READ, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 23, 24, 38
_VERSION_3 = 0x20080522
_MOST = 64


class KernelCapability(IntEnum):
    """The capabilities that a keeper can use."""

    DAC_OVERRIDE = 1  # groups that a user made below a delegated one belong to that user
    NET_ADMIN = 12  # traffic classes, where an interface is named
    SYS_RESOURCE = 24  # pressure triggers with short windows
    # zones in virtual machines: virtiofsd's root; it drops the next ones by itself, and needs them to begin with
    SYS_CHROOT = 18
    CHOWN = 0
    FOWNER = 3
    FSETID = 4
    SETGID = 6
    SETUID = 7
    SETPCAP = 8
    MKNOD = 27
    SETFCAP = 31
    SYS_NICE = 23  # slices of best-effort tasks; zones: real-time threads for the milliseconds of a switch
    SYS_ADMIN = 21  # zones: the read-only mount of a guest's root; kernel schedulers, on kernels without the next two
    PERFMON = 38  # tracing of waits
    BPF = 39  # tracing of waits; zones: kernel schedulers


ALWAYS = frozenset({KernelCapability.DAC_OVERRIDE, KernelCapability.SYS_RESOURCE})
OF_INTERFACES = frozenset({KernelCapability.NET_ADMIN})
OF_TASKS = frozenset({KernelCapability.SYS_NICE})  # slices of other users' tasks
OF_GPUS = frozenset({KernelCapability.SYS_ADMIN})  # NVIDIA's driver asks for it where a limit of a card is set
OF_WAITS = frozenset({KernelCapability.BPF, KernelCapability.PERFMON})
OF_ZONES = frozenset(KernelCapability) - ALWAYS - OF_INTERFACES


def needed(request: KeeperArguments) -> frozenset[KernelCapability]:
    """The capabilities that the arguments call for."""
    found = ALWAYS
    if request.interfaces:
        found |= OF_INTERFACES
    if request.gpus:
        found |= OF_GPUS
    if request.idle_slice_ms > 0:
        found |= OF_TASKS
    if request.waits:
        found |= OF_WAITS
    return found | OF_ZONES if request.zones else found


def join_group(group: int | None) -> None:
    """Become a member of the socket's group, so that no capability is needed to give the socket to it. Without the
    right to, nothing changes.
    """
    if group is None or group in (os.getegid(), *os.getgroups()):
        return
    with suppress(PermissionError):
        os.setgroups([*os.getgroups(), group])


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def give_up(keep: frozenset[KernelCapability] = ALWAYS | OF_INTERFACES) -> None:
    """Keep at most these capabilities. Raises `Permanent` where the kernel refuses. Without root, only no_new_privs
    is set.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    if os.geteuid() != 0:
        return
    header, data = _Header(_VERSION_3, 0), (_Data * 2)()
    _must(libc.capget(ctypes.byref(header), data), "reading capabilities")
    for number in range(_MOST):
        if number not in keep and libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # may lack CAP_SETPCAP: then no_new_privs has to suffice
    for half in range(2):
        mask = sum(1 << (number - 32 * half) for number in keep if number // 32 == half)
        data[half].effective &= mask
        data[half].permitted &= mask
        data[half].inheritable = 0
    _must(libc.capset(ctypes.byref(header), data), "dropping capabilities")


def _must(status: int, what: str) -> None:
    if status != 0:
        raise Permanent(f"{what}: {os.strerror(ctypes.get_errno())}")
