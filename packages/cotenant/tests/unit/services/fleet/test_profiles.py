"""Stacks of a container's programs by its agent: bounded, of its own containers only, by right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from cotenant.drivers.nats.contract import BusMessage
from cotenant.drivers.stacks.programs import Language, RunningProgram
from cotenant.drivers.stacks.sampling import SampledStacks
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.containers import FleetContainer
from cotenant.model.fleet.profiles import Profile, Profiled
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.machine.stacks import Frame, Stack, StackRun, StackTimeline
from cotenant.services.fleet.functions.profiles import ProfileFunction
from cotenant.services.fleet.rpc import decode, encode
from cotenant.services.profiling.code import merged
from cotenant.services.profiling.output import Output

MAIN, WORK = Frame("main", "app.py", 9), Frame("work", "app.py", 3)


async def process_of(guid: str) -> FleetContainer:
    if guid != "web-1":
        raise NoSuchGuid(f"no container of this host has the guid {guid}")
    return FleetContainer("web-1", "id", "web:1", "running", "", "", 0, "", 4242, 1.0, 0, out_of_memory=False)


def python(pid: int) -> RunningProgram:
    return RunningProgram(pid, Language.PYTHON)


def asked(request: Profile, stacks: dict[int, list[Stack]]) -> Profiled:
    def take(programs: Sequence[RunningProgram], *_: object) -> SampledStacks:
        return SampledStacks(tuple(stack for program in programs for stack in stacks[program.pid]), ("a note",))

    function = ProfileFunction(process_of, lambda _: [python(pid) for pid in sorted(stacks)], take)
    found = asyncio.run(function.verbs["profile"].handle(request, BusMessage("guid.agent-a.rpc.profile")))
    return decode(Profiled, encode(found), "answer")


def test_processes_are_merged_and_shown_as_those_of_this_host(tmp_path: Path) -> None:
    found = asked(Profile("web-1"), {7: [Stack((MAIN, WORK), 30)], 8: [Stack((MAIN, WORK), 10), Stack((MAIN,), 2)]})
    assert (found.pids, found.stacks, found.left_out) == ((7, 8), (Stack((MAIN, WORK), 40), Stack((MAIN,), 2)), 0)
    assert found.notes == ("a note",)
    profile = merged("web-1", found.pids, found.stacks, found.at_s, 10, 100, Output(tmp_path / "out.pb.gz"))
    assert [(hot.frame, hot.own, hot.total) for hot in profile.frames] == [(WORK, 40, 40), (MAIN, 2, 42)]
    assert (tmp_path / "out.pb.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_an_answer_has_room_in_a_message_and_rare_stacks_go_first() -> None:
    many = [Stack(tuple(Frame("f" * 100, "d" * 100, k) for _ in range(20)), k) for k in range(1, 1000)]
    found = asked(Profile("web-1"), {7: many})
    assert len(encode(found)) < 600 << 10
    assert found.stacks[0].samples == 999
    assert sum(stack.samples for stack in found.stacks) + found.left_out == sum(range(1, 1000))
    assert found.left_out > 0


def test_a_timeline_has_room_in_a_message_and_is_cut_at_its_end() -> None:
    frames = tuple(Frame("f" * 100, "d" * 100, k) for k in range(2000))
    runs = tuple(StackRun(7, 1, k, k + 1, k) for k in range(2000))
    long = StackTimeline(frames, tuple((k,) for k in range(2000)), runs, 0, 2000)
    function = ProfileFunction(process_of, lambda _: [python(7)], take_timeline=lambda *_: long)
    request = Profile("web-1", over_time=True)
    answer = asyncio.run(function.verbs["profile"].handle(request, BusMessage("guid.agent-a.rpc.profile")))
    assert len(encode(answer)) < 600 << 10
    found = decode(Profiled, encode(answer), "answer").timeline
    assert found is not None
    assert 1000 < found.end_ns == len(found.runs) < 2000
    assert [found.frames[found.stacks[run.stack][0]].line for run in found.runs] == list(range(len(found.runs)))


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(NoSuchGuid):
        asked(Profile("web-2"), {7: []})
    with pytest.raises(Permanent, match="no process"):
        asked(Profile("web-1"), {})
    other = ProfileFunction(process_of, lambda _: [RunningProgram(7, Language.GO)])
    message = BusMessage("guid.agent-a.rpc.profile")
    with pytest.raises(Permanent, match="no Python process"):
        asyncio.run(other.verbs["profile"].handle(Profile("web-1", over_time=True), message))
    with pytest.raises(Exception, match="5 more are asked for"):
        asked(Profile("web-1"), {pid: [] for pid in range(5)})
    with pytest.raises(InvalidInput, match="1 to 60"):
        Profile("web-1", 61)
    assert "profiles" not in AgentConfiguration().functions
