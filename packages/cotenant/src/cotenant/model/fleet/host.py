"""What an agent says of its host: once when it registers, and with each heartbeat."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.fleet.states import ContainerState


@dataclass(frozen=True, slots=True)
class Registration:
    """A host and its agent.

    Tags are the host's own word: searched by, never a right (rights name hosts in a file of the controller's).
    """

    guid: str
    hostname: str
    version: str
    role: str = "edge"
    platform: str = "docker"
    region: str = ""
    namespace: str = "default"
    tags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()  # verbs that it answers
    cpu_milli: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Registered:
    """The controller's answer:

    The configuration for the agent's role and platform, as JSON; revision 0 where there is none.
    """

    revision: int = 0
    configuration: str = ""


@dataclass(frozen=True, slots=True)
class HostContainer:
    """One container of the fleet, with what its labels say of its group."""

    guid: str
    state: ContainerState
    image: str = ""
    group: str = ""
    appkey: str = ""
    detail: str = ""  # why it failed
    cpu_request_milli: int = 0
    memory_request_bytes: int = 0
    host_ports: tuple[str, ...] = ()  # as 8080/tcp
    cpu_milli: int | None = None  # used now
    memory_bytes: int | None = None
    limits: tuple[str, ...] = ()  # held now, as cpu=2


@dataclass(frozen=True, slots=True)
class FunctionHealth:
    """Of one function of an agent."""

    name: str
    is_on: bool
    fault: str = ""  # empty: healthy
    is_starting: bool = False  # asked for, and not begun yet


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Each second. `number` counts up from the agent's start (`started_s`, Unix time):

    An older one that comes late is ignored.
    """

    guid: str
    number: int
    started_s: float
    every_s: float = 1.0  # between two
    revision: int = 0  # of its configuration
    refused: tuple[str, ...] = ()  # why a newer configuration was not applied
    load: float = 0.0
    cpu_milli: int = 0  # used now
    memory_bytes: int = 0
    containers: tuple[HostContainer, ...] = ()
    functions: tuple[FunctionHealth, ...] = field(default=())
    exporters: tuple[str, ...] = ()  # HOST:PORT of what Prometheus may scrape
