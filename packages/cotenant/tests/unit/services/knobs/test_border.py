"""What leaves a keeper's roots: nothing, through the real driver over folders that look like cgroups."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.cgroup_trees import CgroupTrees, KernelTree

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.node.interfaces import KnobPort
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobChange, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

REASON = Reason("test", "because")
HALF = "50000 100000"
CLOCK = Clock(lambda: 0, lambda: 1.0)


class Untouched:
    """A port of which nothing may be asked."""

    def supported(self, knob: Knob) -> Gap | None:
        raise AssertionError(knob)

    def read(self, target: KnobTarget) -> str:
        raise AssertionError(target)

    def raw(self, target: KnobTarget) -> str:
        raise AssertionError(target)

    def write(self, target: KnobTarget, value: str) -> None:
        raise AssertionError(target)

    def restore(self, target: KnobTarget, raw: str) -> None:
        raise AssertionError(target)


class Trail:
    def __init__(self) -> None:
        self.changes: list[KnobChange] = []

    def write(self, changes: Sequence[KnobChange]) -> None:
        self.changes += changes


@pytest.fixture
def trees(tmp_path: Path) -> CgroupTrees:
    trees = CgroupTrees(tmp_path / "tree", "v2")
    for group in ("be/a", "services"):
        trees.add(group)
    return trees


@pytest.fixture
def trail() -> Trail:
    return Trail()


@pytest.fixture
def executor(trees: CgroupTrees, trail: Trail) -> Iterator[LeaseExecutor]:
    with CgroupKnobs(trees.layout, KernelTree) as knobs:
        ports: dict[KnobScope, KnobPort] = {
            KnobScope.CGROUP: knobs,
            KnobScope.TC: Untouched(),
            KnobScope.RESCTRL: Untouched(),
        }
        yield LeaseExecutor(ports, NoStateFile(), trail, CLOCK, KnobRules(("be",)))


def files(trees: CgroupTrees) -> dict[str, str]:
    return {str(path): path.read_text() for path in trees.root.rglob("*") if path.is_file() and not path.is_symlink()}


def hold(executor: LeaseExecutor, group: str, knob: Knob, value: str) -> tuple[LeaseState, str]:
    (answer,) = executor.hold([SetKnob(KnobTarget(group, knob), value, REASON)])
    return answer.state, answer.detail


@pytest.mark.parametrize(
    ("group", "knob", "value"),
    [
        ("eth0/ls", Knob.RATE, "8000 8000"),
        ("eth0/be", Knob.RATE, "1000000 1000000"),
        ("be/a", Knob.RATE, "1000000 1000000"),
        ("BE", Knob.SCHEMATA, "L3:0=1"),
        ("", Knob.SCHEMATA, "L3:0=1"),
        ("be/a", Knob.SCHEMATA, "L3:0=1"),
        ("services", Knob.CPU_MAX, "20000 100000"),
    ],
)
def test_a_knob_that_was_not_named_is_neither_read_nor_written(
    executor: LeaseExecutor, trees: CgroupTrees, group: str, knob: Knob, value: str
) -> None:
    before = files(trees)
    state, detail = hold(executor, group, knob, value)
    assert state is LeaseState.REFUSED
    assert "not" in detail
    assert executor.read([KnobTarget(group, knob)]) == (None,)
    assert files(trees) == before


def test_links_below_a_root_lead_nowhere(executor: LeaseExecutor, trees: CgroupTrees) -> None:
    os.symlink(trees.root / "services", trees.root / "be/link")
    (trees.root / "be/b").mkdir()
    os.symlink(trees.root / "services/cpu.max", trees.root / "be/b/cpu.max")
    before = files(trees)
    for group in ("be/link", "be/b"):
        state, _ = hold(executor, group, Knob.CPU_MAX, HALF)
        assert state in (LeaseState.REFUSED, LeaseState.GONE)
        assert executor.read([KnobTarget(group, Knob.CPU_MAX)]) == (None,)
    assert files(trees) == before


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (Knob.MEMORY_MIN, "1073741824"),
        (Knob.MEMORY_LOW, "1073741824"),
        (Knob.CPU_WEIGHT, "10000"),
        (Knob.IO_WEIGHT, "default 10000"),
    ],
)
def test_a_root_cannot_be_favoured_over_its_siblings(
    executor: LeaseExecutor, trees: CgroupTrees, knob: Knob, value: str
) -> None:
    before = files(trees)
    state, detail = hold(executor, "be", knob, value)
    assert (state, "may not be raised" in detail) == (LeaseState.REFUSED, True)
    assert files(trees) == before
    assert hold(executor, "be/a", knob, value)[0] is LeaseState.HELD


def test_the_bound_of_a_root_is_the_original_and_not_the_held_value(
    executor: LeaseExecutor, trees: CgroupTrees
) -> None:
    trees.say("be", "cpu.max", "80000 100000\n")
    assert hold(executor, "be", Knob.CPU_MAX, HALF)[0] is LeaseState.HELD
    assert hold(executor, "be", Knob.CPU_MAX, "80000 100000")[0] is LeaseState.HELD
    state, _ = hold(executor, "be", Knob.CPU_MAX, "90000 100000")
    assert state is LeaseState.REFUSED
    assert executor.leases()[0].value == "80000 100000"


def test_leases_outside_of_the_roots_are_kept_and_not_restored(
    trees: CgroupTrees, tmp_path: Path, trail: Trail
) -> None:
    state = tmp_path / "state"
    original = trees.path("services", "cpu.max").read_text()
    with CgroupKnobs(trees.layout, KernelTree) as knobs:
        file = LeaseFile(state, "boot")
        earlier = LeaseExecutor({KnobScope.CGROUP: knobs}, file, trail, CLOCK, KnobRules(("be", "services")))
        earlier.hold([SetKnob(KnobTarget(group, Knob.CPU_MAX), HALF, REASON) for group in ("be/a", "services")])
        file.close()

        file = LeaseFile(state, "boot")
        rules = KnobRules(("be",))
        answers = LeaseExecutor({KnobScope.CGROUP: knobs}, file, trail, CLOCK, rules).restart(file.found.leases)
        assert [(answer.target.group, answer.state) for answer in answers] == [
            ("be/a", LeaseState.RESTORED),
            ("services", LeaseState.RESTORING),
        ]
        assert "not below an allowed group" in answers[1].detail
        assert trees.path("services", "cpu.max").read_text().strip() == HALF
        file.close()

        file = LeaseFile(state, "boot")
        assert [lease.target.group for lease in file.found.leases] == ["services"]
        forged = replace(file.found.leases[0], target=KnobTarget("eth0/ls", Knob.RATE))
        by_hand = LeaseExecutor({KnobScope.CGROUP: knobs}, file, trail, CLOCK, replace(rules, restores_all=True))
        by_hand.restart(file.found.leases)
        assert trees.path("services", "cpu.max").read_text() == original
        ports: dict[KnobScope, KnobPort] = {KnobScope.CGROUP: knobs, KnobScope.TC: Untouched()}
        (answer,) = LeaseExecutor(ports, file, trail, CLOCK, rules).restart([forged])
        assert answer.state is LeaseState.RESTORING
        file.close()


def test_reasons_and_refused_values_are_stored_in_bounded_length(executor: LeaseExecutor, trail: Trail) -> None:
    long = Reason(
        "r" * 10_000, "t" * 1_000_000, tuple(DecisionTerm("n" * 1000, 10**30, "u" * 1000) for _ in range(1000))
    )
    for group, value in (("be/a", HALF), ("services", "x" * 1_000_000)):
        executor.hold([SetKnob(KnobTarget(group, Knob.CPU_MAX), value, long)])
    (lease,) = executor.leases()
    stored = [lease.reason, *(change.cause for change in trail.changes)]
    assert len(stored) == 3
    for reason in stored:
        assert (len(reason.rule), len(reason.text), len(reason.terms)) == (128, 2048, 64)
        assert reason.text.endswith("…")
        assert all((len(term.name), len(term.unit)) == (64, 64) for term in reason.terms)
    assert max(len(change.asked) for change in trail.changes) == 256
