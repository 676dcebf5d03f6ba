"""Who may do what in a fleet: a file of the controllers' that names hosts with their tags, and operators with verbs and
tags.

A host's tags are believed here only, never from its own registration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.identity import check_guid, check_name
from cotenant.model.fleet.methods import check_method
from cotenant.model.fleet.refusal import FleetForbidden
from cotenant.model.fleet.terminals import EXEC

ALL = "*"
READING = ("list", "inspect", "top", "methods")
CHANGING = ("up", "down", "restart", "limit", "experiment", "configure", "call", EXEC)
VERBS = (*READING, "logs", "profile", *CHANGING)
ONE_METHOD = "call:"  # and a method's name: that one method of programs


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A host that may join, by its agent's guid. `gateway`: its agent may hear all heartbeats, and ask who speaks."""

    guid: str
    tags: tuple[str, ...] = ()
    gateway: bool = False

    def __post_init__(self) -> None:
        check_guid("hosts.guid", self.guid)


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """A program that may answer under a guid of its own. `tags`: as a host's, for the rights of operators."""

    guid: str
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_guid("programs.guid", self.guid)


@dataclass(frozen=True, slots=True)
class FleetOperator:
    """Somebody who asks controllers. `tags`: the hosts on which they may act, those with any of these; `*` is all."""

    name: str
    verbs: tuple[str, ...] = READING
    tags: tuple[str, ...] = (ALL,)

    def __post_init__(self) -> None:
        check_name("operators.name", self.name)
        for verb in self.verbs:
            if verb.startswith(ONE_METHOD):
                check_method(verb.removeprefix(ONE_METHOD))
            elif verb not in (*VERBS, ALL):
                known = ", ".join((*VERBS, f"{ONE_METHOD}METHOD", ALL))
                raise InvalidInput(f"operators.{self.name}.verbs", verb, f"one of {known}")

    def may(self, verb: str) -> bool:
        """Whether this verb is granted; `call` is all methods."""
        return not {verb, verb.partition(":")[0], ALL}.isdisjoint(self.verbs)


@dataclass(frozen=True, slots=True)
class Lan:
    """Hosts of one network that reach the fleet through a NATS server of their own, a leaf node, at `listen`.

    `server`: names and addresses by which they reach it.
    """

    name: str
    hosts: tuple[str, ...]  # guids of agents
    listen: str = "0.0.0.0:4222"
    server: tuple[str, ...] = ("localhost", "127.0.0.1")

    def __post_init__(self) -> None:
        check_name("lans.name", self.name)


@dataclass(frozen=True, slots=True)
class FleetFile:
    """The file. `controllers`: names of controllers, each with a key of its own."""

    hosts: tuple[HostEntry, ...] = ()
    operators: tuple[FleetOperator, ...] = ()
    controllers: tuple[str, ...] = ("controller",)
    lans: tuple[Lan, ...] = ()
    programs: tuple[ProgramEntry, ...] = ()

    def __post_init__(self) -> None:
        for name in self.controllers:
            check_name("controllers", name)
        for field, names in (
            ("hosts.guid", [host.guid for host in self.hosts]),
            ("programs.guid", [program.guid for program in self.programs]),
            ("operators.name", [operator.name for operator in self.operators]),
            ("controllers", list(self.controllers)),
            ("lans.name", [lan.name for lan in self.lans]),
            ("lans.hosts", [guid for lan in self.lans for guid in lan.hosts]),
        ):
            for name in names:
                if names.count(name) > 1:
                    raise InvalidInput(field, name, "each name once")
        known = {host.guid for host in self.hosts}
        for lan in self.lans:
            for guid in lan.hosts:
                if guid not in known:
                    raise InvalidInput(f"lans.{lan.name}.hosts", guid, "the guid of one of `hosts`")

    def check(self, operator: str, verb: str, agents: Iterable[str] = ()) -> None:
        """Raises `FleetForbidden` where this operator may not do this on all these agents."""
        entry = next((element for element in self.operators if element.name == operator), None)
        if entry is None:
            raise FleetForbidden(f"{operator} is no operator of this fleet")
        if not entry.may(verb):
            raise FleetForbidden(f"{operator} may not {verb}; granted are {', '.join(entry.verbs) or 'no verbs'}")
        for guid in agents:
            if not self.reaches(entry, guid):
                raise FleetForbidden(
                    f"{operator} may not {verb} on {guid}: it has none of the tags {', '.join(entry.tags)}"
                )

    def reaches(self, operator: FleetOperator, agent: str) -> bool:
        """Whether an operator's tags include this agent's host, or this program."""
        if ALL in operator.tags:
            return True
        known: list[HostEntry | ProgramEntry] = [*self.hosts, *self.programs]
        tags = next((found.tags for found in known if found.guid == agent), ())
        return any(tag in operator.tags for tag in tags)
