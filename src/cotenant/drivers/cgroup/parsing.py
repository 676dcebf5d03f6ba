"""Parsing of a cgroup's statistics files.

Problem: hundreds of small texts per second, on a machine whose CPU time belongs to its workloads, and any text may be truncated or garbage. Choice: a
field is searched for in the bytes instead of splitting all of them, and counts only where white space follows the number. Limits: None = missing or not
a number; the caller decides what that means.

Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/{memory,cpuacct,blkio-controller}.rst; sched-bwc.rst.
"""

from __future__ import annotations

from typing import NamedTuple

_SPACE = b" \n"


def number(text: bytes) -> int | None:
    """A file that is one number and a line feed. "max" is None."""
    digits = text[:-1]
    return int(digits) if text.endswith(b"\n") and digits.isdigit() else None


def field(text: bytes, key: bytes) -> int | None:
    """The number of the line `KEY NUMBER`. `key` ends with a space."""
    at = 0 if text.startswith(key) else text.find(b"\n" + key) + 1
    if at == 0 and not text.startswith(key):
        return None
    start = at + len(key)
    end = text.find(b"\n", start)
    digits = text[start:end]
    return int(digits) if end >= 0 and digits.isdigit() else None


def total(text: bytes, *keys: bytes) -> int | None:
    """Sum over the lines that exist; None if there are none."""
    found = [value for key in keys if (value := field(text, key)) is not None]
    return sum(found) if found else None


class Moved(NamedTuple):
    """Bytes over all devices."""

    read_bytes: int
    written_bytes: int


def io_stat(text: bytes) -> Moved | None:
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
                if not digits.isdigit():
                    return None
                if name == b"rbytes":
                    read += int(digits)
                else:
                    written += int(digits)
    return Moved(read, written)


def throttle_bytes(text: bytes) -> Moved | None:
    """v1's blkio.throttle.io_service_bytes: `MAJ:MIN Read N`, `MAJ:MIN Write N`, and sums."""
    read = written = 0
    if not text.endswith(b"\n"):
        return None
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in (b"Read", b"Write"):
            if not words[2].isdigit():
                return None
            if words[1] == b"Read":
                read += int(words[2])
            else:
                written += int(words[2])
        elif not words or words[-1:] == [b""] or not words[-1].isdigit():
            return None
    return Moved(read, written)


def cpu_max_m(text: bytes) -> tuple[bool, int | None]:
    """v2's cpu.max as milli-CPU: (readable, limit)."""
    words = text.split()
    if not text.endswith(b"\n") or len(words) != 2 or not words[1].isdigit() or int(words[1]) == 0:
        return False, None
    if words[0] == b"max":
        return True, None
    return (True, int(words[0]) * 1000 // int(words[1])) if words[0].isdigit() else (False, None)


def cfs_m(quota: bytes, period: bytes) -> tuple[bool, int | None]:
    """v1's quota and period as milli-CPU: (readable, limit)."""
    period_us = number(period)
    if not period_us or not quota.endswith(b"\n"):
        return False, None
    if quota.startswith(b"-"):
        return True, None
    quota_us = number(quota)
    return (False, None) if quota_us is None else (True, quota_us * 1000 // period_us)
