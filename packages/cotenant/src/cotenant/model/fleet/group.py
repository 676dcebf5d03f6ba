"""A group of containers under way:

The plan that is written down before the first container is made, and how far it has to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from cotenant.model.fleet.template import ContainerTemplate

_MAX_KEYS = 16


class ContainerStep(IntEnum):
    """How far one container is, as its host sees it."""

    ABSENT = 0
    RESERVED = 1  # room and ports are kept for it
    CREATED = 2
    RUNNING = 3
    READY = 4
    ENDED = 5  # it ran and has ended by itself


class GroupGoal(StrEnum):
    """Where a group is being brought."""

    UP = "up"  # all ready
    AGAIN = "again"  # all removed, then up: a restart
    GONE = "gone"  # nothing left


@dataclass(frozen=True, slots=True)
class PlannedContainer:
    """One container with its guid, and the agent of the host that it is for."""

    guid: str
    agent: str
    template: ContainerTemplate


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """What the controllers share of a group. Whoever changes it raises `epoch`, and agents refuse requests of a lower
    one.

    `done`: the goal was reached. `reason`: why it is to go. `removed`: an operator asked for that, so it is not listed
    once it is gone; the record stays for a while, for who asks again and for the next group's epoch.
    """

    name: str
    containers: tuple[PlannedContainer, ...]
    goal: GroupGoal
    epoch: int
    owner: str  # the controller that brings it there
    digest: str = ""  # of the template
    keys: tuple[str, ...] = ()  # of the last requests: one that comes again, late, acts no second time
    done: bool = False
    reason: str = ""
    removed: bool = False

    @property
    def is_forgotten(self) -> bool:
        """Whether it counts as not there."""
        return self.removed and self.done and self.goal is GroupGoal.GONE

    def keys_with(self, key: str) -> tuple[str, ...]:
        """The last ones, with this one; empty: a request without a key."""
        return (*self.keys, key)[-_MAX_KEYS:] if key else self.keys


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """How it ended: appkey -> guid where all are ready, `reason` and what is left otherwise."""

    name: str
    guids: Mapping[str, str]
    reason: str = ""
    left: tuple[str, ...] = ()  # "guid on host: why"
