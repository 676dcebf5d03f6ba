"""Who asks for a change, and whether they have a right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from cotenant.drivers.http.messages import HttpAnswer, Receive, Scope
from cotenant.services.console.access import Right


@dataclass(frozen=True, slots=True)
class Asker:
    """A viewer who sent something."""

    viewer: str
    has: Callable[[Right], Awaitable[bool]]


class Posts(Protocol):
    """A part of the page that takes what viewers send."""

    def takes(self, method: str, path: str) -> bool:
        """Whether it is for this part, be it switched on or not."""
        ...

    async def answer(self, scope: Scope, receive: Receive, asker: Asker) -> HttpAnswer | None:
        """The answer; None where the viewer is gone."""
        ...
