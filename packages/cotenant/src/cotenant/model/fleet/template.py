"""A group of containers as it is asked for: what to run, in which order, with how much of a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.identity import check_name

_MAX_CONTAINERS = 100


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of the host that reaches one of the container."""

    host: int
    container: int
    protocol: str = "tcp"

    def __post_init__(self) -> None:
        for name, port in (("host", self.host), ("container", self.container)):
            if not 1 <= port <= 65535:
                raise InvalidInput(f"port on the {name}", port, "1 to 65535")
        if self.protocol not in ("tcp", "udp"):
            raise InvalidInput("protocol", self.protocol, "tcp or udp")

    def __str__(self) -> str:
        return f"{self.host}:{self.container}/{self.protocol}"

    @property
    def taken(self) -> str:
        """What it takes on the host, as 8080/tcp."""
        return f"{self.host}/{self.protocol}"


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
