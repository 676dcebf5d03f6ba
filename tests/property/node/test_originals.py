"""Whatever knobs are held and given back in whatever order, and wherever the keeper is killed: what stood before stands
again.

The knobs are those that a kernel couples (idle and weight, quota and burst, a group and its parent, the memory limits),
through the real driver, over trees that take writes as the kernels of cgroup v1 and v2 do. No other process writes, so
none may be reported.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.cgroup_trees import DEVICE, CgroupTrees, KernelTree
from tests.fakes.node.dying_keeper import fused
from tests.fakes.node.kept_knobs import Fuse, FusedMemory, Killed
from tests.property.few import examples, first_cases

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.translation import THROTTLE_FILES
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.leases.leases import Leases
from cotenant.model.machine.knob import GiveBack, Knob, KnobChange, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

REASON = Reason("test", "because")
GROUPS = ("be/a", "be/a/x")
MIB = 1 << 20
VALUES = {
    Knob.CPU_IDLE: ("1", "0"),
    Knob.CPU_WEIGHT: ("1", "50", "100"),
    Knob.CPU_MAX: ("20000 100000", "50000 50000", "max 100000"),
    Knob.CPU_BURST: ("5000", "0"),
    Knob.CPUSET_CPUS: ("0", "1", "0-1"),
    Knob.MEMORY_MIN: (str(2 * MIB),),
    Knob.MEMORY_LOW: (str(4 * MIB),),
    Knob.MEMORY_HIGH: (str(64 * MIB + 17), "max"),
    Knob.MEMORY_MAX: (str(128 * MIB + 17), "max"),
    Knob.IO_WEIGHT: ("default 50", "default 1000"),
    Knob.IO_MAX: (
        f"{DEVICE} rbps=1048576 wbps=max riops=max wiops=max",
        f"{DEVICE} rbps=max wbps=2097152 riops=100 wiops=max",
    ),
}
ONLY_V2 = {Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH}
# what an owner may have written: texts that the canonical form cannot express among them
V1_FILES = {
    "cpu.idle": ("0", "0", "1"),
    "cpu.shares": ("1024", "513", "2", "3", "262144"),
    "cpu.cfs_quota_us": ("-1", "30000"),
    "cpu.cfs_burst_us": ("0", "3000"),
    "memory.limit_in_bytes": ("9223372036854771712", "536870912"),
    "blkio.bfq.weight": ("100", "7"),
    "blkio.throttle.read_bps_device": ("", f"{DEVICE} 4194304"),
}
V2_FILES = {
    "cpu.idle": ("0", "0", "1"),
    "cpu.weight": ("100", "51", "1", "10000"),
    "cpu.max": ("max 100000", "30000 50000"),
    "cpu.max.burst": ("0", "3000"),
    "memory.min": ("0", "1048576"),
    "memory.low": ("0", "max"),
    "memory.high": ("max", "268435456"),
    "memory.max": ("max", "536870912"),
    "io.weight": ("default 100", "default 7"),
    "io.max": ("", f"{DEVICE} rbps=4194304 wbps=max riops=max wiops=max"),
}
targets = st.builds(KnobTarget, st.sampled_from(GROUPS), st.sampled_from(list(VALUES)))
idle_or_weight = st.builds(KnobTarget, st.sampled_from(GROUPS), st.sampled_from((Knob.CPU_IDLE, Knob.CPU_WEIGHT)))
some = st.one_of(idle_or_weight, targets)
wanted = some.flatmap(
    lambda target: st.builds(
        SetKnob, st.just(target), st.sampled_from(VALUES[target.knob]), st.just(REASON), st.integers(1, 20)
    )
)
fuses = st.one_of(st.none(), st.tuples(st.integers(0, 25), st.booleans()))
steps = st.one_of(
    st.tuples(st.lists(wanted, min_size=1, max_size=4), fuses),
    st.tuples(st.lists(some, min_size=1, max_size=3), fuses),
    st.tuples(st.integers(0, 15), fuses),
    st.tuples(st.none(), st.none()),  # kill -9 between two rounds
)
Step = tuple[Sequence[SetKnob] | Sequence[KnobTarget] | int | None, tuple[int, bool] | None]


class Changes:
    """The audit trail in memory."""

    def __init__(self) -> None:
        self.all: list[KnobChange] = []

    def write(self, changes: Sequence[KnobChange]) -> None:
        self.all += changes


class Machine:
    """One keeper after another over one tree and one state folder."""

    def __init__(self, folder: Path, kind: str, owner: dict[tuple[str, str], str]) -> None:
        self.folder = folder
        self.trees = CgroupTrees(folder / "tree", kind)
        self.trees.add("be/a/x")
        for (group, name), text in owner.items():
            self.trees.say(group, name, text + "\n")
        for group in GROUPS:
            if self.trees.path(group, "cpu.idle").read_text().strip() == "1":
                pinned = ("cpu.shares", "3") if kind == "v1" else ("cpu.weight", "0")
                self.trees.say(group, *pinned)
        self.originals = self.texts()
        self.now_us = 0
        self.trail = Changes()
        self.fuse = Fuse()
        self.knobs = CgroupKnobs(self.trees.layout, fused(KernelTree, self.fuse))
        self.start()

    def texts(self) -> dict[str, str]:
        """All files of the groups."""
        files = (path for path in self.trees.root.rglob("*") if path.is_file() and "be" in path.parts)
        return {str(path.relative_to(self.trees.root)): path.read_text().strip() for path in files}

    def start(self) -> None:
        self.file = LeaseFile(self.folder / "state", "boot")
        self.engine = Leases()
        clock = Clock(lambda: self.now_us, lambda: float(self.now_us))
        self.executor = LeaseExecutor(
            {KnobScope.CGROUP: self.knobs},
            FusedMemory(self.file, self.fuse),
            self.trail,
            clock,
            KnobRules(("be",)),
            self.engine,
        )
        self.executor.restart(self.file.found.leases)

    def kill(self) -> None:
        self.file.close()
        self.start()

    def attempt(self, work: Callable[[], object], fuse: tuple[int, bool] | None) -> None:
        self.fuse.steps, self.fuse.after = fuse or (None, False)
        try:
            work()
        except Killed:
            self.kill()
        self.fuse.steps = None
        self.engine.validate()

    def run(self, step: Step) -> None:
        what, fuse = step
        if what is None:
            self.kill()
        elif isinstance(what, int):
            self.now_us += what
            self.attempt(self.executor.tick, fuse)
        else:
            holds = [wish for wish in what if isinstance(wish, SetKnob)]
            ends = [GiveBack(wish, REASON) for wish in what if isinstance(wish, KnobTarget)]
            self.attempt(lambda: self.executor.hold(holds) if holds else self.executor.give_back(ends), fuse)

    def restore_all(self) -> None:
        """As a keeper that stops; a restore that another one blocks is tried again."""
        for _ in range(4):
            self.now_us += 60_000_000
            self.executor.give_all_back(REASON)
            self.executor.tick()

    def check_unheld(self) -> None:
        """A knob without a lease has its original; of idle and weight, where neither has one."""
        held = {lease.target for lease in self.engine.leases()}
        busy = {(target.group, target.knob) for target in held}
        now = self.texts()
        for group in GROUPS:
            for knob, names in FILES_OF.items():
                if any((group, partner) in busy for partner in PARTNERS.get(knob, (knob,))):
                    continue
                for name in names:
                    for path, text in self.originals.items():
                        if path.endswith(f"/{group}/{name}") or path == f"{group}/{name}":
                            assert now[path] == text, (path, now[path], text)


PARTNERS = {Knob.CPU_IDLE: (Knob.CPU_IDLE, Knob.CPU_WEIGHT), Knob.CPU_WEIGHT: (Knob.CPU_IDLE, Knob.CPU_WEIGHT)}
FILES_OF = {
    Knob.CPU_IDLE: ("cpu.idle",),
    Knob.CPU_WEIGHT: ("cpu.shares", "cpu.weight"),
    Knob.CPU_MAX: ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    Knob.CPU_BURST: ("cpu.max.burst", "cpu.cfs_burst_us"),
    Knob.CPUSET_CPUS: ("cpuset.cpus",),
    Knob.MEMORY_MIN: ("memory.min",),
    Knob.MEMORY_LOW: ("memory.low",),
    Knob.MEMORY_HIGH: ("memory.high",),
    Knob.MEMORY_MAX: ("memory.limit_in_bytes", "memory.max"),
    Knob.IO_WEIGHT: ("blkio.bfq.weight", "io.weight"),
    Knob.IO_MAX: (*THROTTLE_FILES, "io.max"),
}


def owners(files: dict[str, tuple[str, ...]]) -> st.SearchStrategy[dict[tuple[str, str], str]]:
    """What an owner wrote: to the parent anything, to the child what no parent's quota forbids."""
    return st.fixed_dictionaries(
        {
            (group, name): st.sampled_from(texts)
            for group in GROUPS
            for name, texts in files.items()
            if group == GROUPS[0] or not name.startswith("cpu.max")
        }
    ).map(lambda owner: {place: text for place, text in owner.items() if place != (GROUPS[1], "cpu.cfs_quota_us")})


def lives(kind: str, owner: dict[tuple[str, str], str], steps: Sequence[Step]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    machine = Machine(folder, kind, owner)
    try:
        for step in steps:
            machine.run(step)
            machine.check_unheld()
        machine.restore_all()
        assert machine.executor.leases() == ()
        assert machine.texts() == machine.originals
        foreign = [change for change in machine.trail.all if change.result is LeaseState.YIELDED]
        assert not foreign, foreign
    finally:
        machine.knobs.close()
        machine.file.close()
        shutil.rmtree(folder)


def hold(knob: Knob, value: str) -> Step:
    return ([SetKnob(KnobTarget("be/a", knob), value, REASON, 1_000_000)], None)


def give_back(knob: Knob) -> Step:
    return ([KnobTarget("be/a", knob)], None)


IDLE, WEIGHT = Knob.CPU_IDLE, Knob.CPU_WEIGHT
CROSSINGS: dict[str, list[Step]] = {
    "the weight is taken between two times of idle": [hold(IDLE, "1"), hold(IDLE, "0"), hold(WEIGHT, "1"),
        hold(IDLE, "1")],
    "the weight is taken while idle is held off": [hold(IDLE, "1"), hold(IDLE, "0"), hold(WEIGHT, "1"),
        give_back(IDLE)],
    "idle is held over a held weight that ends first": [
        hold(WEIGHT, "50"), hold(IDLE, "1"), hold(IDLE, "0"), give_back(WEIGHT), hold(IDLE, "1"), give_back(IDLE),
    ],
    "the weight is asked for anew while idle ends": [hold(WEIGHT, "50"), hold(IDLE, "1"), hold(WEIGHT, "1"),
        give_back(IDLE)],
    "the weight is given back under idle": [hold(WEIGHT, "50"), hold(IDLE, "1"), give_back(WEIGHT), hold(IDLE, "0")],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v1", "v2"])
@pytest.mark.parametrize("name", CROSSINGS)
@pytest.mark.parametrize("was_idle", ["0", "1"])
def test_a_value_of_one_lease_is_never_the_original_of_another(kind: str, name: str, was_idle: str) -> None:
    owner = {("be/a", "cpu.shares" if kind == "v1" else "cpu.weight"): "513", ("be/a", "cpu.idle"): was_idle}
    lives(kind, owner, CROSSINGS[name])
    for dies_at in range(len(CROSSINGS[name])):
        lives(kind, owner, [*CROSSINGS[name][: dies_at + 1], (None, None), *CROSSINGS[name][dies_at + 1 :]])


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None)
@given(owner=owners(V1_FILES), steps=st.lists(steps, min_size=2, max_size=14))
def test_on_v1_what_stood_before_stands_again(owner: dict[tuple[str, str], str], steps: list[Step]) -> None:
    def exists(what: Sequence[SetKnob] | Sequence[KnobTarget] | int | None) -> bool:
        entry = what if isinstance(what, list) else []
        return not any((one.target if isinstance(one, SetKnob) else one).knob in ONLY_V2 for one in entry)

    lives("v1", owner, [step for step in steps if exists(step[0])])


@pytest.mark.slow
@settings(max_examples=examples(50), deadline=None)
@given(owner=owners(V2_FILES), steps=st.lists(steps, min_size=2, max_size=14))
def test_on_v2_what_stood_before_stands_again(owner: dict[tuple[str, str], str], steps: list[Step]) -> None:
    lives("v2", owner, steps)


test_first_cases = first_cases(
    test_on_v1_what_stood_before_stands_again,
    test_on_v2_what_stood_before_stands_again,
    most=3,
)
