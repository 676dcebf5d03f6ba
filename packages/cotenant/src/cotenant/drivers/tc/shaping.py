"""Rate, delay and loss of what leaves a network namespace, through netlink.

A token bucket for the rate, netem for delay and loss; where both are wanted, netem stands below the bucket. A root
discipline that is not the kernel's default and not of these handles belongs to somebody else and is never replaced.

Source: tc-tbf(8), tc-netem(8); Linux net/sched/sch_tbf.c, sch_netem.c.
"""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

if TYPE_CHECKING:
    from pyroute2 import IPRoute, NetlinkError

NEEDS = "Linux traffic control with sch_tbf, the right to administrate networks, and pyroute2"
NEEDS_NETEM = "Linux' sch_netem (CONFIG_NET_SCH_NETEM), which this kernel does not have"
RATE_HANDLE, NETEM_HANDLE = 0xC07F0000, 0xC07E0000
_ROOT = 0xFFFFFFFF
_UP, _LOOPBACK = 0x1, 0x8  # flags of links
_CLONE_NEWNET = 0x40000000
_LEAST_BURST = 64 << 10  # bytes; a packet of segmentation offload has as many
_LATENCY_US = 50_000  # longest wait in the bucket's queue
_NETEM_PACKETS = 10_000
_SCALE = 1 << 32  # of netem's probabilities


@dataclass(frozen=True, slots=True)
class TrafficShape:
    """None and 0: as the kernel does by itself."""

    rate_bits: int | None = None  # per second
    delay_us: int = 0
    loss_ppm: int = 0

    @property
    def has_netem(self) -> bool:
        """Whether it delays or loses packets."""
        return self.delay_us > 0 or self.loss_ppm > 0


class NamespaceShaping:
    """Of the namespace at a path such as /proc/PID/ns/net."""

    def read(self, namespace: str) -> TrafficShape:
        """What stands on its devices. Raises `Vanished`, `Unsupported`, `Permanent`."""
        with _opened(namespace) as socket:
            return _shape(socket, _devices(socket)[0])

    def write(self, namespace: str, shape: TrafficShape) -> None:
        """Set it on all devices but the loopback."""
        with _opened(namespace) as socket:
            for index in _devices(socket):
                _set(socket, index, shape)


@contextmanager
def _opened(namespace: str) -> Iterator[IPRoute]:
    try:
        pyroute2 = importlib.import_module("pyroute2")
    except ImportError as error:
        raise Unsupported("limits of a container's network", NEEDS) from error
    try:
        with _inside(namespace), pyroute2.IPRoute() as socket:
            yield socket
    except pyroute2.NetlinkError as error:
        raise _error(namespace, error) from error
    except FileNotFoundError as error:
        raise Vanished(f"{namespace}: no such network namespace") from error
    except OSError as error:
        raise Transient(f"{namespace}: netlink: {error}") from error


@contextmanager
def _inside(namespace: str) -> Iterator[None]:
    """This thread is in another network namespace meanwhile.

    pyroute2 would fork a process for that, which inherits this one's handling of signals and reports its own end to it.
    """
    setns = ctypes.CDLL(None, use_errno=True).setns
    with open("/proc/thread-self/ns/net", "rb") as here, open(namespace, "rb") as there:
        if setns(there.fileno(), _CLONE_NEWNET):
            raise Permanent(f"{namespace} may not be entered: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            if setns(here.fileno(), _CLONE_NEWNET):
                raise RuntimeError(f"cannot go back from {namespace}: {os.strerror(ctypes.get_errno())}")


def _devices(socket: IPRoute) -> list[int]:
    found = [link["index"] for link in socket.get_links() if not link["flags"] & _LOOPBACK and link["flags"] & _UP]
    if not found:
        raise Permanent("the container has no network device but the loopback")
    return found


def _disciplines(socket: IPRoute, index: int) -> list[Any]:
    return [found for found in socket.get_qdiscs(index=index) if found["handle"]]


def _shape(socket: IPRoute, index: int) -> TrafficShape:
    rate_bits, delay_us, loss_ppm = None, 0, 0
    for found in _disciplines(socket, index):
        options = found.get_attr("TCA_OPTIONS")
        if found["handle"] == RATE_HANDLE:
            rate_bits = options.get_attr("TCA_TBF_PARMS")["rate"] * 8
        elif found["handle"] == NETEM_HANDLE:
            delay_us = round(options["delay"] / _ticks_per_us())
            loss_ppm = round(options["loss"] * 1_000_000 / _SCALE)
    return TrafficShape(rate_bits, delay_us, loss_ppm)


def _set(socket: IPRoute, index: int, shape: TrafficShape) -> None:
    before = _shape(socket, index)
    if before == shape:
        return
    for found in _disciplines(socket, index):
        if found["parent"] == _ROOT and found["handle"] not in (RATE_HANDLE, NETEM_HANDLE):
            raise Permanent(f"the container's device has a root discipline of its own ({found.get_attr('TCA_KIND')})")
    _remove(socket, index)
    try:
        _install(socket, index, shape)
    except BaseException:
        _remove(socket, index)
        _install(socket, index, before)
        raise


def _remove(socket: IPRoute, index: int) -> None:
    for found in _disciplines(socket, index):
        if found["parent"] == _ROOT and found["handle"] in (RATE_HANDLE, NETEM_HANDLE):
            socket.tc("del", index=index, handle=found["handle"], parent=_ROOT)


def _install(socket: IPRoute, index: int, shape: TrafficShape) -> None:
    parent = _ROOT
    if shape.rate_bits is not None:
        rate_bytes = shape.rate_bits // 8
        burst = max(_LEAST_BURST, rate_bytes // 50)
        socket.tc("add", "tbf", index, RATE_HANDLE, rate=rate_bytes, burst=burst, latency=_LATENCY_US)
        parent = RATE_HANDLE | 1
    if shape.has_netem:
        try:
            socket.tc(
                "add",
                "netem",
                index,
                NETEM_HANDLE,
                parent=parent,
                delay=shape.delay_us,
                loss=shape.loss_ppm / 10_000,
                limit=_NETEM_PACKETS,
            )
        except Exception as error:
            if getattr(error, "code", 0) in (errno.ENOENT, errno.EOPNOTSUPP):
                raise Unsupported("delay and loss", NEEDS_NETEM) from error
            raise


def _ticks_per_us() -> float:
    common = importlib.import_module("pyroute2.netlink.rtnl.tcmsg.common")
    return float(common.tick_in_usec)


def _error(namespace: str, error: NetlinkError) -> Exception:
    what = f"{namespace}: {error}"
    match error.code:
        case errno.ENODEV:
            return Vanished(what)
        case errno.EPERM | errno.EACCES:
            return Permanent(what)
        case errno.EINVAL | errno.ERANGE:
            return InvalidInput("network limit", namespace, f"a value that the kernel accepts ({error})")
        case errno.EOPNOTSUPP | errno.ENOENT:
            return Unsupported("limits of a container's network", NEEDS)
    return Transient(what)
