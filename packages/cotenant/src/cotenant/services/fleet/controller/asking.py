"""What operators ask a controller:

List, inspect, up, down, restart, limit, configure. The operator's name is a token of the subject, which the server
checks.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import replace

from cotenant.drivers.nats.contract import MAX_PAYLOAD, BusMessage, RevisionConflict
from cotenant.engine.fleet.registry import RegisteredHost
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.fleet.group import GroupGoal, GroupOutcome, GroupRecord, PlannedContainer
from cotenant.model.fleet.host import Heartbeat
from cotenant.model.fleet.identity import check_name, container_guid
from cotenant.model.fleet.refusal import Fenced, FleetForbidden, NobodyAnswers
from cotenant.model.fleet.requests import (
    Down,
    Fence,
    GroupRow,
    HostRow,
    Inspect,
    Inspected,
    List,
    Listed,
    Member,
    Restart,
    SetConfiguration,
    Spread,
    Survey,
    Surveyed,
    Up,
)
from cotenant.model.fleet.states import AgentState
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.services.fleet.controller.controller import FleetController
from cotenant.services.fleet.controller.driving import GroupDriver
from cotenant.services.fleet.controller.hosts import placed_on
from cotenant.services.fleet.controller.relaying import Relaying
from cotenant.services.fleet.rpc import KEY_HEADER, RpcVerb, call, encode

_SPREAD_S = 10.0
_LOOK_S = 0.2  # between two looks at where another controller has brought a group
_PAGE_BYTES = MAX_PAYLOAD // 2
_MAX_RECORD = MAX_PAYLOAD - (64 << 10)  # it is stored as one message, and reasons and keys are added on the way


class Asking:
    """The verbs of one controller."""

    def __init__(self, controller: FleetController) -> None:
        self._controller = controller
        self._registry = controller.registry
        self._stored = controller.stored
        self._relaying = Relaying(controller, self._allow)

    def verbs(self) -> dict[str, RpcVerb]:
        """By name."""
        return {
            "list": RpcVerb(List, self._list),
            "inspect": RpcVerb(Inspect, self._inspect),
            "up": RpcVerb(Up, self._up),
            "down": RpcVerb(Down, self._down),
            "restart": RpcVerb(Restart, self._restart),
            "configure": RpcVerb(SetConfiguration, self._configure),
            **self._relaying.verbs(),
        }

    async def _list(self, request: List, message: BusMessage) -> Listed:
        operator = self._allow(message, "list")
        now_s = self._controller.now()
        found = self._registry.select(request.tags, request.namespace, request.name)
        found.sort(key=lambda host: host.registration.guid)  # pages of several controllers fit together
        hosts: list[HostRow] = []
        size = 0
        for at in range(request.start, len(found)):
            host = found[at]
            if self._reaches(operator, host.registration.guid):
                row = HostRow(
                    host.registration,
                    host.state,
                    now_s - host.heard_s,
                    _shown_beat(host, request.group),
                    host.is_doubled,
                )
                size += len(encode(row))
                if size > _PAGE_BYTES and hosts:
                    return Listed(tuple(hosts), (), at)
                hosts.append(row)
        return Listed(tuple(hosts), self._groups(request, operator))

    def _groups(self, request: List, operator: str) -> tuple[GroupRow, ...]:
        return tuple(
            GroupRow(
                group.record.name,
                group.record.goal,
                group.record.done,
                group.record.reason,
                len(group.record.containers),
                self._members(group.record, operator) if request.group else (),
            )
            for group in self._stored.groups()
            if not group.record.is_forgotten and (not request.group or group.record.name == request.group)
        )

    def _members(self, record: GroupRecord, operator: str) -> tuple[Member, ...]:
        return tuple(
            Member(container.guid, container.agent, container.template.appkey, container.template.image)
            for container in record.containers
            if self._reaches(operator, container.agent)
        )

    async def _inspect(self, request: Inspect, message: BusMessage) -> Inspected:
        self._allow(message, "inspect")  # before it is said whether there is such a guid
        agent = self._registry.agent_for(request.guid)
        self._allow(message, "inspect", agent)
        asked = Inspect("" if agent == request.guid else request.guid)
        try:
            answer = await call(self._controller.bus, f"guid.{agent}.rpc.inspect", asked, Inspected)
        except NobodyAnswers:
            answer = Inspected(None, {"answer": "none: its agent is not there"})
        host = self._registry.host(agent)
        place = {"agent": agent, "host": host.registration.hostname, "agent is": host.state.value}
        status = self._registry.status(request.guid) if asked.guid else None
        return Inspected(status or answer.status, {**place, **answer.facts})

    async def _configure(self, request: SetConfiguration, message: BusMessage) -> Spread:
        self._allow(message, "configure")
        role, platform = check_name("role", request.role), check_name("platform", request.platform)
        hosts = [
            host
            for host in self._registry.hosts()
            if (host.registration.role, host.registration.platform) == (role, platform)
        ]
        self._allow(message, "configure", *(host.registration.guid for host in hosts))
        revision = await self._stored.put_configuration(role, platform, encode(request.configuration).decode())
        wanted = self._stored.configuration(role, platform)
        alive = [host.registration.guid for host in hosts if host.state is AgentState.ALIVE]
        async with asyncio.timeout(_SPREAD_S):
            answers = await asyncio.gather(
                *(self._controller.configure(guid, wanted) for guid in alive), return_exceptions=True
            )
        refused: dict[str, str] = {}
        applied = 0
        for guid, answer in zip(alive, answers, strict=True):
            if isinstance(answer, BaseException):
                refused[guid] = str(answer)
            elif answer.refused:
                refused[guid] = "; ".join(answer.refused)
            else:
                applied += 1
        return Spread(revision, applied, refused)

    # ---- groups

    async def _up(self, request: Up, message: BusMessage) -> GroupOutcome:
        template, key = request.template, message.headers.get(KEY_HEADER, "")
        operator = self._allow(message, "up")
        digest = hashlib.sha256(encode(template)).hexdigest()
        found = await self._stored.group_now(template.name)
        if found is not None and key in found.record.keys:  # asked again, as after a lost answer
            return await self._until_settled(template.name)
        if found is not None and not (found.record.done and found.record.goal is GroupGoal.GONE):
            record = found.record
            if record.goal is GroupGoal.GONE:
                raise Transient(f"group {record.name} is being removed: {record.reason or 'as asked'}")
            if record.digest != digest:
                raise InvalidInput(
                    "name", record.name, "a group that is not up", f"cotenant fleet down {record.name} first"
                )
            return await self._until_settled(record.name)
        epoch = self._epoch(found.record.epoch if found is not None else 0)
        epoch, there = await self._still_there(template.name, epoch)
        if there:
            known = ", ".join(there)
            raise InvalidInput("name", template.name, "a group that is not up", f"{known} run; down removes them")
        hosts = [host for host in self._registry.hosts() if self._reaches(operator, host.registration.guid)]
        young, alone = self._controller.is_young, self._controller.settings.is_alone
        placed = await asyncio.to_thread(placed_on, template, hosts, is_young=young, is_alone=alone)
        record = GroupRecord(
            template.name,
            tuple(
                PlannedContainer(container_guid(container.image, os.urandom(4)), placed[container.appkey], container)
                for container in template.containers
            ),
            GroupGoal.UP,
            epoch,
            self._controller.id,
            digest,
            found.record.keys_with(key) if found is not None else (key,) * bool(key),
        )
        if len(encode(record)) > _MAX_RECORD:
            expected, hint = f"at most {_MAX_RECORD} bytes in all", "make two groups of it, or mount files"
            raise InvalidInput("size of the group", len(encode(record)), expected, hint)
        return await self._begin(record, found.revision if found is not None else 0, is_new=True)

    async def _still_there(self, group: str, epoch: int) -> tuple[int, list[str]]:
        """Containers of a group without a record: heartbeats name the hosts, whose agents say what is there now.

        With an epoch that they take: those of a record that is gone may come from a clock that is ahead.
        """
        there = self._registry.of_group(group)
        found: list[str] = []
        for agent in sorted({agent for agent, _ in there.values()}):
            subject = f"guid.{agent}.rpc.survey"
            try:
                answer = await call(self._controller.bus, subject, Survey(Fence(group, epoch)), Surveyed)
            except Fenced as error:
                epoch = error.epoch + 1
                answer = await call(self._controller.bus, subject, Survey(Fence(group, epoch)), Surveyed)
            found += answer.steps
        return epoch, found

    async def _down(self, request: Down, message: BusMessage) -> GroupOutcome:
        self._allow(message, "down")  # before it is said whether there is such a group
        name, key = check_name("name", request.name), message.headers.get(KEY_HEADER, "")
        asked: GroupRecord | None = None
        while True:
            record, revision = await self._record_of(name, key)
            self._allow(message, "down", *(container.agent for container in record.containers))
            if key in record.keys:  # asked again
                return await self._until_settled(name)
            asked = asked or record
            if record.containers != asked.containers:
                return GroupOutcome(name, {}, "it was removed, and is brought up again")
            async with self._controller.beginning(name):
                driver = self._controller.driver(name)
                if driver is None:
                    driver = await self._driven(
                        self._changed(record, GroupGoal.GONE, "asked to go down", key), revision
                    )
                else:
                    driver.abandon("asked to go down", key)
            await driver.settled.wait()
            if not driver.is_lost:
                return driver.outcome()
            await asyncio.sleep(_LOOK_S)  # another controller has it, which may bring it elsewhere: ask for it again

    async def _restart(self, request: Restart, message: BusMessage) -> GroupOutcome:
        self._allow(message, "restart")
        name, key = check_name("name", request.name), message.headers.get(KEY_HEADER, "")
        record, revision = await self._record_of(name)
        self._allow(message, "restart", *(container.agent for container in record.containers))
        if key in record.keys:  # asked again
            return await self._until_settled(name)
        if record.goal is GroupGoal.GONE and record.done:
            raise InvalidInput("name", name, "a group that is up", record.reason)
        if not record.digest:
            raise Permanent(f"group {name} is known by its containers' labels only: down removes it, up makes it anew")
        async with self._controller.beginning(name):
            if self._controller.driver(name) is not None or not record.done:
                raise Transient(f"group {name} is under way: {record.goal}")
            driver = await self._driven(self._changed(record, GroupGoal.AGAIN, "", key), revision)
        return await self._outcome(driver)

    def _changed(self, record: GroupRecord, goal: GroupGoal, reason: str, key: str) -> GroupRecord:
        return replace(
            record,
            goal=goal,
            done=False,
            reason=reason,
            removed=goal is GroupGoal.GONE,
            owner=self._controller.id,
            epoch=self._epoch(record.epoch),
            keys=record.keys_with(key),
        )

    async def _begin(self, record: GroupRecord, revision: int, is_new: bool = False) -> GroupOutcome:
        async with self._controller.beginning(record.name):
            driver = await self._driven(record, revision, is_new)
        return await self._outcome(driver)

    async def _driven(self, record: GroupRecord, revision: int, is_new: bool = False) -> GroupDriver:
        """The record is stored before anything is done."""
        try:
            revision = await self._stored.put_group(record, revision)
        except RevisionConflict as error:
            raise Transient(f"group {record.name} was changed at the same moment; ask again") from error
        driver = self._controller.driver_of(record, revision, is_new=is_new)
        self._controller.drive(driver)
        return driver

    async def _outcome(self, driver: GroupDriver) -> GroupOutcome:
        await driver.settled.wait()
        return await self._until_settled(driver.record.name) if driver.is_lost else driver.outcome()

    async def _until_settled(self, name: str) -> GroupOutcome:
        """The outcome of what another request began, here or at another controller."""
        driver = self._controller.driver(name)
        if driver is not None and not driver.is_lost:
            await driver.settled.wait()
            if not driver.is_lost:
                return driver.outcome()
        found = await self._stored.group_now(name)
        while found is not None and not found.record.done:
            await asyncio.sleep(_LOOK_S)
            found = self._stored.group(name)
        if found is None:
            return GroupOutcome(name, {}, "it was removed")
        record = found.record
        is_up = record.goal is GroupGoal.UP
        guids = {container.template.appkey: container.guid for container in record.containers} if is_up else {}
        return GroupOutcome(name, guids, record.reason)

    async def _record_of(self, name: str, key: str = "") -> tuple[GroupRecord, int]:
        """The stored record, or one made from what containers' labels say. That of a group that was removed counts for
        the request with `key`, which removed it.
        """
        found = await self._stored.group_now(name)
        if found is not None and (not found.record.is_forgotten or key in found.record.keys):
            return found.record, found.revision
        there = self._registry.of_group(name)
        if not there:
            raise InvalidInput("name", name, "a group of this fleet", "cotenant fleet ps lists them")
        containers = tuple(
            PlannedContainer(guid, agent, ContainerTemplate(status.appkey, status.image))
            for guid, (agent, status) in there.items()
        )
        if found is None:
            return GroupRecord(name, containers, GroupGoal.UP, 0, "", done=True), 0
        keys = found.record.keys
        return GroupRecord(name, containers, GroupGoal.UP, found.record.epoch, "", keys=keys, done=True), found.revision

    def _epoch(self, last: int) -> int:
        """Above every earlier one, also where the record of an earlier group was deleted or lost."""
        return max(last + 1, int(self._controller.wall() * 1000))

    # ---- rights

    def _allow(self, message: BusMessage, verb: str, *agents: str) -> str:
        operator = message.subject.split(".")[1]
        rights = self._controller.settings.rights
        if rights is not None:
            rights.check(operator, verb, agents)
        return operator

    def _reaches(self, operator: str, agent: str) -> bool:
        rights = self._controller.settings.rights
        if rights is None:
            return True
        try:
            rights.check(operator, "list", (agent,))
        except FleetForbidden:
            return False
        return True


def _shown_beat(host: RegisteredHost, group: str) -> Heartbeat | None:
    """The last heartbeat, with containers as they count now, of one group where one is asked for."""
    if host.beat is None:
        return None
    return replace(
        host.beat, containers=tuple(container for container in host.containers if not group or container.group == group)
    )
