"""Hosts of a fleet as a group's instructions see them: reservations, containers by guid, and a count of every start.

The same rules as the agent's: an instruction may be repeated, a lower epoch is refused, a second container of an appkey
is refused.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from cotenant.engine.fleet.group import Act, GroupMachine, Instruction
from cotenant.model.fleet.group import Goal, GroupRecord, PlannedContainer, Step
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
    steps: dict[str, Step] = field(default_factory=dict)
    epoch: int = 0
    starts: Counter[str] = field(default_factory=Counter)
    creations: Counter[str] = field(default_factory=Counter)

    def survey(self, epoch: int) -> dict[str, Step]:
        self._pass(epoch)
        return {guid: Step.RUNNING if step is Step.READY else step for guid, step in self.steps.items()}

    def restart_agents(self) -> None:
        """Agents were killed: what Docker has is there, reservations are not."""
        self.steps = {guid: step for guid, step in self.steps.items() if step is not Step.RESERVED}

    def do(self, instruction: Instruction, epoch: int) -> Step:
        self._pass(epoch)
        act, container = instruction.act, instruction.container
        if (act, container.template.appkey) in self.broken:
            raise Refused(f"{act} is broken")
        guid = container.guid
        step = self.steps.get(guid, Step.ABSENT)
        match act:
            case Act.RESERVE if step is Step.ABSENT:
                step = Step.RESERVED
            case Act.CREATE if step <= Step.RESERVED:
                assert not any(
                    self.steps.get(entry.guid, Step.ABSENT) > Step.RESERVED
                    for entry in self.plan
                    if entry.template.appkey == container.template.appkey
                ), f"{container.template.appkey} is doubled"
                self.creations[guid] += 1
                step = Step.CREATED
            case Act.START:
                if step < Step.CREATED:
                    raise Refused("no such container")
                if step is Step.CREATED:
                    self.starts[guid] += 1
                    ready = {entry.template.appkey for entry in self.plan if self.steps.get(entry.guid) is Step.READY}
                    assert ready.issuperset(container.template.after), (
                        f"{guid} was started before {container.template.after}"
                    )
                    step = Step.RUNNING
            case Act.PROBE:
                if step < Step.RUNNING:
                    raise Refused("does not run")
                step = Step.READY
            case Act.STOP if step in (Step.RUNNING, Step.READY):
                step = Step.ENDED
            case Act.REMOVE | Act.RELEASE:
                step = Step.ABSENT
        self.steps[guid] = step
        if step is Step.ABSENT:
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


def new_record(plan: tuple[PlannedContainer, ...], goal: Goal = Goal.UP) -> GroupRecord:
    return GroupRecord("shop", plan, goal, 1, "controller")
