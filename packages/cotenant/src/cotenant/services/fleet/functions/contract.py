"""What a function of an agent is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import HostContainer
from cotenant.services.fleet.rpc import RpcVerb


@dataclass(slots=True)
class Beat:
    """A heartbeat in the making; functions fill it one after another, in the order of `FUNCTIONS`."""

    load: float = 0.0
    cpu_milli: int = 0
    memory_bytes: int = 0
    containers: dict[str, HostContainer] = field(default_factory=dict)  # by guid
    exporters: list[str] = field(default_factory=list)  # HOST:PORT of what Prometheus may scrape


class Function(Protocol):
    """One function. Its verbs are refused while it is off."""

    @property
    def name(self) -> str:
        """As in the configuration's `functions`."""
        ...

    @property
    def verbs(self) -> Mapping[str, RpcVerb]:
        """What it answers to; the same from its making on."""
        ...

    @property
    def fault(self) -> str:
        """What keeps it from working; empty while nothing does."""
        ...

    def configure(self, configuration: AgentConfiguration) -> None:
        """Use these settings from now on."""
        ...

    async def start(self) -> None:
        """It was switched on. Raises `CotenantError` where it cannot work at all; it is tried again later."""
        ...

    async def stop(self) -> None:
        """It was switched off, or the agent ends: containers go on running, and what expires is left to expire."""
        ...

    async def add_to(self, beat: Beat) -> None:
        """Add what it knows to the next heartbeat; must not wait long."""
        ...
