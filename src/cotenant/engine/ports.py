"""What the engine asks of others: plugins at the extension points that need memory of their own (gangs, quotas).

Names follow the Kubernetes scheduling framework. A row-local filter or score is not here: it is part of a profile. All are called with
the pod's number and must be pure state machines too: no I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of Reserve or Permit: go on (`allow`), or wait until `wait_until_s`, or neither: give the node back because of `reason`.

    `also` names waiting pods that this pod's arrival lets go, `drop` waiting pods that must give their nodes back with it.
    """

    allow: bool
    reason: str = ""
    wait_until_s: float | None = None
    also: tuple[int, ...] = ()
    drop: tuple[int, ...] = ()


ALLOW = Verdict(True)


class Plugin(Protocol):
    """Stateful extension of the cycle. Every method has a neutral answer: True, ALLOW, nothing."""

    name: str

    def pre_enqueue(self, pod: int, now_s: float) -> bool:
        """May the pod enter the queue?"""
        ...

    def reserve(self, pod: int, row: int, now_s: float) -> Verdict:
        """A node was found; claim what else it needs."""
        ...

    def unreserve(self, pod: int, row: int, now_s: float) -> None:
        """Undo `reserve`; called in reverse order of plugins, also for pods that leave."""
        ...

    def permit(self, pod: int, row: int, now_s: float) -> Verdict:
        """May it be bound now?"""
        ...
