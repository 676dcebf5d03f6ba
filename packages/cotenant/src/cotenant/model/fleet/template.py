"""A group of containers as it is asked for: what to run, in which order, with how much of a host."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.cluster.pod import HostPort
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.identity import check_name

_MAX_CONTAINERS = 100
_MAX_PORTS = 100
_EVERY_ADDRESS = ("", "0.0.0.0", "::")
_VOLUME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,200}")  # what is not this would be a path to Docker


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of the host that reaches one of the container. `address`: of the host; empty: every one."""

    host: int
    container: int
    protocol: str = "tcp"
    address: str = ""

    def __post_init__(self) -> None:
        for name, port in (("host", self.host), ("container", self.container)):
            if not 1 <= port <= 65535:
                raise InvalidInput(f"port on the {name}", port, "1 to 65535")
        if self.protocol not in ("tcp", "udp"):
            raise InvalidInput("protocol", self.protocol, "tcp or udp")
        if self.address:
            try:
                ipaddress.ip_address(self.address)
            except ValueError:
                raise InvalidInput("address", self.address, "an IP address of the host, as 127.0.0.1") from None

    def __str__(self) -> str:
        return f"{_before_port(self.address)}{self.host}:{self.container}/{self.protocol}"

    @property
    def taken(self) -> str:
        """What it takes on the host, as 8080/tcp, 127.0.0.1:8080/tcp or [::1]:8080/tcp."""
        address = "" if self.address in _EVERY_ADDRESS else self.address
        return f"{_before_port(address)}{self.host}/{self.protocol}"


def host_port(taken: str) -> HostPort:
    """A port of `PortMapping.taken`. Raises `ValueError`."""
    place, _, protocol = taken.rpartition("/")
    address, _, number = place.rpartition(":")
    return HostPort(int(number), protocol.upper(), address.strip("[]"))


def _before_port(address: str) -> str:
    return f"[{address}]:" if ":" in address else f"{address}:" * bool(address)


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host in the container, or a named volume of the host's runtime.

    `is_made`: a folder that is not there is made. `is_external`: a volume that has to be there.
    """

    source: str  # an absolute path, or the volume's name
    target: str
    is_volume: bool = False
    is_read_only: bool = False
    is_made: bool = False
    is_external: bool = False

    def __post_init__(self) -> None:
        for name, path in (("source", self.source), ("target", self.target)):
            if ":" in path or "\0" in path:
                raise InvalidInput(f"{name} of a mount", path, "a path without a colon")
        if self.is_volume and not _VOLUME.fullmatch(self.source):
            raise InvalidInput("name of a volume", self.source, "letters, digits, -, _ and .")
        if not self.is_volume and not self.source.startswith("/"):
            raise InvalidInput("source of a mount", self.source, "an absolute path")
        if not self.target.startswith("/") or not self.target.strip("/"):
            raise InvalidInput("target of a mount", self.target, "an absolute path below / in the container")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A command inside the container that says whether it is ready.

    Times in seconds; `test` as in compose files (CMD or CMD-SHELL first).
    """

    test: tuple[str, ...]
    interval_s: float = 30.0
    timeout_s: float = 30.0
    start_period_s: float = 0.0
    retries: int = 3


@dataclass(frozen=True, slots=True)
class ContainerTemplate:
    """One container of a group. `after`: appkeys that are ready before this one starts."""

    appkey: str
    image: str
    command: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[PortMapping, ...] = ()
    after: tuple[str, ...] = ()
    cpu_milli: int = 0  # requested, for placement
    memory_bytes: int = 0
    cpu_limit_milli: int = 0  # 0: none
    memory_limit_bytes: int = 0
    stop_grace_s: int = 10  # from SIGTERM to SIGKILL
    restart: str = "no"  # by Docker, or by the agent where the runtime does not: no, always, unless-stopped, on-failure
    max_restarts: int = 0  # of on-failure; 0: any number
    health: HealthCheck | None = None
    network: str = ""  # "": the runtime's usual one; host
    host_tags: tuple[str, ...] = ()  # it runs on hosts with all of these
    mounts: tuple[Mount, ...] = ()

    def __post_init__(self) -> None:
        if len(self.ports) > _MAX_PORTS:
            raise InvalidInput(
                f"{self.appkey}: ports", len(self.ports), f"at most {_MAX_PORTS} ports", "network_mode: host has all"
            )
        targets = [mount.target.rstrip("/") for mount in self.mounts]
        if len(set(targets)) < len(targets):
            raise InvalidInput(f"{self.appkey}: volumes", ", ".join(targets), "a target of its own for each")


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    """All of these, or none."""

    name: str
    containers: tuple[ContainerTemplate, ...]

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if not 1 <= len(self.containers) <= _MAX_CONTAINERS:
            raise InvalidInput("containers", len(self.containers), f"1 to {_MAX_CONTAINERS} containers")
        known: set[str] = set()
        for container in self.containers:
            if check_name("appkey", container.appkey) in known:
                raise InvalidInput("appkey", container.appkey, "a name that no other container of the group has")
            known.add(container.appkey)
        for container in self.containers:
            for name in container.after:
                if name not in known:
                    raise InvalidInput(f"{container.appkey}: starts after", name, "a container of the group")
        start_order(self.containers)


def start_order(containers: tuple[ContainerTemplate, ...]) -> tuple[str, ...]:
    """Appkeys, each behind those that it starts after. Raises `InvalidInput` for a circle."""
    left, order = {container.appkey: set(container.after) for container in containers}, []
    while left:
        free = [appkey for appkey, after in left.items() if not after]
        if not free:
            raise InvalidInput("order of starts", ", ".join(left), "no circle", "these wait for one another")
        for appkey in free:
            del left[appkey]
        for after in left.values():
            after.difference_update(free)
        order += free
    return tuple(order)
