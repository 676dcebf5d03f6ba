"""States of agents and containers, and the legal changes between them."""

from __future__ import annotations

from enum import StrEnum


class AgentState(StrEnum):
    """By heartbeats alone."""

    ALIVE = "alive"
    SUSPECT = "suspect"  # 3 heartbeats missed
    AWAY = "away"  # 10 missed: what its containers do is unknown


class ContainerState(StrEnum):
    """What a container of the fleet does."""

    PENDING = "Pending"  # created, or running and not yet healthy
    READY = "Ready"
    STOPPING = "Stopping"
    TERMINATED = "Terminated"  # stopped on request, or ended with status 0
    FAILED = "Failed"
    UNKNOWN = "Unknown"  # its agent is away

    @property
    def is_running(self) -> bool:
        """Whether it may have a process."""
        return self in (ContainerState.PENDING, ContainerState.READY, ContainerState.STOPPING, ContainerState.UNKNOWN)


_C = ContainerState
LEGAL: dict[ContainerState, frozenset[ContainerState]] = {
    _C.PENDING: frozenset({_C.READY, _C.STOPPING, _C.TERMINATED, _C.FAILED, _C.UNKNOWN}),
    _C.READY: frozenset({_C.PENDING, _C.STOPPING, _C.TERMINATED, _C.FAILED, _C.UNKNOWN}),
    _C.STOPPING: frozenset({_C.TERMINATED, _C.FAILED, _C.UNKNOWN}),
    _C.TERMINATED: frozenset({_C.PENDING, _C.UNKNOWN}),  # the runtime started it again
    _C.FAILED: frozenset({_C.PENDING, _C.STOPPING, _C.TERMINATED, _C.UNKNOWN}),
    _C.UNKNOWN: frozenset(set(_C) - {_C.UNKNOWN}),  # whatever its agent says when it is back
}


def is_legal(before: ContainerState, after: ContainerState) -> bool:
    """Whether a container may change from one to the other at once."""
    return before is after or after in LEGAL[before]
