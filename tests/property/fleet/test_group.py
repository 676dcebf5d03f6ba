"""A group ends with all ready or nothing left, and starts nothing twice, whatever is killed, lost or refused, in
whatever order answers come.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.fleet_hosts import Fenced, Hosts, Refused, new_record, planned, taken_over
from tests.property.few import examples

from cotenant.engine.fleet.group import Act, GroupMachine, Instruction
from cotenant.model.fleet.group import ContainerStep, GroupGoal, GroupRecord, PlannedContainer

CHAIN = {"store": (), "web": ("store",), "proxy": ("web",)}
SHAPES = ({"one": ()}, CHAIN, {"a": (), "b": (), "c": ("a", "b")}, {"a": (), "b": ("a",), "c": ("a",)})
MAX_STEPS = 400  # a group of three needs some forty
KILLS = ("controller before", "controller after", "agents before", "agents after", "store before", "store after")


def check(record: GroupRecord, hosts: Hosts) -> None:
    assert record.done
    if record.goal is GroupGoal.UP:
        assert {
            container.guid for container in record.containers if hosts.steps.get(container.guid) is ContainerStep.READY
        } == {container.guid for container in record.containers}
    else:
        assert record.goal is GroupGoal.GONE
        assert hosts.steps == {}
    for guid, starts in hosts.starts.items():
        assert starts <= hosts.creations[guid], f"{guid} was started {starts} times"


def run(
    plan: tuple[PlannedContainer, ...], hosts: Hosts, goal: GroupGoal, kill_at: int = -1, kill: str = ""
) -> tuple[GroupRecord, int]:
    """One instruction after another, with one thing killed at one step; the last record and the number of steps."""
    stored = new_record(plan, goal)
    machine = GroupMachine(stored, hosts.survey(stored.epoch))
    for step in range(MAX_STEPS):
        dies = kill if step == kill_at else ""
        if not machine.stored:
            if dies == "store before":
                machine = taken_over(stored, hosts)
                continue
            stored = machine.record
            if dies == "store after":
                machine = taken_over(stored, hosts)
            else:
                machine.was_stored(stored)
            continue
        if machine.record.done:
            return stored, step
        pending = machine.instructions()
        if not pending:
            assert machine.is_stuck
            machine.retry()
            continue
        for instruction in pending:
            if dies == "agents before":
                hosts.restart_agents()
            if dies == "controller before":
                break
            try:
                reached = hosts.do(instruction, machine.record.epoch)
            except Refused as error:
                machine.failed(instruction, str(error))
                continue
            if dies == "agents after":
                hosts.restart_agents()
                machine.lost(instruction, "the agent was killed")
            elif dies != "controller after":
                machine.done(instruction, reached)
        if dies.startswith("controller"):
            machine = taken_over(stored, hosts)
    raise AssertionError(f"not done after {MAX_STEPS} steps: {machine.record}, {machine.steps}")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("broken", [None, (Act.RESERVE, 0), (Act.CREATE, -1), (Act.START, -1), (Act.PROBE, 0)])
@pytest.mark.parametrize("goal", [GroupGoal.UP, GroupGoal.AGAIN])
def test_killed_at_every_step(
    shape: dict[str, tuple[str, ...]], broken: tuple[Act, int] | None, goal: GroupGoal
) -> None:
    plan = planned(shape)
    breaks = frozenset() if broken is None else frozenset({(broken[0], list(shape)[broken[1]])})

    def world() -> Hosts:
        before = {container.guid: ContainerStep.READY for container in plan} if goal is GroupGoal.AGAIN else {}
        return Hosts(plan, breaks, before)

    hosts = world()
    record, steps = run(plan, hosts, goal)
    check(record, hosts)
    assert record.goal is (GroupGoal.GONE if breaks else GroupGoal.UP)
    for kill in KILLS:
        for at in range(steps):
            hosts = world()
            record, _ = run(plan, hosts, goal, at, kill)
            check(record, hosts)
            if breaks:
                assert record.goal is GroupGoal.GONE, (kill, at)


class TestAnyOrder:
    """Answers in any order, some lost, some refused once, controllers that live on beside the one that took over."""

    @pytest.mark.slow
    @settings(max_examples=examples(120))
    @given(st.data())
    def test_any_order(self, data: st.DataObject) -> None:
        plan = planned(data.draw(st.sampled_from(SHAPES)))
        hosts = Hosts(plan)
        stored = new_record(plan)
        machine = GroupMachine(stored, hosts.survey(stored.epoch))
        left: list[tuple[GroupMachine, Instruction]] = []  # of controllers that lost the group
        flying: list[Instruction] = []
        faults = data.draw(st.integers(0, 8))
        for _ in range(MAX_STEPS):
            if not machine.stored:
                stored = machine.record
                machine.was_stored(stored)
            flying += machine.instructions()
            if machine.record.done and machine.stored:
                break
            fate = data.draw(st.sampled_from(FATES)) if faults else "done"
            faults -= fate != "done"
            if fate == "stale" and left:
                old, instruction = left.pop()
                with pytest.raises(Fenced):
                    hosts.do(instruction, old.record.epoch)
                continue
            if fate == "taken over":
                left += [(machine, instruction) for instruction in flying]
                flying = []
                machine = taken_over(stored, hosts)
                stored = machine.record if machine.stored else replace(stored, epoch=machine.record.epoch)
                continue
            if fate == "abandoned":
                machine.abandon("asked to go down")
                continue
            if not flying:
                if machine.is_stuck:
                    machine.retry()
                continue
            instruction = flying.pop(data.draw(st.integers(0, len(flying) - 1)))
            if fate == "lost before":
                machine.lost(instruction, "no answer")
                continue
            if fate == "refused":
                machine.failed(instruction, "not now")
                continue
            try:
                reached = hosts.do(instruction, machine.record.epoch)
            except Refused as error:
                machine.failed(instruction, str(error))
                continue
            if fate == "lost after":
                machine.lost(instruction, "no answer")
            elif fate == "ended" and instruction.act is Act.PROBE:
                hosts.steps[instruction.container.guid] = ContainerStep.ENDED
                machine.done(instruction, ContainerStep.ENDED)
            else:
                machine.done(instruction, reached)
        check(machine.record, hosts)


FATES = ("done", "done", "lost before", "lost after", "refused", "taken over", "stale", "abandoned", "ended")


def test_undo_goes_backwards() -> None:
    plan = planned(CHAIN)
    hosts = Hosts(plan, frozenset({(Act.PROBE, "proxy")}))
    stored = new_record(plan)
    machine = GroupMachine(stored, {})
    undone = []
    while not (machine.record.done and machine.stored):
        machine.was_stored(machine.record)
        for instruction in machine.instructions():
            try:
                machine.done(instruction, hosts.do(instruction, 1))
            except Refused as error:
                machine.failed(instruction, str(error))
            if instruction.act is Act.STOP:
                undone.append(instruction.container.template.appkey)
    assert undone == ["proxy", "web", "store"]
    assert "probe of proxy (image-00000002) on agent-0: probe is broken" in machine.record.reason


def test_a_host_that_is_away_keeps_its_own_containers_only() -> None:
    plan = planned({"a": (), "b": ()})
    hosts = Hosts(plan, steps={container.guid: ContainerStep.READY for container in plan})
    record = replace(new_record(plan), goal=GroupGoal.GONE)
    machine = GroupMachine(record, hosts.survey(1))
    for _ in range(6):
        for instruction in machine.instructions():
            if instruction.container.agent == "agent-1":
                machine.lost(instruction, "nobody answers for agent-1")
            else:
                machine.done(instruction, hosts.do(instruction, 1))
    assert machine.is_stuck
    assert machine.outcome().left == ("image-00000001 on agent-1: stop: nobody answers for agent-1",)
    assert hosts.steps == {"image-00000001": ContainerStep.READY}
    machine.retry()
    while not machine.record.done:
        for instruction in machine.instructions():
            machine.done(instruction, hosts.do(instruction, 1))
    assert machine.outcome().left == ()
    assert hosts.steps == {}
