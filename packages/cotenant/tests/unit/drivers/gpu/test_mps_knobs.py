"""Limits of MPS clients through a stand-in for NVIDIA's control program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.node.mps_control import FakeMps

from cotenant.drivers.gpu.mps import MpsControl
from cotenant.drivers.gpu.mps_knobs import MpsKnobs
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.machine.knob import ALL_SERVERS, Knob, KnobScope, KnobTarget, LeaseState, SetKnob, Vanished
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

TO_COME, RUNNING = KnobTarget("default", Knob.MPS_THREADS), KnobTarget("4711", Knob.MPS_THREADS)
ALL = KnobTarget(ALL_SERVERS, Knob.MPS_THREADS)
MEMORY = KnobTarget("default/0", Knob.MPS_MEMORY)
WHY = Reason("test", "because")


@pytest.fixture
def mps(tmp_path: Path) -> FakeMps:
    return FakeMps(tmp_path)


def port(mps: FakeMps) -> MpsKnobs:
    return MpsKnobs(MpsControl(mps.pipe, str(mps.program)))


def test_threads_of_servers_to_come_and_of_one_that_runs(mps: FakeMps) -> None:
    mps.start(servers=("4711",))
    knobs = port(mps)
    for target in (TO_COME, RUNNING):
        raw = knobs.raw(target)
        knobs.write(target, "30")
        assert (raw, knobs.read(target)) == ("100", "30")
    assert mps.state["threads"] == 30.0
    knobs.restore(RUNNING, "100")
    assert (knobs.read(RUNNING), knobs.read(TO_COME)) == ("100", "30")


def test_all_servers_and_those_to_come_are_limited_together_and_given_back_each_what_it_had(mps: FakeMps) -> None:
    mps.start(servers=("4711", "4712"))
    knobs = port(mps)
    knobs.write(RUNNING, "60")
    raw = knobs.raw(ALL)
    assert (raw, knobs.read(ALL)) == ("default=100 4711=60 4712=100", "100")
    knobs.write(ALL, "30")
    other = KnobTarget("4712", Knob.MPS_THREADS)
    assert [knobs.read(target) for target in (ALL, TO_COME, RUNNING, other)] == ["30"] * 4
    knobs.restore(ALL, raw)
    assert [knobs.read(target) for target in (TO_COME, RUNNING, other)] == ["100", "60", "100"]
    with pytest.raises(InvalidInput, match="what raw"):
        knobs.restore(ALL, "nonsense")
    mps.quit()
    with pytest.raises(Vanished):
        knobs.identity(ALL)


def test_a_server_that_came_under_the_limit_gets_what_those_to_come_had(mps: FakeMps) -> None:
    mps.start(servers=("4711",))
    knobs = port(mps)
    state = mps.state
    mps.start()
    raw = knobs.raw(ALL)
    knobs.write(ALL, "30")
    (mps.pipe / "state.json").write_text(json.dumps(state | {"threads": 30.0, "servers": {"4711": {"threads": 30.0}}}))
    knobs.restore(ALL, raw)
    assert [knobs.read(target) for target in (TO_COME, RUNNING)] == ["100", "100"]


def test_memory_is_limited_only_where_a_limit_stood_since_none_can_be_removed(mps: FakeMps) -> None:
    mps.start(memory_mib={"0": 8192})
    knobs = port(mps)
    raw = knobs.raw(MEMORY)
    knobs.write(MEMORY, "512")
    assert knobs.read(MEMORY) == "512"
    knobs.restore(MEMORY, raw)
    assert mps.state["memory"] == {"0": 8192}
    with pytest.raises(Unsupported, match="NVIDIA has no command to remove one"):
        knobs.raw(KnobTarget("default/1", Knob.MPS_MEMORY))


def test_without_a_daemon_or_its_program_a_sentence_says_so(mps: FakeMps) -> None:
    gap = port(mps).supported(Knob.MPS_THREADS)
    assert gap is not None
    assert gap.needs == f"a running MPS control daemon at {mps.pipe}"
    with pytest.raises(Unsupported, match="a running MPS control daemon"):
        port(mps).write(TO_COME, "30")
    gap = MpsKnobs(MpsControl(mps.pipe, "no-such-program")).supported(Knob.MPS_THREADS)
    assert gap is not None
    assert gap.needs == "no-such-program, of NVIDIA's driver"


def test_a_daemon_or_server_that_ended_took_its_limits_along(mps: FakeMps) -> None:
    mps.start(servers=("4711",))
    knobs = port(mps)
    before = knobs.identity(TO_COME)
    assert knobs.identity(RUNNING) != before
    mps.quit()
    with pytest.raises(Vanished):
        knobs.identity(TO_COME)
    mps.start()
    assert knobs.identity(TO_COME) != before
    with pytest.raises(Vanished, match="no such MPS server"):
        knobs.read(RUNNING)


def keeper(mps: FakeMps, folder: Path) -> tuple[LeaseExecutor, LeaseFile]:
    file = LeaseFile(folder / "state", "this boot")
    clock, rules = Clock(lambda: 1_000_000, lambda: 1.0), KnobRules((), mps=True)
    return LeaseExecutor({KnobScope.MPS: port(mps)}, file, AuditTrail(folder / "state"), clock, rules), file


@pytest.mark.parametrize("target", [TO_COME, ALL], ids=["servers to come", "all"])
@pytest.mark.parametrize("is_new", [False, True], ids=["same daemon", "another daemon"])
def test_a_later_keeper_gives_back_what_one_that_was_killed_held(
    mps: FakeMps, tmp_path: Path, is_new: bool, target: KnobTarget
) -> None:
    mps.start(servers=("4711",))
    first, file = keeper(mps, tmp_path)
    (answer,) = first.hold([SetKnob(target, "30", WHY)])
    assert (answer.state, mps.state["threads"]) == (LeaseState.HELD, 30.0)
    file.close()
    if is_new:
        mps.quit()
        mps.start()
    second, file = keeper(mps, tmp_path)
    (answer,) = second.restart(file.found.leases)
    assert (answer.state, mps.state["threads"]) == (LeaseState.GONE if is_new else LeaseState.RESTORED, 100.0)
    file.close()


@pytest.mark.parametrize(
    ("group", "knob", "value", "why"),
    [
        ("default", Knob.MPS_THREADS, "0", "1 to 100 percent"),
        ("default/0", Knob.MPS_THREADS, "30", "is not default, all, or a server's process id"),
        ("all/0", Knob.MPS_MEMORY, "512", "is not default/DEVICE"),
        ("4711; quit", Knob.MPS_THREADS, "30", "is not default"),
        ("default", Knob.MPS_MEMORY, "512", "is not default/DEVICE"),
        ("default/0 1", Knob.MPS_MEMORY, "512", "is not default/DEVICE"),
    ],
)
def test_what_the_keeper_refuses(group: str, knob: Knob, value: str, why: str) -> None:
    assert why in (KnobRules((), mps=True).refusal(SetKnob(KnobTarget(group, knob), value, WHY)) or "")
    told = KnobRules(()).refusal(SetKnob(KnobTarget("default", Knob.MPS_THREADS), "30", WHY))
    assert told == "no limit of MPS clients is set here (--mps)"
