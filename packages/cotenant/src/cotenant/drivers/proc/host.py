"""Counters of the whole machine: CPU time, memory, network, disks, pressure.

/proc counts much twice: a disk and its partitions, a bridge and the cards under it. Whole physical disks (no loop, ram,
zram, device-mapper or md over other disks), and network devices that are hardware or this machine's uplink, recognized
by their usual names.
Limits: a missing or malformed file counts as zero, or as None where the model has that, with one `Gap`; only `stat` and
`meminfo` are required, and without them there is no sample.

Source: proc(5); Linux, Documentation/admin-guide/iostats.rst (512-byte sectors whatever the device).
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from cotenant.drivers.proc.pressure import parse_pressure
from cotenant.model.errors import Permanent
from cotenant.model.machine.counters import Gap, HostCounters, Pressure
from cotenant.model.whole_number import whole_number

SECTOR_BYTES = 512
_READ_BYTES = 1 << 18
_MAX_DISKS = 32
_TABLES = ("net/dev", "diskstats")
_VIRTUAL_NETWORK = re.compile(
    r"lo|veth.*|docker.*|br-.*|virbr.*|cni.*|flannel.*|cali.*|cilium.*|lxc.*|vxlan.*|genev.*|kube-.*|nodelocaldns|dummy.*|ifb.*|tunl.*|sit.*|ip6tnl.*|tap.*|vnet.*|tun.*|wg.*|bond\d+|team\d+|br\d+|[^.]+\.\d+"
)
_VIRTUAL_DISK = re.compile(r"loop\d+|ram\d+|zram\d+|dm-\d+|md\d+|fd\d+|sr\d+|nbd\d+")
_PARTITION = re.compile(r"(?:(?:nvme\d+(?:c\d+)?n\d+|mmcblk\d+)p\d+|(?:sd|vd|xvd|hd)[a-z]+\d+)")


class HostReader:
    """Reads the machine's counters. `proc_root`: the host's /proc. Holds its files open until `close`."""

    def __init__(self, proc_root: str = "/proc") -> None:
        self.proc_root = proc_root
        self._tick_us = 1_000_000 // os.sysconf("SC_CLK_TCK")
        self._fds: dict[str, int] = {}
        self._gaps: dict[str, Gap] = {}

    def close(self) -> None:
        """Close every descriptor; they are opened again when needed."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def gaps(self) -> tuple[Gap, ...]:
        """What could not be read so far."""
        return tuple(self._gaps.values())

    def read(self) -> HostCounters:
        """The counters now. Raises `Permanent` where CPU time or memory cannot be read."""
        stat, meminfo = self._text("stat"), self._text("meminfo")
        times = _cpu_times(stat) if stat else None
        memory = _fields(meminfo) if meminfo else {}
        if times is None or "MemTotal" not in memory:
            raise Permanent(f"{self.proc_root}/stat and meminfo cannot be read")
        # before Linux 3.14 there is no estimate
        available = memory.get("MemAvailable", memory.get("MemFree", 0) + memory.get("Cached", 0))
        received, sent = self._network()
        used = self._disks()
        return HostCounters(
            cpus=times[0],
            cpu_busy_us=times[1] * self._tick_us,
            memory_total_bytes=memory["MemTotal"] * 1024,
            memory_available_bytes=available * 1024,
            cpu_steal_us=times[2] * self._tick_us,
            swap_total_bytes=memory.get("SwapTotal", 0) * 1024,
            swap_free_bytes=memory.get("SwapFree", 0) * 1024,
            network_received_bytes=received,
            network_sent_bytes=sent,
            disk_read_bytes=sum(disk_use.read_bytes for disk_use in used),
            disk_written_bytes=sum(disk_use.written_bytes for disk_use in used),
            disk_busy_us=sum(disk_use.busy_us for disk_use in used) if used else None,
            disks=tuple(disk_use.number for disk_use in used[:_MAX_DISKS]),
            pressure=self._pressure(),
        )

    def _text(self, name: str) -> str | None:
        data = self._bytes(name)
        return None if data is None else data.decode("utf-8", "replace")

    def _bytes(self, name: str) -> bytes | None:
        try:
            fd = self._fds.get(name)
            if fd is None:
                fd = self._fds[name] = self._open(name)
            data = os.pread(fd, _READ_BYTES, 0)
            # tables of records are returned a few pages at a time, the others at once
            while name in _TABLES and (more := os.pread(fd, _READ_BYTES, len(data))):
                data += more
        except OSError as error:
            self._gaps.setdefault(name, Gap(f"/proc/{name}", f"the file to be readable ({error.strerror})"))
            return None
        return data

    def _open(self, name: str) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC
        if name == "net/dev":
            # process 1 is in the host's network namespace even if this process is not
            with suppress(OSError):
                return os.open(os.path.join(self.proc_root, "1/net/dev"), flags)
        return os.open(os.path.join(self.proc_root, name), flags)

    def _network(self) -> tuple[int, int]:
        text = self._text("net/dev")
        found = None if text is None else network_bytes(text)
        if found is None:
            self._gaps.setdefault("net/dev", Gap("network", "/proc/net/dev in the kernel's own form"))
            return 0, 0
        return found

    def _disks(self) -> tuple[DiskUse, ...]:
        text = self._text("diskstats")
        found = None if text is None else used_disks(text)
        if found is None:
            self._gaps.setdefault("diskstats", Gap("disks", "/proc/diskstats in the kernel's own form"))
            return ()
        return found

    def _pressure(self) -> Pressure:
        stalls = []
        for name in ("cpu", "memory", "io"):
            data = self._bytes(f"pressure/{name}")
            stalls.append(None if data is None else parse_pressure(data))
        return Pressure(*stalls)


def _cpu_times(text: str) -> tuple[int, int, int] | None:
    """Online CPUs, busy ticks, stolen ticks."""
    cpus, busy, stolen = 0, None, 0
    for line in text.splitlines():
        if not line.startswith("cpu"):
            break
        words = line.split()
        if words[0] != "cpu":
            cpus += 1
            continue
        amounts = words[1:]
        if len(amounts) < 4 or not all(word.isdecimal() for word in amounts):
            return None
        user, nice, system, _idle, _iowait, irq, softirq, steal = (
            *map(int, amounts[:8]),
            *[0] * (8 - len(amounts[:8])),
        )
        # guest time is included in user time
        busy, stolen = user + nice + system + irq + softirq, steal
    return None if busy is None or not cpus else (cpus, busy, stolen)


def _fields(text: str) -> dict[str, int]:
    """`Name:  N kB` lines."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        value = whole_number(words[0]) if words else None
        if value is not None:
            found[name] = value
    return found


def network_bytes(text: str, every: bool = False) -> tuple[int, int] | None:
    """Bytes received and sent over the devices of net/dev: those of this machine's uplink, or `every` one but the
    loopback.
    """
    received = sent = 0
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if not colon or len(words) < 9:
            return None
        received_bytes, sent_bytes = whole_number(words[0]), whole_number(words[8])
        if received_bytes is None or sent_bytes is None:
            return None
        name = name.strip()
        if name == "lo" or (not every and _VIRTUAL_NETWORK.fullmatch(name)):
            continue
        received += received_bytes
        sent += sent_bytes
    return received, sent


class DiskUse(NamedTuple):
    """A whole physical disk, MAJOR:MINOR, and what was read from and written to it since the machine's start. A disk
    that serves many requests at once is busy long before it can do no more.
    """

    number: str
    read_bytes: int
    written_bytes: int
    busy_us: int = 0  # time in which it had requests


def used_disks(text: str) -> tuple[DiskUse, ...] | None:
    """The whole physical disks that were ever used, the busiest first; None where a line is not of diskstats' form."""
    found: list[DiskUse] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 10:
            return None
        read_sectors, written_sectors = whole_number(words[5]), whole_number(words[9])
        if read_sectors is None or written_sectors is None:
            return None
        if _VIRTUAL_DISK.fullmatch(words[2]) or _PARTITION.fullmatch(words[2]):
            continue
        if read_sectors or written_sectors:
            sizes = (read_sectors * SECTOR_BYTES, written_sectors * SECTOR_BYTES)
            busy_ms = whole_number(words[12]) if len(words) > 12 else None
            found.append(DiskUse(f"{words[0]}:{words[1]}", *sizes, (busy_ms or 0) * 1000))
    return tuple(sorted(found, key=lambda disk: (-disk.read_bytes - disk.written_bytes, disk.number)))
