"""Parsing of a cgroup's statistics files.

Hundreds of small texts per second, on a machine whose CPU time belongs to its workloads, and any text may be truncated
or garbage. A field is searched for in the bytes instead of splitting all of them, and counts only where white space
follows the number.
Limits: None = missing or not a number; the caller decides what that means.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpuacct,blkio-controller}.rst;
sched-bwc.rst.
"""

from __future__ import annotations

from typing import NamedTuple

from cotenant.model.whole_number import whole_number


def number(text: bytes) -> int | None:
    """A file that is one number and a line feed. "max" is None."""
    return whole_number(text[:-1]) if text.endswith(b"\n") else None


def field(text: bytes, key: bytes) -> int | None:
    """The number of the line `KEY NUMBER`. `key` ends with a space."""
    at = 0 if text.startswith(key) else text.find(b"\n" + key) + 1
    if at == 0 and not text.startswith(key):
        return None
    start = at + len(key)
    end = text.find(b"\n", start)
    return whole_number(text[start:end]) if end >= 0 else None


def total(text: bytes, *keys: bytes) -> int | None:
    """Sum over the lines that exist; None if there are none."""
    found = [value for key in keys if (value := field(text, key)) is not None]
    return sum(found) if found else None


class MovedBytes(NamedTuple):
    """Bytes over all devices."""

    read_bytes: int
    written_bytes: int


def io_stat(text: bytes) -> MovedBytes | None:
    """v2's io.stat: `MAJ:MIN rbytes=N wbytes=N ...` per device. A group without I/O has an empty file."""
    read = written = 0
    if text and not text.endswith(b"\n"):
        return None
    for line in text.splitlines():
        words = line.split()
        # the kernel writes only a device's number where it has no counts for it
        for word in words[1:]:
            name, _, digits = word.partition(b"=")
            if name in (b"rbytes", b"wbytes"):
                found = whole_number(digits)
                if found is None:
                    return None
                if name == b"rbytes":
                    read += found
                else:
                    written += found
    return MovedBytes(read, written)


def throttle_bytes(text: bytes) -> MovedBytes | None:
    """v1's blkio.throttle.io_service_bytes: `MAJ:MIN Read N`, `MAJ:MIN Write N`, and sums."""
    read = written = 0
    if not text.endswith(b"\n"):
        return None
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in (b"Read", b"Write"):
            found = whole_number(words[2])
            if found is None:
                return None
            if words[1] == b"Read":
                read += found
            else:
                written += found
        elif not words or words[-1:] == [b""] or not words[-1].isdigit():
            return None
    return MovedBytes(read, written)


def cpu_max_m(text: bytes) -> tuple[bool, int | None]:
    """v2's cpu.max as milli-CPU: (readable, limit)."""
    words = text.split()
    period_us = whole_number(words[1]) if text.endswith(b"\n") and len(words) == 2 else None
    if not period_us:
        return False, None
    if words[0] == b"max":
        return True, None
    quota_us = whole_number(words[0])
    return (False, None) if quota_us is None else (True, quota_us * 1000 // period_us)


def cfs_m(quota: bytes, period: bytes) -> tuple[bool, int | None]:
    """v1's quota and period as milli-CPU: (readable, limit)."""
    period_us = number(period)
    if not period_us or not quota.endswith(b"\n"):
        return False, None
    if quota.startswith(b"-"):
        return True, None
    quota_us = number(quota)
    return (False, None) if quota_us is None else (True, quota_us * 1000 // period_us)
