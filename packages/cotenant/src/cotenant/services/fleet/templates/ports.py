"""Ports of templates: HOST:CONTAINER with an address, ranges, and Compose's long form."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import PortMapping
from cotenant.services.fleet.templates import values

_FORM = re.compile(r"(?:(?P<address>\[[^\]]*\]|[^:\[\]]*):(?=[^:]*:))?(?:(?P<host>[^:]*):)?(?P<container>[^:]*)")
_EXPECTED = "HOST:CONTAINER, as 8080:80, 127.0.0.1:8080:80 or 8000-8003:80-83"
_LONG = ("target", "published", "host_ip", "protocol", "mode", "name", "app_protocol")
_MODES = ("host", "ingress")


def ports(where: str, given: object, *, are_chosen: bool = False) -> tuple[PortMapping, ...]:
    """[ADDRESS:]HOST:CONTAINER[/udp], also of ranges, one port for both, a mapping of them, or Compose's long form.

    `are_chosen`: one port alone would be the container's, and the host's any that is free; that is refused.
    """
    if given is None:
        return ()
    if isinstance(given, Mapping):
        given = [f"{host}:{container}" for host, container in given.items()]
    if not isinstance(given, list):
        given = [given]
    return tuple(port for value in given for port in _ports(where, value, is_chosen=are_chosen))


def _ports(where: str, given: object, *, is_chosen: bool) -> list[PortMapping]:
    if isinstance(given, Mapping):
        values.refuse_unknown(where, given, _LONG)
        if "target" not in given or not given.get("published"):
            raise InvalidInput(where, given, "target and published", "no port of the host is chosen here")
        mode = values.text(f"{where}.mode", given.get("mode", "host"))
        if mode not in _MODES:
            raise InvalidInput(f"{where}.mode", mode, " or ".join(_MODES))
        target = values.number(f"{where}.target", given["target"], "one port number")
        protocol = values.text(f"{where}.protocol", given.get("protocol", "tcp"))
        return _paired(
            where, given, (str(given["published"]), str(target), protocol, values.text(where, given.get("host_ip", "")))
        )
    said, _, protocol = values.text(where, given).partition("/")
    form = _FORM.fullmatch(said)
    if form is None:
        raise InvalidInput(where, given, _EXPECTED, "an address of IPv6 stands in brackets")
    if form["host"] is None and is_chosen:
        raise InvalidInput(where, given, "HOST:CONTAINER", "no port of the host is chosen here")
    host = form["container"] if form["host"] is None else form["host"]
    if not host:
        raise InvalidInput(where, given, "ADDRESS:HOST:CONTAINER", "no port of the host is chosen here")
    return _paired(where, given, (host, form["container"], protocol or "tcp", form["address"] or ""))


def _paired(where: str, given: object, parts: tuple[str, str, str, str]) -> list[PortMapping]:
    host, container, protocol, address = parts
    hosts, containers = _range(where, host), _range(where, container)
    if len(hosts) != len(containers):
        hint = "no port of the host is chosen here" if len(containers) == 1 else ""
        raise InvalidInput(where, given, "as many ports of the host as of the container", hint)
    found = address.removeprefix("[").removesuffix("]") if address.startswith("[") else address
    return [PortMapping(*pair, protocol, found) for pair in zip(hosts, containers, strict=True)]


def _range(where: str, given: str) -> range:
    first, dash, last = given.partition("-")
    start = values.number(where, first, "a port number, or a range as 8000-8003")
    end = values.number(where, last, "a port number, or a range as 8000-8003") if dash else start
    if end < start:
        raise InvalidInput(where, given, "a range that begins with its lower port")
    return range(start, end + 1)
