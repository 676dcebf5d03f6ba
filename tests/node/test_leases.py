"""Leases over real knobs: a keeper killed with -9 at any step leaves nothing behind once the next one has started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fakes.waiting import eventually
from tests.node.burning import burning

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import CgroupLayout
from cotenant.drivers.cgroup.tree import Groups
from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import GiveBack, Knob, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

WHY = Reason("test", "for a test")
WISHES = {
    Knob.CPU_MAX: "30000 50000",
    Knob.CPU_BURST: "10000",
    Knob.CPU_WEIGHT: "50",
    Knob.CPU_IDLE: "1",
    Knob.CPUSET_CPUS: "0",
    Knob.CGROUP_FREEZE: "1",
    Knob.MEMORY_MIN: "1048576",
    Knob.MEMORY_LOW: "2097152",
    Knob.MEMORY_HIGH: "67108864",
    Knob.MEMORY_MAX: "134217728",
    Knob.IO_WEIGHT: "default 50",
}
KILLED_WITH = (Knob.CPU_MAX, Knob.CPU_IDLE, Knob.CGROUP_FREEZE, Knob.MEMORY_MAX)  # at every step of these
MAX_STEPS = 200


class Fatal:
    """The machine's knobs; the process dies by kill -9 before or after the n-th thing that it does to one."""

    def __init__(self, knobs: CgroupKnobs, steps: int, after: bool) -> None:
        self._knobs, self._left, self._after = knobs, steps, after

    def __getattr__(self, name: str) -> object:
        act = getattr(self._knobs, name)
        if name not in ("read", "raw", "write", "restore"):
            return act

        def fatal(*given: object) -> object:
            self._left -= 1
            if self._left < 0 and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = act(*given)
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return fatal


@pytest.fixture
def knobs(layout: CgroupLayout) -> Iterator[CgroupKnobs]:
    with CgroupKnobs(layout) as knobs:
        yield knobs


@pytest.fixture
def targets(knobs: CgroupKnobs, group: str) -> list[KnobTarget]:
    return [KnobTarget(group, knob) for knob in WISHES if knobs.supported(knob) is None]


def executor(knobs: object, folder: Path, group: str) -> tuple[LeaseExecutor, LeaseFile]:
    file = LeaseFile(folder, "this boot")
    now = Clock(lambda: 1_000_000, lambda: 1.0)
    rules = KnobRules((group.split("/")[0],), freezes=True)
    return LeaseExecutor({KnobScope.CGROUP: knobs}, file, AuditTrail(folder), now, rules), file  # type: ignore[dict-item]


def in_a_process_of_its_own(act: Callable[[], None]) -> bool:
    """Whether it came to its end, rather than being killed."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
            os._exit(0)
        except BaseException:
            os._exit(3)
    _, status = os.waitpid(pid, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFEXITED(status)


def test_everything_is_held_and_given_back(
    knobs: CgroupKnobs, targets: list[KnobTarget], group: str, tmp_path: Path
) -> None:
    before = {target: knobs.raw(target) for target in targets}
    keeper, file = executor(knobs, tmp_path, group)
    answers = keeper.hold([SetKnob(target, WISHES[target.knob], WHY) for target in targets])
    told = {answer.target.knob: answer.state for answer in answers}
    # idle takes the weight with it, whichever of the two was asked for first
    assert {state for knob, state in told.items() if knob is not Knob.CPU_WEIGHT} == {LeaseState.HELD}
    assert all(knobs.read(target) == WISHES[target.knob] for target in targets if target.knob is not Knob.CPU_WEIGHT)
    assert all(
        answer.state is LeaseState.RESTORED
        for answer in keeper.give_all_back(WHY)
        if answer.state is not LeaseState.REFUSED
    )
    assert {target: knobs.raw(target) for target in targets} == before
    assert keeper.leases() == ()
    file.close()


def test_a_frozen_groups_processes_stand_still_until_a_later_keeper_thaws_them(
    knobs: CgroupKnobs, groups: Groups, layout: CgroupLayout, group: str, tmp_path: Path
) -> None:
    """The keeper dies by kill -9 while it holds the freeze."""
    target = KnobTarget(group, Knob.CGROUP_FREEZE)
    gap = knobs.supported(Knob.CGROUP_FREEZE)
    if gap is not None:
        pytest.skip(f"{gap.what} needs {gap.needs}")

    def hold_and_die() -> None:
        keeper, _ = executor(knobs, tmp_path, group)
        (answer,) = keeper.hold([SetKnob(target, "1", WHY)])
        assert answer.state is LeaseState.HELD, answer
        os.kill(os.getpid(), signal.SIGKILL)

    with burning(groups, group) as (pid,):
        eventually("the process burns", lambda: cpu_ticks(pid) > 2)
        assert not in_a_process_of_its_own(hold_and_die)
        eventually("it stands still", lambda: is_frozen(layout, group))
        stood = cpu_ticks(pid)
        end_s = time.process_time() + 0.2
        while time.process_time() < end_s:  # it would have had its share
            pass
        assert cpu_ticks(pid) == stood
        keeper, file = executor(knobs, tmp_path, group)
        (answer,) = keeper.restart(file.found.leases)
        assert answer.state is LeaseState.RESTORED
        eventually("it burns again", lambda: cpu_ticks(pid) > stood + 2)
        file.close()


def cpu_ticks(pid: int) -> int:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


def is_frozen(layout: CgroupLayout, group: str) -> bool:
    """What the kernel says, some milliseconds after it was asked."""
    tree = layout.by_controller.get("freezer") or layout.unified
    assert tree is not None
    if tree.version == 1:
        return Path(tree.path, group, "freezer.state").read_text() == "FROZEN\n"
    return "frozen 1" in Path(tree.path, group, "cgroup.events").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("ending", [False, True], ids=["holding", "giving back"])
def test_killed_at_any_step_the_next_keeper_restores_every_knob(
    knobs: CgroupKnobs, targets: list[KnobTarget], group: str, tmp_path: Path, ending: bool, after: bool
) -> None:
    targets = [target for target in targets if target.knob in KILLED_WITH]
    before = {target: knobs.raw(target) for target in targets}
    wishes = [SetKnob(target, WISHES[target.knob], WHY) for target in targets]
    killed = 0
    for steps in range(MAX_STEPS):
        folder = tmp_path / str(steps)

        def live(steps: int = steps, folder: Path = folder) -> None:
            fatal = Fatal(knobs, 10**9 if ending else steps, after)
            keeper, _ = executor(fatal, folder, group)
            keeper.hold(wishes)
            if ending:
                fatal._left = steps
                keeper.give_all_back(WHY)

        ended = in_a_process_of_its_own(live)
        killed += not ended
        if ended and ending:
            assert {target: knobs.raw(target) for target in targets} == before
        try:
            keeper, file = executor(knobs, folder, group)
        except InvalidInput as error:
            raise AssertionError(steps) from error
        keeper.restart(file.found.leases)
        assert {target: knobs.raw(target) for target in targets} == before, steps
        assert keeper.leases() == ()
        file.close()
        if ended:
            break
    else:
        raise AssertionError("never came to its end")
    assert killed >= len(targets)


CROSSINGS: dict[str, list[tuple[Knob, str | None]]] = {  # None: given back
    "a weight between two times of idle": [
        (Knob.CPU_IDLE, "1"), (Knob.CPU_IDLE, "0"), (Knob.CPU_WEIGHT, "50"), (Knob.CPU_IDLE, "1"),
        (Knob.CPU_WEIGHT, None),
    ],
    "idle over a weight that ends first": [
        (Knob.CPU_WEIGHT, "50"), (Knob.CPU_IDLE, "1"), (Knob.CPU_IDLE, "0"), (Knob.CPU_WEIGHT, None),
        (Knob.CPU_IDLE, "1"),
    ],
    "a weight given back under idle": [(Knob.CPU_WEIGHT, "50"), (Knob.CPU_IDLE, "1"), (Knob.CPU_WEIGHT, None)],
}  # fmt: skip


@pytest.mark.parametrize("name", CROSSINGS)
def test_the_weight_comes_back_where_leases_of_idle_and_weight_cross(
    layout: CgroupLayout, knobs: CgroupKnobs, group: str, tmp_path: Path, name: str
) -> None:
    """On the kernel itself: 513 shares, which no cpu.weight expresses, and a keeper that is replaced after each
    step.
    """
    gap = knobs.supported(Knob.CPU_IDLE)
    if gap is not None:
        pytest.skip(f"cpu.idle needs {gap.needs}")
    weight = KnobTarget(group, Knob.CPU_WEIGHT)
    tree = layout.by_controller["cpu"]
    file = Path(tree.path, group, "cpu.shares" if tree.version == 1 else "cpu.weight")
    file.write_text("513")
    before = knobs.raw(weight)
    for dies_after in range(len(CROSSINGS[name]) + 1):
        folder = tmp_path / str(dies_after)
        keeper, state = executor(knobs, folder, group)
        results: list[LeaseState] = []
        for number, (knob, value) in enumerate(CROSSINGS[name]):
            if number == dies_after:
                state.close()
                keeper, state = executor(knobs, folder, group)
                keeper.restart(state.found.leases)
                assert (knobs.read(KnobTarget(group, Knob.CPU_IDLE)), knobs.raw(weight)) == ("0", before)
            target = KnobTarget(group, knob)
            answers = (
                keeper.give_back([GiveBack(target, WHY)])
                if value is None
                else keeper.hold([SetKnob(target, value, WHY)])
            )
            results += [answer.state for answer in answers]
        results += [answer.state for answer in keeper.give_all_back(WHY)]
        assert LeaseState.YIELDED not in results
        assert (knobs.read(KnobTarget(group, Knob.CPU_IDLE)), knobs.raw(weight)) == ("0", before)
        assert keeper.leases() == ()
        state.close()


def test_a_lease_of_a_removed_group_ends(knobs: CgroupKnobs, groups: Groups, group: str, tmp_path: Path) -> None:
    keeper, file = executor(knobs, tmp_path, group)
    target = KnobTarget(group, Knob.CPU_MAX)
    assert keeper.hold([SetKnob(target, "30000 100000", WHY)])[0].state is LeaseState.HELD
    groups.remove(group)
    groups.make(group)
    keeper.give_all_back(WHY)
    assert keeper.leases() == ()
    assert knobs.read(target) == "max 100000"
    file.close()


def test_a_lease_of_a_cpuset_with_running_tasks_ends(
    knobs: CgroupKnobs, groups: Groups, group: str, tmp_path: Path
) -> None:
    """On v2 it was empty, and no kernel takes that back while tasks are in it."""
    keeper, file = executor(knobs, tmp_path, group)
    target = KnobTarget(group, Knob.CPUSET_CPUS)
    with burning(groups, group):
        assert keeper.hold([SetKnob(target, "0", WHY)])[0].state is LeaseState.HELD
        (answer,) = keeper.give_all_back(WHY)
        # every CPU, which means the same as none
        assert answer.state is LeaseState.RESTORED, answer.detail
        inherited = set(parse_cpus(knobs.read(target) or "0"))
        assert inherited >= os.sched_getaffinity(0)
    assert keeper.leases() == ()
    file.close()
