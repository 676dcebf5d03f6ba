"""What an agent does for a container whose runtime does it not: restarts and health checks."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.fleet.template import HealthCheck


@dataclass(frozen=True, slots=True)
class Supervision:
    """Of one container, as its template says."""

    restart: str = "no"  # no, always, unless-stopped, on-failure
    max_restarts: int = 0  # of on-failure; 0: any number
    health: HealthCheck | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.restart != "no" or self.health is not None


@dataclass(frozen=True, slots=True)
class SupervisedContainer:
    """The last of a name's attempts, as the runtime tells it. Times are Unix time; 0: not yet."""

    name: str
    id: str
    attempt: int  # 0: the one that was asked for; else so many restarts
    status: str  # created, running, exited
    exit_code: int
    started_s: float
    finished_s: float
    quick_ends: int  # attempts in a row that ended soon, before this one
    is_held: bool  # it was asked to stop, or its pod has ended: it is not started again
    supervision: Supervision
