"""What agents and controllers are asked over the bus, and what they answer. One type for each verb.

Agents answer on `guid.<guid>.rpc.<verb>`, controllers on `fleet.<operator>.rpc.<verb>`. A container is named by `guid`
inside of a request to its agent: a host that could listen on containers' subjects could listen on those of other hosts,
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.group import ContainerStep, PlannedContainer
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registration
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import GroupTemplate


@dataclass(frozen=True, slots=True)
class Fence:
    """Which group a request is about, and in which epoch: an agent that has seen a higher one refuses it."""

    group: str
    epoch: int


# ---- to agents


@dataclass(frozen=True, slots=True)
class Describe:
    """Who are you? Answered by `Registration`."""


@dataclass(frozen=True, slots=True)
class Configure:
    """Use this configuration (JSON) from now on. Answered by `Configured`."""

    revision: int
    configuration: str


@dataclass(frozen=True, slots=True)
class Configured:
    """`refused`: the reasons; nothing was changed where there are any."""

    revision: int
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """How far are this group's containers here? Answered by `Surveyed`."""

    fence: Fence


@dataclass(frozen=True, slots=True)
class Surveyed:
    """Steps by guid; a guid that is not there is absent."""

    steps: Mapping[str, ContainerStep]


@dataclass(frozen=True, slots=True)
class Make:
    """Keep room (`reserve`), or make the container (`create`). Answered by `Moved`.

    `credentials`: for the bus, of a program in the container; empty: none.
    """

    fence: Fence
    container: PlannedContainer
    credentials: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """`start`, `probe`, `stop`, `remove` or `release` one container. Answered by `Moved`."""

    fence: Fence
    guid: str


@dataclass(frozen=True, slots=True)
class Moved:
    """How far the container is now."""

    step: ContainerStep


@dataclass(frozen=True, slots=True)
class Inspect:
    """All that is known of a container, or of the agent itself where `guid` is empty. Answered by `Inspected`."""

    guid: str = ""


@dataclass(frozen=True, slots=True)
class Inspected:
    """`facts` are lines for people, by name."""

    status: HostContainer | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit a container for `lasts_s` seconds: names and values of model/fleet/limits.py; an empty value gives back.

    `lift`: all that is held first. With neither, nothing changes. Answered by `Limited`.
    """

    guid: str
    limits: Mapping[str, str] = field(default_factory=dict)
    lasts_s: float = 600.0
    lift: bool = False


@dataclass(frozen=True, slots=True)
class Limited:
    """What stands now, as "cpu=2 for 9m59s"."""

    lines: tuple[str, ...]


# ---- to controllers


@dataclass(frozen=True, slots=True)
class List:
    """Hosts and containers, a page. Empty fields select all; `tags`: all of these. Answered by `Listed`."""

    group: str = ""
    tags: tuple[str, ...] = ()
    namespace: str = ""
    name: str = ""  # of the host
    start: int = 0  # the first host of the page


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host as the controller sees it."""

    registration: Registration
    state: AgentState
    silent_s: float  # since its last heartbeat
    beat: Heartbeat | None = None
    is_doubled: bool = False  # two agents speak under this guid, as after a disk was cloned


@dataclass(frozen=True, slots=True)
class Member:
    """A container that a group is to have, whether or not it is there."""

    guid: str
    agent: str
    appkey: str
    image: str = ""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group under way or stored. `members`: only where one group was asked for, those on hosts the asker may see."""

    name: str
    goal: str
    done: bool
    reason: str
    containers: int
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """Hosts with their containers, and groups. `next_start` is where the next page begins; None: this was the last."""

    hosts: tuple[HostRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    next_start: int | None = None


@dataclass(frozen=True, slots=True)
class Up:
    """Start a group. Answered by `GroupOutcome`."""

    template: GroupTemplate


@dataclass(frozen=True, slots=True)
class Down:
    """Remove a group. Answered by `GroupOutcome`."""

    name: str


@dataclass(frozen=True, slots=True)
class Restart:
    """Remove and make a group's containers again, on the same hosts, with the same guids.

    Answered by `GroupOutcome`.
    """

    name: str


@dataclass(frozen=True, slots=True)
class SetConfiguration:
    """Store the configuration of a role and platform, and bring it to all agents of it. Answered by `Spread`."""

    role: str
    platform: str
    configuration: AgentConfiguration


@dataclass(frozen=True, slots=True)
class Spread:
    """The new revision, and which agents refused it, with reasons; those that are away get it when they are back."""

    revision: int
    applied: int
    refused: Mapping[str, str] = field(default_factory=dict)
