"""Containers of a host as its runtime tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """A container in a list. `health`: "", starting, healthy or unhealthy; `exit_code` where it has ended."""

    name: str
    id: str
    image: str
    status: str  # created, running, restarting, paused, removing, exited, dead
    health: str
    exit_code: int | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FleetContainer:
    """One container, inspected."""

    name: str
    id: str
    image: str
    status: str
    health: str
    health_said: str  # the last output of its health check
    exit_code: int
    error: str
    pid: int  # 0: no process
    started_s: float  # Unix time; 0: never started
    restarts: int
    out_of_memory: bool
    log_path: str = ""  # of the runtime's file; empty where its log driver writes none
    log_driver: str = ""
    log_id: str = ""  # what its file belongs to, where that is not the container
    labels: Mapping[str, str] = field(default_factory=dict)
