"""Hosts of a fleet as a group's instructions see them: reservations, containers by guid, and a count of every start.

The same rules as the agent's: an instruction may be repeated, a lower epoch is refused, a second container of an appkey
is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from cotenant.engine.fleet.group import Act, GroupMachine, Instruction
from cotenant.model.fleet.group import ContainerStep, GroupGoal, GroupRecord, PlannedContainer
from cotenant.model.fleet.template import ContainerTemplate


class Refused(Exception):
    """The agent says no."""


class Fenced(Exception):
    """A later controller has the group."""


@dataclass
class Hosts:
    """What is there. `broken`: what fails, as (act, appkey)."""

    plan: tuple[PlannedContainer, ...]
    broken: frozenset[tuple[Act, str]] = frozenset()
    steps: dict[str, ContainerStep] = field(default_factory=dict)
    epoch: int = 0
    starts: Counter[str] = field(default_factory=Counter)
    creations: Counter[str] = field(default_factory=Counter)

    def survey(self, epoch: int) -> dict[str, ContainerStep]:
        self._pass(epoch)
        return {
            guid: ContainerStep.RUNNING if step is ContainerStep.READY else step for guid, step in self.steps.items()
        }

    def restart_agents(self) -> None:
        """Agents were killed: what Docker has is there, reservations are not."""
        self.steps = {guid: step for guid, step in self.steps.items() if step is not ContainerStep.RESERVED}

    def do(self, instruction: Instruction, epoch: int) -> ContainerStep:
        self._pass(epoch)
        act, container = instruction.act, instruction.container
        if (act, container.template.appkey) in self.broken:
            raise Refused(f"{act} is broken")
        guid = container.guid
        step = self.steps.get(guid, ContainerStep.ABSENT)
        match act:
            case Act.RESERVE if step is ContainerStep.ABSENT:
                step = ContainerStep.RESERVED
            case Act.CREATE if step <= ContainerStep.RESERVED:
                assert not any(
                    self.steps.get(entry.guid, ContainerStep.ABSENT) > ContainerStep.RESERVED
                    for entry in self.plan
                    if entry.template.appkey == container.template.appkey
                ), f"{container.template.appkey} is doubled"
                self.creations[guid] += 1
                step = ContainerStep.CREATED
            case Act.START:
                if step < ContainerStep.CREATED:
                    raise Refused("no such container")
                if step is ContainerStep.CREATED:
                    self.starts[guid] += 1
                    ready = {
                        entry.template.appkey
                        for entry in self.plan
                        if self.steps.get(entry.guid) is ContainerStep.READY
                    }
                    assert ready.issuperset(container.template.after), (
                        f"{guid} was started before {container.template.after}"
                    )
                    step = ContainerStep.RUNNING
            case Act.PROBE:
                if step < ContainerStep.RUNNING:
                    raise Refused("does not run")
                step = ContainerStep.READY
            case Act.STOP if step in (ContainerStep.RUNNING, ContainerStep.READY):
                step = ContainerStep.ENDED
            case Act.REMOVE | Act.RELEASE:
                step = ContainerStep.ABSENT
        self.steps[guid] = step
        if step is ContainerStep.ABSENT:
            del self.steps[guid]
        return step

    def _pass(self, epoch: int) -> None:
        if epoch < self.epoch:
            raise Fenced
        self.epoch = epoch


def planned(after: dict[str, tuple[str, ...]], hosts: int = 2) -> tuple[PlannedContainer, ...]:
    """A plan from the order of starts: appkey -> those before it."""
    return tuple(
        PlannedContainer(f"image-{i:08x}", f"agent-{i % hosts}", ContainerTemplate(appkey, "image", after=before))
        for i, (appkey, before) in enumerate(after.items())
    )


def taken_over(record: GroupRecord, hosts: Hosts) -> GroupMachine:
    """What the next controller begins with."""
    record = replace(record, epoch=record.epoch + 1)
    return GroupMachine(record, hosts.survey(record.epoch))


def new_record(plan: tuple[PlannedContainer, ...], goal: GroupGoal = GroupGoal.UP) -> GroupRecord:
    return GroupRecord("shop", plan, goal, 1, "controller")
