"""The string formats that a structural schema may require. An unknown format is not checked.

Source: Kubernetes documentation of CustomResourceDefinition validation (the formats that are checked).
"""

from __future__ import annotations

import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

_HOSTNAME = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*\.?"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_MAC = re.compile(r"(?i)[0-9a-f]{2}([:-][0-9a-f]{2}){5}([:-][0-9a-f]{2}){0,2}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_DURATION = re.compile(
    r"[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*)"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def _date_time(text: str) -> bool:
    if not _TIME.fullmatch(text):
        return False
    datetime.fromisoformat(text[:19])
    return True


def _date(text: str) -> bool:
    date.fromisoformat(text)
    return bool(_DAY.fullmatch(text))


def _byte(text: str) -> bool:
    binascii.a2b_base64(text.encode(), strict_mode=True)
    return True


def _uri(text: str) -> bool:
    return bool(urlsplit(text).scheme) or text.startswith("/")


FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _date_time,
    "datetime": _date_time,
    "date": _date,
    "byte": _byte,
    "uri": _uri,
    "email": lambda text: bool(_EMAIL.fullmatch(text)),
    "hostname": lambda text: len(text) <= 255 and bool(_HOSTNAME.fullmatch(text)),
    "ipv4": lambda text: ipaddress.IPv4Address(text) is not None,
    "ipv6": lambda text: ipaddress.IPv6Address(text) is not None,
    "cidr": lambda text: "/" in text and ipaddress.ip_network(text, strict=False) is not None,
    "mac": lambda text: bool(_MAC.fullmatch(text)),
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
    "duration": lambda text: bool(_DURATION.fullmatch(text)),
}


def fits(text: str, name: str) -> bool:
    """Whether a string has a format."""
    check = FORMATS.get(name)
    if check is None:
        return True
    try:
        return check(text)
    except ValueError:
        return False
