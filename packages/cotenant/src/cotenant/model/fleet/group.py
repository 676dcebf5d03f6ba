"""A group of containers under way:

The plan that is written down before the first container is made, and how far it has to go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from cotenant.model.fleet.template import ContainerTemplate


class Step(IntEnum):
    """How far one container is, as its host sees it."""

    ABSENT = 0
    RESERVED = 1  # room and ports are kept for it
    CREATED = 2
    RUNNING = 3
    READY = 4
    ENDED = 5  # it ran and has ended by itself


class Goal(StrEnum):
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

    `done`: the goal was reached. `reason`: why it is to go.
    """

    name: str
    containers: tuple[PlannedContainer, ...]
    goal: Goal
    epoch: int
    owner: str  # the controller that brings it there
    digest: str = ""  # of the template
    key: str = ""  # of the request
    done: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """How it ended: appkey -> guid where all are ready, `reason` and what is left otherwise."""

    name: str
    guids: Mapping[str, str]
    reason: str = ""
    left: tuple[str, ...] = ()  # "guid on host: why"
