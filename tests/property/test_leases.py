"""Whatever is asked, fails, vanishes, is written by others or is killed in between: a knob that nobody holds stands as its owner left it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fakes.kept_knobs import FusedMemory, KeptKnobs, Killed

from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.leases.leases import Leases
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import GiveBack, Knob, KnobChange, LeaseState, Scope, SetKnob, Target
from cotenant.model.machine.node_decision import Reason
from cotenant.services.keeper.allowed import Rules
from cotenant.services.keeper.carrying import Carrier, Clock

GROUPS = ("be/a", "be/a/x")
WISHES = {
    Knob.CPU_MAX: ("20000 100000", "50000 100000", "max 100000"),
    Knob.CPU_BURST: ("5000", "0"),
    Knob.CPU_WEIGHT: ("2", "50"),
    Knob.CPU_IDLE: ("1",),
    Knob.MEMORY_HIGH: ("10000", "20480"),  # the first is rounded
    Knob.CPUSET_CPUS: ("0", "1"),
}
THEIRS = {  # never what a wish could have made
    Knob.CPU_MAX: ("30000 100000", "40000 50000"),
    Knob.CPU_BURST: ("3000",),
    Knob.CPU_WEIGHT: ("300",),
    Knob.MEMORY_HIGH: ("40960",),
    Knob.CPUSET_CPUS: ("0-1",),
}
REASON = Reason("test", "because")
targets = st.builds(Target, st.sampled_from(GROUPS), st.sampled_from(list(WISHES)))
wishes = st.one_of(
    [
        st.builds(
            SetKnob,
            st.builds(Target, st.sampled_from(GROUPS), st.just(knob)),
            st.sampled_from(values),
            st.just(REASON),
            st.integers(1, 20),
        )
        for knob, values in WISHES.items()
    ]
)
fuses = st.one_of(st.just((None, False)), st.tuples(st.integers(0, 16), st.booleans()))
theirs = st.one_of(
    [
        st.tuples(st.builds(Target, st.sampled_from(GROUPS), st.just(knob)), st.sampled_from(values))
        for knob, values in THEIRS.items()
    ]
)


class Nowhere:
    def write(self, changes: list[KnobChange]) -> None:
        pass


class Keeping(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
        self.now_us = 0
        self.knobs = KeptKnobs(GROUPS)
        self.owned: dict[Target, str] = {}  # what stands where nobody holds it
        self.unclear: dict[Target, str | None] = {}  # what may stand instead after a kill; None: anything
        self.file: LeaseFile | None = None

    def teardown(self) -> None:
        self.file.close()
        shutil.rmtree(self.folder)

    @initialize(values=st.lists(theirs, max_size=6))
    def begin(self, values: list[tuple[Target, str]]) -> None:
        for target, value in values:
            self.knobs.set_outside(target, value)
        self.owned = {Target(group, knob): self.stands(Target(group, knob)) for group in GROUPS for knob in WISHES}
        self.start()

    def start(self) -> None:
        self.file = LeaseFile(self.folder, "boot")
        self.memory = FusedMemory(self.file, self.knobs.fuse)
        self.engine = Leases()
        clock = Clock(lambda: self.now_us, lambda: float(self.now_us))
        self.carrier = Carrier({Scope.CGROUP: self.knobs}, self.memory, Nowhere(), clock, Rules(("be",)), self.engine)
        self.attempt(lambda: self.carrier.restart(self.file.found.leases))

    def attempt(self, work: Callable[[], object], fuse: tuple[int | None, bool] = (None, False)) -> None:
        self.knobs.fuse.steps, self.knobs.fuse.after = fuse
        try:
            work()
        except Killed:
            self.killed()
        self.knobs.fuse.steps = None

    def killed(self) -> None:
        for lease in self.file.leases():
            if lease.state is not LeaseState.HELD or lease.stands is None:
                self.unclear.setdefault(lease.target, lease.before)
                if lease.target.knob is Knob.CPU_IDLE:
                    self.unclear[Target(lease.target.group, Knob.CPU_WEIGHT)] = None
        self.file.close()
        self.start()

    def stands(self, target: Target) -> str:
        return self.knobs._value(target)

    @rule(batch=st.lists(wishes, min_size=1, max_size=4), fuse=fuses)
    def hold(self, batch: list[SetKnob], fuse: tuple[int | None, bool]) -> None:
        self.attempt(lambda: self.carrier.hold(batch), fuse)

    @rule(batch=st.lists(targets, min_size=1, max_size=3), fuse=fuses)
    def give_back(self, batch: list[Target], fuse: tuple[int | None, bool]) -> None:
        self.attempt(lambda: self.carrier.give_back([GiveBack(target, REASON) for target in batch]), fuse)

    @rule(us=st.integers(0, 15), fuse=fuses)
    def time_passes(self, us: int, fuse: tuple[int | None, bool]) -> None:
        self.now_us += us
        self.attempt(self.carrier.tick, fuse)

    @rule()
    def killed_between_rounds(self) -> None:
        self.killed()

    @rule(change=theirs)
    def somebody_else_writes(self, change: tuple[Target, str]) -> None:
        target, value = change
        try:
            self.knobs.set_outside(target, value)
        except (InvalidInput, KeyError):
            return
        self.owned[target] = value
        self.unclear.pop(target, None)

    @rule(group=st.sampled_from(GROUPS), again=st.booleans())
    def a_group_goes_or_comes(self, group: str, again: bool) -> None:
        there = group in self.knobs.groups
        self.knobs.remove(group)
        if there and not again:
            return
        self.knobs.add(group)
        for knob in WISHES:
            self.owned[Target(group, knob)] = self.stands(Target(group, knob))
            self.unclear.pop(Target(group, knob), None)

    @rule(
        operation=st.sampled_from(["read", "raw", "write", "restore"]),
        which=targets,
        error=st.sampled_from([Transient("busy"), InvalidInput("x", "y", "z"), Permanent("no")]),
        times=st.integers(1, 2),
    )
    def something_fails(self, operation: str, which: Target, error: Exception, times: int) -> None:
        self.knobs.fail(operation, which, *[error] * times)

    @rule(full=st.booleans())
    def the_disk(self, full: bool) -> None:
        self.memory.full = full

    @invariant()
    def what_nobody_holds_stands_as_its_owner_left_it(self) -> None:
        if self.file is None:
            return
        self.engine.validate()
        self.check({lease.target for lease in self.engine.leases()})

    def check(self, held: set[Target]) -> None:
        idle = {target.group for target in held if target.knob is Knob.CPU_IDLE}
        for target, value in self.owned.items():
            if target.group not in self.knobs.groups or target in held:
                continue
            if target.knob is Knob.CPU_WEIGHT and target.group in idle:
                continue  # pinned
            allowed = {value, self.unclear.get(target, value)}
            assert None in allowed or self.stands(target) in allowed, (target, self.stands(target), allowed)

    @rule()
    def everything_comes_back(self) -> None:
        self.knobs._failures.clear()
        self.memory.full = False
        for _ in range(3):
            self.carrier.give_all_back(REASON)
            self.carrier.tick()
        assert self.carrier.leases() == ()
        assert self.file.leases() == ()
        self.check(set())


TestKeeping = pytest.mark.slow(Keeping.TestCase)
TestKeeping.settings = settings(max_examples=250, stateful_step_count=30, deadline=None)
