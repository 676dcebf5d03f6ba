"""A group of containers as a state machine: all ready, or nothing left.

Events are answers of agents; what is to be done next are instructions. The plan (guids, hosts) is stored before the
first instruction, and a change of goal before the instruction that follows from it. So a controller that takes over
needs the stored record and a survey of the hosts, no journal of steps: an instruction may be repeated, since agents
know by a container's labels what they have done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cotenant.model.fleet.group import ContainerStep, GroupGoal, GroupOutcome, GroupRecord, PlannedContainer


class Act(StrEnum):
    """What an agent can be told about one container; also the verb on the bus."""

    RESERVE = "reserve"
    CREATE = "create"
    START = "start"
    PROBE = "probe"
    STOP = "stop"
    REMOVE = "remove"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Instruction:
    """Tell the container's agent. Answer with `done`, `failed` or `lost`."""

    act: Act
    container: PlannedContainer


_REACHES = {
    Act.RESERVE: ContainerStep.RESERVED,
    Act.CREATE: ContainerStep.CREATED,
    Act.START: ContainerStep.RUNNING,
}  # at most, where no answer came
_UNDOES = (Act.STOP, Act.REMOVE, Act.RELEASE)
_STOPPED = (ContainerStep.ABSENT, ContainerStep.RESERVED, ContainerStep.CREATED, ContainerStep.ENDED)


class GroupMachine:
    """One group on its way to `record.goal`. `steps`: what a survey found; guids that it lacks are absent."""

    def __init__(self, record: GroupRecord, steps: Mapping[str, ContainerStep], stored: bool = True) -> None:
        self.record = record
        self.stored = stored  # whether `record` is what the store has
        self._steps = {
            container.guid: steps.get(container.guid, ContainerStep.ABSENT) for container in record.containers
        }
        self._in_flight: dict[str, Act] = {}
        self._faults: dict[str, str] = {}  # of containers that could not be undone
        self._dependents: dict[str, list[str]] = {container.guid: [] for container in record.containers}
        guids = {container.template.appkey: container.guid for container in record.containers}
        for container in record.containers:
            for appkey in container.template.after:
                self._dependents[guids[appkey]].append(container.guid)
        self._after = {
            container.guid: tuple(guids[appkey] for appkey in container.template.after)
            for container in record.containers
        }
        self._advance()

    @property
    def steps(self) -> Mapping[str, ContainerStep]:
        """How far each container is."""
        return self._steps

    @property
    def is_stuck(self) -> bool:
        """Whether nothing moves until `retry`."""
        return not self.record.done and self.stored and not self._in_flight and not self._possible()

    def instructions(self) -> tuple[Instruction, ...]:
        """What can be done now; each is under way from here on. None while the record waits to be stored."""
        if not self.stored or self.record.done:
            return ()
        found = self._possible()
        self._in_flight.update((instruction.container.guid, instruction.act) for instruction in found)
        return found

    def was_stored(self, record: GroupRecord) -> None:
        """The store has this record."""
        self.stored = record == self.record
        self._advance()

    def is_awaited(self, instruction: Instruction) -> bool:
        """Whether its answer still counts: nobody waits for a container to be ready that is to go."""
        return self._in_flight.get(instruction.container.guid) is instruction.act

    def done(self, instruction: Instruction, step: ContainerStep) -> None:
        """The agent did it, and the container is this far."""
        if not self.is_awaited(instruction):
            return
        guid = instruction.container.guid
        self._in_flight.pop(guid, None)
        self._steps[guid] = step
        if step is ContainerStep.ENDED and self.record.goal is GroupGoal.UP:
            self.abandon(f"{self._called(instruction.container)} ended by itself")
        self._advance()

    def failed(self, instruction: Instruction, reason: str) -> None:
        """The agent answered that it could not; what it had done of it before is taken back with the rest."""
        if not self.is_awaited(instruction):
            return
        self._in_flight.pop(instruction.container.guid, None)
        self._failed(instruction, reason)

    def lost(self, instruction: Instruction, reason: str) -> None:
        """No answer: it may have been done."""
        if not self.is_awaited(instruction):
            return
        guid = instruction.container.guid
        self._in_flight.pop(guid, None)
        reached = _REACHES.get(instruction.act)
        if reached is not None and self._steps[guid] < reached:
            self._steps[guid] = reached
        self._failed(instruction, reason)

    def abandon(self, reason: str, key: str | None = None) -> None:
        """Undo the group; `key`: of the request of an operator who wants it removed."""
        wanted = self.record if key is None else replace(self.record, keys=self.record.keys_with(key), removed=True)
        if self.record.goal is GroupGoal.GONE and not self.record.done:
            self._change(wanted)
            return
        self._change(replace(wanted, goal=GroupGoal.GONE, done=False, reason=reason))
        self._in_flight = {guid: act for guid, act in self._in_flight.items() if act is not Act.PROBE}
        self._faults.clear()
        self._advance()

    def retry(self) -> None:
        """Try again what could not be undone."""
        self._faults.clear()
        self._advance()

    def outcome(self) -> GroupOutcome:
        """How it stands."""
        is_up = self.record.done and self.record.goal is GroupGoal.UP
        left = tuple(
            f"{container.guid} on {container.agent}: "
            f"{self._faults.get(container.guid, self._steps[container.guid].name.lower())}"
            for container in self.record.containers
            if not is_up and self._steps[container.guid] is not ContainerStep.ABSENT
        )
        guids = {container.template.appkey: container.guid for container in self.record.containers} if is_up else {}
        return GroupOutcome(self.record.name, guids, self.record.reason, left)

    def _failed(self, instruction: Instruction, reason: str) -> None:
        container = instruction.container
        if self.record.goal is GroupGoal.UP:
            self.abandon(f"{instruction.act} of {self._called(container)} on {container.agent}: {reason}")
        else:
            if instruction.act in _UNDOES:  # what was still being made when the undo began is undone as far as it came
                self._faults[container.guid] = f"{instruction.act}: {reason}"
            self._advance()

    def _possible(self) -> tuple[Instruction, ...]:
        if self.record.goal is GroupGoal.UP:
            lowest = min(self._steps.values())
            acts = ((container, self._next_up(container.guid, lowest)) for container in self.record.containers)
        else:
            acts = ((container, self._next_down(container.guid)) for container in reversed(self.record.containers))
        return tuple(
            Instruction(act, container)
            for container, act in acts
            if act is not None and container.guid not in self._in_flight
        )

    def _next_up(self, guid: str, lowest: ContainerStep) -> Act | None:
        """Room on every host comes before the first container, and every container before the first start."""
        match self._steps[guid]:
            case ContainerStep.ABSENT:
                return Act.RESERVE
            case ContainerStep.RESERVED if lowest >= ContainerStep.RESERVED:
                return Act.CREATE
            case ContainerStep.CREATED if lowest >= ContainerStep.CREATED:
                is_free = all(self._steps[other] is ContainerStep.READY for other in self._after[guid])
                return Act.START if is_free else None
            case ContainerStep.RUNNING:
                return Act.PROBE
        return None

    def _next_down(self, guid: str) -> Act | None:
        """A container goes once those that started after it have stopped, or cannot be stopped."""
        if guid in self._faults:
            return None
        for other in self._dependents[guid]:
            is_busy = self._steps[other] not in _STOPPED or other in self._in_flight
            if is_busy and other not in self._faults:
                return None
        match self._steps[guid]:
            case ContainerStep.RUNNING | ContainerStep.READY:
                return Act.STOP
            case ContainerStep.CREATED | ContainerStep.ENDED:
                return Act.REMOVE
            case ContainerStep.RESERVED:
                return Act.RELEASE
        return None

    def _advance(self) -> None:
        if self.record.done or self._in_flight or not self.stored:
            return
        if self.record.goal is GroupGoal.UP:
            if any(step is ContainerStep.ENDED for step in self._steps.values()):
                ended = next(
                    container
                    for container in self.record.containers
                    if self._steps[container.guid] is ContainerStep.ENDED
                )
                self._change(replace(self.record, goal=GroupGoal.GONE, reason=f"{self._called(ended)} ended by itself"))
            elif all(step is ContainerStep.READY for step in self._steps.values()):
                self._change(replace(self.record, done=True))
        elif all(step is ContainerStep.ABSENT for step in self._steps.values()):
            again = self.record.goal is GroupGoal.AGAIN
            self._change(replace(self.record, goal=GroupGoal.UP if again else GroupGoal.GONE, done=not again))

    def _change(self, record: GroupRecord) -> None:
        if record != self.record:
            self.record, self.stored = record, False

    @staticmethod
    def _called(container: PlannedContainer) -> str:
        return f"{container.template.appkey} ({container.guid})"
