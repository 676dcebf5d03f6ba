"""Requests that the controller passes on: about a container or pod to the agent that has it, of methods to programs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import msgspec

from cotenant.drivers.nats.contract import BusMessage
from cotenant.engine.fleet.registry import RegisteredHost
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.fleet.figures import Measure, Measured, Top, TopPage
from cotenant.model.fleet.identity import check_guid
from cotenant.model.fleet.logs import LogPage, ReadLogs
from cotenant.model.fleet.methods import METHODS, Call, Called, MethodList, Methods, check_deadline, check_method
from cotenant.model.fleet.profiles import Profile, Profiled
from cotenant.model.fleet.refusal import FleetForbidden, NobodyAnswers, NoSuchGuid
from cotenant.model.fleet.requests import Limit, Limited
from cotenant.model.fleet.rights import ONE_METHOD
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.terminals import (
    EXEC,
    READ,
    WRITE,
    OpenedTerminal,
    OpenTerminal,
    ReadTerminal,
    TerminalPage,
    WriteTerminal,
    WrittenTerminal,
)
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.controller.searching import Searching
from cotenant.services.fleet.rpc import KEY_HEADER, RpcVerb, call

T = TypeVar("T")
Allow = Callable[..., str]
_FIND_S = 2.0
_TOP_PAGE = 32  # hosts


class Relaying:
    """`allow(message, verb, *agents)`: checks the operator's rights, and returns the name."""

    def __init__(self, controller: FleetController, allow: Allow) -> None:
        self._controller = controller
        self._allow = allow
        self._searching = Searching(controller)

    def verbs(self) -> dict[str, RpcVerb]:
        """By name."""
        return {
            "limit": RpcVerb(Limit, lambda request, message: self._limit("limit", request, message)),
            "experiment": RpcVerb(Limit, lambda request, message: self._limit("experiment", request, message)),
            EXEC: RpcVerb(OpenTerminal, self._open_terminal),
            READ: RpcVerb(ReadTerminal, self._read_terminal),
            WRITE: RpcVerb(WriteTerminal, self._write_terminal),
            "profile": RpcVerb(Profile, self._profile),
            "logs": RpcVerb(ReadLogs, self._logs),
            "top": RpcVerb(Top, self._top),
            "methods": RpcVerb(Methods, self._methods),
            "call": RpcVerb(Call, self._call),
        }

    async def _limit(self, verb: str, request: Limit, message: BusMessage) -> Limited:
        self._allow(message, verb)
        agent = self._controller.registry.agent_for(request.guid)
        self._allow(message, verb, agent)
        if agent == request.guid:
            raise InvalidInput("guid", request.guid, "a container's guid", "this is an agent's")
        key = message.headers.get(KEY_HEADER, "")
        return await call(self._controller.bus, f"guid.{agent}.rpc.{verb}", request, Limited, 15.0, key)

    async def _open_terminal(self, request: OpenTerminal, message: BusMessage) -> OpenedTerminal:
        try:
            return await self._opened(request, message)
        except NoSuchGuid:
            if self._searching.forget_pod(request.guid):  # it may be on another node by now
                return await self._opened(request, message)
            raise

    async def _opened(self, request: OpenTerminal, message: BusMessage) -> OpenedTerminal:
        subject, operator, guid = await self._of_terminal(request.guid, message)
        asked, key = replace(request, guid=guid, operator=operator), message.headers.get(KEY_HEADER, "")
        return await call(self._controller.bus, f"{subject}.{EXEC}", asked, OpenedTerminal, 20.0, key)

    async def _read_terminal(self, request: ReadTerminal, message: BusMessage) -> TerminalPage:
        subject, operator, guid = await self._of_terminal(request.guid, message, request.session)
        asked = replace(request, guid=guid, operator=operator)
        return await call(self._controller.bus, f"{subject}.{READ}", asked, TerminalPage, request.wait_s + 5.0)

    async def _write_terminal(self, request: WriteTerminal, message: BusMessage) -> WrittenTerminal:
        subject, operator, guid = await self._of_terminal(request.guid, message, request.session)
        asked, key = replace(request, guid=guid, operator=operator), message.headers.get(KEY_HEADER, "")
        return await call(self._controller.bus, f"{subject}.{WRITE}", asked, WrittenTerminal, 10.0, key)

    async def _profile(self, request: Profile, message: BusMessage) -> Profiled:
        subject, _ = self._of_container(request.guid, "profile", message)
        key = message.headers.get(KEY_HEADER, "")
        return await call(self._controller.bus, f"{subject}.profile", request, Profiled, request.seconds + 40.0, key)

    async def _of_terminal(self, guid: str, message: BusMessage, session: str = "") -> tuple[str, str, str]:
        """As `_of_container`, with the name by which the agent knows it: a pod's has its namespace and a slash."""
        self._allow(message, EXEC)  # before agents are searched for it
        if "/" not in guid:
            try:
                return *self._of_container(guid, EXEC, message), guid
            except NoSuchGuid:
                pass  # a pod's name, then
        agent, pod = await self._searching.pod(guid, session)
        return f"guid.{agent}.rpc", self._allow(message, EXEC, agent), pod

    def _of_container(self, guid: str, verb: str, message: BusMessage) -> tuple[str, str]:
        """The subject of the container's agent, and the operator, whose right is asked for each time."""
        self._allow(message, verb)
        agent = self._controller.registry.agent_for(guid)
        operator = self._allow(message, verb, agent)
        if agent == guid:
            raise InvalidInput("guid", guid, "a container's guid", "this is an agent's")
        return f"guid.{agent}.rpc", operator

    async def _logs(self, request: ReadLogs, message: BusMessage) -> LogPage:
        self._allow(message, "logs")  # before agents are searched for it
        agent = await self._agent_with_log(request.guid)
        self._allow(message, "logs", agent)
        subject = f"guid.{agent}.rpc.logs"
        return await call(self._controller.bus, subject, request, LogPage, request.wait_s + 15.0)

    async def _methods(self, request: Methods, message: BusMessage) -> MethodList:
        subject = self._program(request.guid, "methods", message)
        return await call(self._controller.bus, f"{subject}.{METHODS}", Methods(), MethodList, _FIND_S)

    async def _call(self, request: Call, message: BusMessage) -> Called:
        deadline_s = check_deadline("deadline_s", request.deadline_s)
        method = check_method(request.method)
        program = self._program(request.guid, f"{ONE_METHOD}{method}", message)
        subject = f"{program}.{method}"
        key = message.headers.get(KEY_HEADER, "")
        try:
            answer = await call(self._controller.bus, subject, request.arguments, msgspec.Raw, deadline_s, key)
        except NobodyAnswers:  # for this method; the program may be there
            found = await call(self._controller.bus, f"{program}.{METHODS}", Methods(), MethodList, _FIND_S)
            known = [method.name for method in found.methods]
            if request.method in known:  # the program comes or goes
                raise Transient(f"{request.guid} does not answer for {request.method} just now; ask again") from None
            raise InvalidInput("method", request.method, "one of " + ", ".join(known)) from None
        return Called(answer)

    def _program(self, guid: str, verb: str, message: BusMessage) -> str:
        """The subject of a program's verbs, where the operator may do this.

        An agent's verbs are never reached in this way: they have rights of their own.
        """
        rights = self._controller.settings.rights
        programs = [] if rights is None else [program.guid for program in rights.programs]
        hosts = [] if rights is None else [host.guid for host in rights.hosts]
        self._allow(message, verb)
        check_guid("guid", guid)
        try:
            judged = guid if guid in programs else self._controller.registry.agent_for(guid)
        except NoSuchGuid:
            judged = guid  # no container of an agent: it has no tags
        self._allow(message, verb, judged)
        if guid in hosts or self._controller.registry.has(guid):
            raise InvalidInput("guid", guid, "a program's guid", "this is an agent's")
        return f"guid.{guid}.rpc"

    async def _top(self, request: Top, message: BusMessage) -> TopPage:
        self._allow(message, "top")
        found = self._controller.registry.select(request.tags, "", request.host)
        found = [host for host in found if self._may_see(message, host.registration.guid)]
        found.sort(key=lambda host: host.registration.guid)  # pages of several controllers fit together
        asked = found[request.start : request.start + _TOP_PAGE]
        answers = await asyncio.gather(*(self._measured(host, request.group) for host in asked))
        hosts = [answer for answer in answers if isinstance(answer, Measured)]
        end = request.start + len(asked)
        return TopPage(
            tuple(answer for answer in hosts if answer.containers or not request.group),
            tuple(answer for answer in answers if isinstance(answer, str)),
            end if end < len(found) else None,
        )

    def _may_see(self, message: BusMessage, guid: str) -> bool:
        try:
            self._allow(message, "top", guid)
        except FleetForbidden:
            return False
        return True

    async def _measured(self, host: RegisteredHost, group: str) -> Measured | str:
        guid = host.registration.guid
        if host.state is AgentState.AWAY:
            return f"{guid} is away"
        try:
            answer = await call(self._controller.bus, f"guid.{guid}.rpc.measure", Measure(), Measured, _FIND_S)
        except CotenantError as error:
            return f"{guid}: {error}"
        if not group:
            return answer
        return replace(answer, containers=tuple(found for found in answer.containers if found.group == group))

    async def _agent_with_log(self, name: str) -> str:
        try:
            agent = self._controller.registry.agent_for(name)
        except NoSuchGuid:
            return await self._searching.agent_with_log(name)
        if agent == name:
            raise InvalidInput("guid", name, "a container's guid or a pod's name", "this is an agent's")
        return agent
