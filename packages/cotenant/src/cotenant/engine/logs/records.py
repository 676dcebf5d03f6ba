"""Records of container runtimes' log files.

Docker's json-file: {"log":"text\\n","stream":"stdout","time":"2026-01-01T00:00:00.123456789Z"}, a record whose text
does not end in a line break is continued by the next one of its stream. CRI (containerd, CRI-O; podman's k8s-file):
TIME STREAM TAG TEXT, TAG is P where it is continued and F where it ends.

Source: moby, daemon/logger/jsonfilelog; Kubernetes, "CRI: Log management for container stdout/stderr streams".
"""

from __future__ import annotations

from calendar import timegm
from functools import lru_cache
from typing import NamedTuple

import msgspec

_ZONE_AT = 19  # behind 2026-01-01T00:00:00


class ContainerLogRecord(NamedTuple):
    """One record; `is_partial`: its line goes on."""

    at_ns: int
    stream: str
    text: str
    is_partial: bool


class _Docker(msgspec.Struct):
    log: str = ""
    stream: str = "stdout"
    time: str = ""


_docker = msgspec.json.Decoder(_Docker).decode


def parse_record(line: bytes) -> ContainerLogRecord | None:
    """The record of either form; None where it is neither."""
    try:
        if line.startswith(b"{"):
            found = _docker(line)
            text = found.log
            if text.endswith("\n"):
                return ContainerLogRecord(unix_ns(found.time), found.stream, text[:-1], False)
            return ContainerLogRecord(unix_ns(found.time), found.stream, text, True)
        at, stream, tag, text = line.decode("utf-8", "replace").split(" ", 3)
        if stream not in ("stdout", "stderr"):
            return None
        return ContainerLogRecord(unix_ns(at), stream, text, tag[0] == "P")
    except (ValueError, IndexError):
        return None


def unix_ns(text: str) -> int:
    """Nanoseconds of an RFC 3339 time. Raises `ValueError`."""
    whole, rest = _seconds(text[:_ZONE_AT]), text[_ZONE_AT:]
    if rest.endswith("Z"):
        digits, offset_s = rest[1:-1], 0
    else:
        digits, offset_s = rest[1:-6], _offset_s(rest[-6:])
    fraction = int(digits[:9].ljust(9, "0")) if digits else 0
    return (whole - offset_s) * 1_000_000_000 + fraction


@lru_cache(64)
def _seconds(text: str) -> int:
    day, _, time = text.partition("T")
    year, month, date = day.split("-")
    hour, minute, second = time.split(":")
    return timegm((int(year), int(month), int(date), int(hour), int(minute), int(second)))


@lru_cache(64)
def _offset_s(zone: str) -> int:
    if len(zone) != 6 or zone[0] not in "+-" or zone[3] != ":":
        raise ValueError(f"zone {zone!r}")
    return (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[4:]) * 60)
