"""Whatever is requested, fails, vanishes, is written by others or is killed in between: a knob without a lease has
its owner's value.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fakes.node.kept_knobs import FusedMemory, KeptKnobs, Killed
from tests.property.few import examples

from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.leases.leases import Leases
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import GiveBack, Knob, KnobChange, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

GROUPS = ("be/a", "be/a/x")
REQUESTS = {
    Knob.CPU_MAX: ("20000 100000", "50000 100000", "max 100000"),
    Knob.CPU_BURST: ("5000", "0"),
    Knob.CPU_WEIGHT: ("2", "50"),
    Knob.CPU_IDLE: ("1",),
    Knob.MEMORY_HIGH: ("10000000", "20480000"),  # the first is rounded
    Knob.CPUSET_CPUS: ("0", "1"),
}
FOREIGN = {  # never a value that a request could have set
    Knob.CPU_MAX: ("30000 100000", "40000 50000"),
    Knob.CPU_BURST: ("3000",),
    Knob.CPU_WEIGHT: ("300",),
    Knob.MEMORY_HIGH: ("40960000",),
    Knob.CPUSET_CPUS: ("0-1",),
}
REASON = Reason("test", "because")
targets = st.builds(KnobTarget, st.sampled_from(GROUPS), st.sampled_from(list(REQUESTS)))
requests = st.one_of(
    [
        st.builds(
            SetKnob,
            st.builds(KnobTarget, st.sampled_from(GROUPS), st.just(knob)),
            st.sampled_from(values),
            st.just(REASON),
            st.integers(1, 20),
        )
        for knob, values in REQUESTS.items()
    ]
)
fuses = st.one_of(st.just((None, False)), st.tuples(st.integers(0, 16), st.booleans()))
foreign = st.one_of(
    [
        st.tuples(st.builds(KnobTarget, st.sampled_from(GROUPS), st.just(knob)), st.sampled_from(values))
        for knob, values in FOREIGN.items()
    ]
)


class Nowhere:
    def write(self, changes: list[KnobChange]) -> None:
        pass


class KeeperMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
        self.now_us = 0
        self.knobs = KeptKnobs(GROUPS)
        self.owned: dict[KnobTarget, str] = {}  # the owner's value of every knob
        self.unclear: dict[KnobTarget, str | None] = {}  # other values that are possible after a kill; None: any
        self.file: LeaseFile | None = None

    def teardown(self) -> None:
        self.file.close()
        shutil.rmtree(self.folder)

    @initialize(values=st.lists(foreign, max_size=6))
    def begin(self, values: list[tuple[KnobTarget, str]]) -> None:
        for target, value in values:
            self.knobs.set_outside(target, value)
        self.owned = {
            KnobTarget(group, knob): self.value(KnobTarget(group, knob)) for group in GROUPS for knob in REQUESTS
        }
        self.start()

    def start(self) -> None:
        self.file = LeaseFile(self.folder, "boot")
        self.memory = FusedMemory(self.file, self.knobs.fuse)
        self.engine = Leases()
        clock = Clock(lambda: self.now_us, lambda: float(self.now_us))
        self.executor = LeaseExecutor(
            {KnobScope.CGROUP: self.knobs}, self.memory, Nowhere(), clock, KnobRules(("be",)), self.engine
        )
        self.attempt(lambda: self.executor.restart(self.file.found.leases))

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
                    self.unclear[KnobTarget(lease.target.group, Knob.CPU_WEIGHT)] = None
        self.file.close()
        self.start()

    def value(self, target: KnobTarget) -> str:
        return self.knobs._value(target)

    @rule(batch=st.lists(requests, min_size=1, max_size=4), fuse=fuses)
    def hold(self, batch: list[SetKnob], fuse: tuple[int | None, bool]) -> None:
        self.attempt(lambda: self.executor.hold(batch), fuse)

    @rule(batch=st.lists(targets, min_size=1, max_size=3), fuse=fuses)
    def give_back(self, batch: list[KnobTarget], fuse: tuple[int | None, bool]) -> None:
        self.attempt(lambda: self.executor.give_back([GiveBack(target, REASON) for target in batch]), fuse)

    @rule(us=st.integers(0, 15), fuse=fuses)
    def time_passes(self, us: int, fuse: tuple[int | None, bool]) -> None:
        self.now_us += us
        self.attempt(self.executor.tick, fuse)

    @rule()
    def killed_between_rounds(self) -> None:
        self.killed()

    @rule(change=foreign)
    def another_process_writes(self, change: tuple[KnobTarget, str]) -> None:
        target, value = change
        try:
            self.knobs.set_outside(target, value)
        except (InvalidInput, KeyError):
            return
        self.owned[target] = value
        self.unclear.pop(target, None)

    @rule(group=st.sampled_from(GROUPS), again=st.booleans())
    def a_group_is_deleted_or_created(self, group: str, again: bool) -> None:
        there = group in self.knobs.groups
        self.knobs.remove(group)
        if there and not again:
            return
        self.knobs.add(group)
        for knob in REQUESTS:
            self.owned[KnobTarget(group, knob)] = self.value(KnobTarget(group, knob))
            self.unclear.pop(KnobTarget(group, knob), None)

    @rule(
        operation=st.sampled_from(["read", "raw", "write", "restore"]),
        which=targets,
        error=st.sampled_from([Transient("busy"), InvalidInput("x", "y", "z"), Permanent("no")]),
        times=st.integers(1, 2),
    )
    def something_fails(self, operation: str, which: KnobTarget, error: Exception, times: int) -> None:
        self.knobs.fail(operation, which, *[error] * times)

    @rule(full=st.booleans())
    def the_disk(self, full: bool) -> None:
        self.memory.full = full

    @invariant()
    def a_knob_without_a_lease_has_its_owners_value(self) -> None:
        if self.file is None:
            return
        self.engine.validate()
        self.check({lease.target for lease in self.engine.leases()})

    def check(self, held: set[KnobTarget]) -> None:
        idle = {target.group for target in held if target.knob is Knob.CPU_IDLE}
        for target, value in self.owned.items():
            if target.group not in self.knobs.groups or target in held:
                continue
            if target.knob is Knob.CPU_WEIGHT and target.group in idle:
                continue  # pinned
            allowed = {value, self.unclear.get(target, value)}
            assert None in allowed or self.value(target) in allowed, (target, self.value(target), allowed)

    @rule()
    def everything_is_restored(self) -> None:
        self.knobs._failures.clear()
        self.memory.full = False
        for _ in range(3):
            self.executor.give_all_back(REASON)
            self.executor.tick()
        assert self.executor.leases() == ()
        assert self.file.leases() == ()
        self.check(set())


TestKeeperMachine = pytest.mark.slow(KeeperMachine.TestCase)
TestKeeperMachine.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)
