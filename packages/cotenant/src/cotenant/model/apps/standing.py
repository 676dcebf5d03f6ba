"""How an object of a release stands: what it wants, what is ready, and why not."""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.model.apps.objects import ObjectRef


@dataclass(frozen=True, slots=True)
class ObjectStanding:
    """One object. `failed`: it will not become ready by waiting; `reasons` say what it waits for, or why it failed."""

    ready: int
    wanted: int
    is_ready: bool
    failed: str = ""
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.ready}/{self.wanted}"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a release from being ready, in words for a person."""

    ref: ObjectRef
    why: str

    def __str__(self) -> str:
        return f"{self.ref}: {self.why}"
