"""Carrying out what a group's state machine says: store, ask agents, report, until the group is where it is to be.

An agent that does not answer is asked again, with the same key, for as long as it may take one to restart; only then
its answer counts as lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from cotenant.drivers.nats.contract import Bus, RevisionConflict
from cotenant.engine.fleet.group import Act, GroupMachine, Instruction
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.fleet.group import ContainerStep, GroupOutcome, GroupRecord
from cotenant.model.fleet.refusal import Fenced, NobodyAnswers, Overdue
from cotenant.model.fleet.requests import Fence, Make, Move, Moved, Survey, Surveyed
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.services.fleet.controller.stored import FleetStore
from cotenant.services.fleet.rpc import LONGEST_S, call, new_key

_log = logging.getLogger(__name__)
T = TypeVar("T")
PATIENCE_S = 10.0  # for an agent that is away
ASKED_ANEW_S = 4.0
_AGAIN_S = 0.25
RETRY_S = 5.0  # between tries to undo what could not be undone


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Of one step of one container."""

    step_s: float = 60.0
    create_s: float = 600.0  # an image may have to be pulled
    ready_s: float = 300.0  # where only the image knows its health check

    def probe_s(self, template: ContainerTemplate) -> float:
        """Until the runtime itself must have said that it is healthy, or not; it says so at once where it can."""
        check = template.health
        if check is None or check.test[:1] == ("NONE",):
            return self.ready_s
        tries_s = (max(check.retries, 1) + 1) * (check.interval_s + check.timeout_s)
        return min(self.step_s + check.start_period_s + tries_s, LONGEST_S)


def no_credentials(_: str) -> str:
    """A container gets none."""
    return ""


class GroupDriver:
    """One group's way. `run` as a task; `settled` is set while it is done, or stuck."""

    def __init__(
        self,
        bus: Bus,
        stored: FleetStore,
        record: GroupRecord,
        revision: int,
        deadlines: Deadlines | None = None,
        now: Callable[[], float] = time.monotonic,
        *,
        is_new: bool = False,
        issue: Callable[[str], str] = no_credentials,
    ) -> None:
        """`is_new`: nothing of this record was asked of any agent before. `issue`: credentials for a guid."""
        self._bus = bus
        self._stored = stored
        self._record = record
        self._revision = revision
        self._deadlines = deadlines or Deadlines()
        self._now = now
        self._is_new, self._issue = is_new, issue
        self._machine: GroupMachine | None = None
        self._poked = asyncio.Event()
        self._abandoned: tuple[str, str] | None = None
        self.settled = asyncio.Event()
        self.is_lost = False  # the group goes on elsewhere, or later

    @property
    def record(self) -> GroupRecord:
        """Where it stands."""
        return self._machine.record if self._machine is not None else self._record

    def outcome(self) -> GroupOutcome:
        """How it stands, for who asked."""
        if self._machine is None:
            return GroupOutcome(self._record.name, {}, "taken over by another controller")
        return self._machine.outcome()

    def abandon(self, reason: str, key: str) -> None:
        """Undo the group, as the request with this key asks."""
        self._abandoned = reason, key
        self.settled.clear()
        self._poked.set()

    async def run(self) -> None:
        """Until the goal is reached, or another controller has the group."""
        try:
            while True:
                try:
                    machine = self._machine = GroupMachine(self._record, {} if self._is_new else await self._survey())
                    await self._drive(machine)
                    return
                except Fenced as error:
                    await self._outbid(error)
        except RevisionConflict as error:
            self.is_lost = True
            _log.warning("group %s goes on elsewhere: %s", self._record.name, error)
        except BaseException:
            self.is_lost = True
            raise
        finally:
            self.settled.set()

    async def _outbid(self, fenced: Fenced) -> None:
        """Whose record is stored has the group. So where it is still ours, an agent that has seen a higher epoch has it
        from a controller whose clock is ahead, or that asked and stored nothing. Raises `RevisionConflict` where it
        is not.
        """
        record = self.record
        self._record = replace(record, epoch=max(record.epoch, fenced.epoch) + 1)
        self._is_new = False
        while True:
            try:
                self._revision = await self._stored.put_group(self._record, self._revision)
                return
            except Transient as error:
                _log.warning("group %s waits for its store: %s", record.name, error)
                await asyncio.sleep(1.0)

    async def _drive(self, machine: GroupMachine) -> None:
        tasks: dict[asyncio.Task[ContainerStep | CotenantError], Instruction] = {}
        try:
            while True:
                if self._abandoned:
                    machine.abandon(*self._abandoned)
                    self._abandoned = None
                await self._drop(machine, tasks)
                if not machine.stored:
                    await self._store(machine)
                    continue
                if machine.record.done:
                    return
                for instruction in machine.instructions():
                    tasks[asyncio.create_task(self._carry_out(instruction, machine.record.epoch))] = instruction
                if not tasks and machine.is_stuck:
                    self.settled.set()
                    await self._wait_to_retry()
                    machine.retry()
                    continue
                await self._wait(tasks)
                for task in [task for task in tasks if task.done()]:
                    self._report(machine, tasks.pop(task), task.result())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @staticmethod
    async def _drop(
        machine: GroupMachine, tasks: dict[asyncio.Task[ContainerStep | CotenantError], Instruction]
    ) -> None:
        """End the waiting for answers that count no more."""
        dropped = [task for task, instruction in tasks.items() if not machine.is_awaited(instruction)]
        for task in dropped:
            del tasks[task]
            task.cancel()
        await asyncio.gather(*dropped, return_exceptions=True)

    async def _wait(self, tasks: dict[asyncio.Task[ContainerStep | CotenantError], Instruction]) -> None:
        poked = asyncio.create_task(self._poked.wait())
        await asyncio.wait({*tasks, poked}, return_when=asyncio.FIRST_COMPLETED)
        poked.cancel()
        self._poked.clear()

    async def _wait_to_retry(self) -> None:
        try:
            async with asyncio.timeout(RETRY_S):
                await self._poked.wait()
        except TimeoutError:
            pass
        self._poked.clear()

    async def _store(self, machine: GroupMachine) -> None:
        record = machine.record
        try:
            self._revision = await self._stored.put_group(record, self._revision)
        except Transient as error:
            _log.warning("group %s waits for its store: %s", record.name, error)
            await asyncio.sleep(1.0)
            return
        _log.info(
            "group %s: %s%s%s",
            record.name,
            record.goal,
            ", done" if record.done else "",
            f" ({record.reason})" if record.reason else "",
        )
        machine.was_stored(record)

    @staticmethod
    def _report(machine: GroupMachine, instruction: Instruction, outcome: ContainerStep | CotenantError) -> None:
        if isinstance(outcome, ContainerStep):
            machine.done(instruction, outcome)
        elif isinstance(outcome, Fenced):
            raise outcome
        elif isinstance(outcome, NobodyAnswers | Transient):
            machine.lost(instruction, str(outcome))
        else:
            machine.failed(instruction, str(outcome))

    async def _survey(self) -> dict[str, ContainerStep]:
        """How far each container is. A host that does not answer is taken to run them: an undo then waits for it."""
        agents = sorted({container.agent for container in self._record.containers})
        answers = await asyncio.gather(*(self._surveyed(agent) for agent in agents))
        steps: dict[str, ContainerStep] = {}
        for agent, answer in zip(agents, answers, strict=True):
            if isinstance(answer, Surveyed):
                steps.update(answer.steps)
            elif isinstance(answer, Fenced):
                raise answer
            else:
                steps.update(
                    {
                        container.guid: ContainerStep.RUNNING
                        for container in self._record.containers
                        if container.agent == agent
                    }
                )
        return steps

    async def _surveyed(self, agent: str) -> Surveyed | CotenantError:
        fence = Fence(self._record.name, self._record.epoch)
        return await self._asked(f"guid.{agent}.rpc.survey", Survey(fence), Surveyed, 5.0)

    async def _carry_out(self, instruction: Instruction, epoch: int) -> ContainerStep | CotenantError:
        container, act = instruction.container, instruction.act
        fence = Fence(self._record.name, epoch)
        request: Make | Move = Move(fence, container.guid)
        if act in (Act.RESERVE, Act.CREATE):
            request = Make(fence, container, self._issue(container.guid) if act is Act.CREATE else "")
        deadline_s = self._deadlines.create_s if act is Act.CREATE else self._deadlines.step_s
        if act is Act.STOP:
            deadline_s += container.template.stop_grace_s
        if act is Act.PROBE:
            deadline_s = self._deadlines.probe_s(container.template)
        answer = await self._asked(f"guid.{container.agent}.rpc.{act}", request, Moved, deadline_s)
        if act is Act.PROBE and isinstance(answer, Overdue):
            return Overdue(f"it was not ready within {deadline_s:g} s")
        return answer.step if isinstance(answer, Moved) else answer

    async def _asked(self, subject: str, request: object, form: type[T], deadline_s: float) -> T | CotenantError:
        """The answer, or the last error after `PATIENCE_S` of trying an agent that is away.

        It is asked anew every few seconds, with the same key: an agent that was killed over the first request does it
        then, and one that is at it answers all of them.
        """
        key, began_s = new_key(), self._now()
        until_s = began_s + PATIENCE_S
        while True:
            try:
                return await call(self._bus, subject, request, form, deadline_s, key, ASKED_ANEW_S)
            except Overdue as error:
                until_s = self._now() + PATIENCE_S  # it was there a moment ago
                if self._now() - began_s >= deadline_s:
                    return error
            except (NobodyAnswers, Transient) as error:
                if self._now() >= until_s:
                    return error
                await asyncio.sleep(_AGAIN_S)
            except CotenantError as error:
                return error
