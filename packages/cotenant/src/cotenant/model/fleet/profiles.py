"""Stacks of a container's programs, as they are asked for over the bus."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.stacks import Stack, StackTimeline

MAX_SECONDS, MAX_RATE_HZ = 60, 1000


@dataclass(frozen=True, slots=True)
class Profile:
    """Sample the programs of a container. Answered by `Profiled`."""

    guid: str
    seconds: int = 10
    rate_hz: int = 100
    with_idle: bool = False
    over_time: bool = False  # a timeline instead of counts, of Python programs only

    def __post_init__(self) -> None:
        if not 1 <= self.seconds <= MAX_SECONDS:
            raise InvalidInput("seconds", self.seconds, f"1 to {MAX_SECONDS}")
        if not 1 <= self.rate_hz <= MAX_RATE_HZ:
            raise InvalidInput("rate_hz", self.rate_hz, f"1 to {MAX_RATE_HZ}")


@dataclass(frozen=True, slots=True)
class Profiled:
    """`stacks`: those with the most samples, as many as a message holds. `left_out`: samples of the others. `timeline`:
    its beginning, as much as a message holds. `notes`: what they do not tell.
    """

    pids: tuple[int, ...]
    at_s: float
    stacks: tuple[Stack, ...]
    left_out: int = 0
    timeline: StackTimeline | None = None
    notes: tuple[str, ...] = ()
