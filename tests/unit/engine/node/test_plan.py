"""Which wish wins, and which are not taken up."""

from __future__ import annotations

import pytest

from cotenant.engine.node.plan import Unfit, settle, within
from cotenant.engine.node.restriction import restriction
from cotenant.model.machine.knob import Knob, SetKnob, Target
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.verdict import Verdict

ALL = frozenset(Knob)
BE = Target("pods/be", Knob.CPU_MAX)


def verdict(*wishes: tuple[Target, str]) -> Verdict:
    return Verdict((), tuple(SetKnob(target, value, Reason("r", "t")) for target, value in wishes))


@pytest.mark.parametrize(
    ("knob", "strict", "loose"),
    [
        (Knob.CPU_MAX, "50000 100000", "60000 100000"),
        (Knob.CPU_MAX, "60000 200000", "50000 100000"),
        (Knob.CPU_MAX, "1000000 100000", "max 100000"),
        (Knob.CPU_MAX, "100000 100000", "50000 50000"),  # the same rate: the longer period allows the longer pause
        (Knob.CPU_BURST, "0", "1000"),
        (Knob.CPU_WEIGHT, "1", "100"),
        (Knob.CPU_IDLE, "1", "0"),
        (Knob.CPUSET_CPUS, "2-3", "0-2"),
        (Knob.CPUSET_CPUS, "0-63", ""),
        (Knob.MEMORY_MIN, "2000", "1000"),
        (Knob.MEMORY_LOW, "max", "1000"),
        (Knob.MEMORY_HIGH, "1000", "2000"),
        (Knob.MEMORY_MAX, "1000", "max"),
        (Knob.MEMORY_RECLAIM, "2000", "1000"),
        (Knob.IO_WEIGHT, "default 10", "default 100"),
        (Knob.IO_MAX, "8:0 rbps=1 wbps=max riops=max wiops=max", "8:0 rbps=2 wbps=max riops=max wiops=max"),
        (Knob.IO_MAX, "8:0 rbps=9 wbps=9 riops=max wiops=max", "8:0 rbps=1 wbps=max riops=max wiops=max"),
        (Knob.SCHEMATA, "L3:0=3;1=3", "L3:0=ff;1=1"),
        (Knob.SCHEMATA, "L3:0=f\nMB:0=20", "L3:0=f\nMB:0=50"),
        (Knob.RATE, "5 100", "1 200"),
        (Knob.RATE, "1 100", "5 100"),
    ],
)
def test_the_more_restrictive_wins_in_either_order(knob: Knob, strict: str, loose: str) -> None:
    target = Target("pods/a", knob)
    for first, second in ((strict, loose), (loose, strict)):
        plan = settle([("a", verdict((target, first))), ("b", verdict((target, second)))], ("pods",), ALL)
        won = plan.wanted[target]
        assert won.wish.value == strict
        assert won.lost == (("a" if first == loose else "b", loose),)
        assert not won.tied


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (Knob.CPU_MAX, "50000"),
        (Knob.CPU_MAX, "max"),
        (Knob.CPU_MAX, "-1 100000"),
        (Knob.CPU_WEIGHT, "0"),
        (Knob.CPU_WEIGHT, " 5"),
        (Knob.CPU_IDLE, "true"),
        (Knob.CPUSET_CPUS, "0,1"),
        (Knob.CPUSET_CPUS, "3-1"),
        (Knob.MEMORY_HIGH, "1G"),
        (Knob.IO_WEIGHT, "10"),
        (Knob.IO_MAX, "sda rbps=1"),
        (Knob.SCHEMATA, "L3"),
        (Knob.SCHEMATA, "L3:0=xyz"),
        (Knob.RATE, "100"),
        (Knob.RATE, "a b"),
    ],
)
def test_a_value_that_is_not_canonical_has_no_rank(knob: Knob, value: str) -> None:
    assert restriction(knob, value) is None
    plan = settle([("a", verdict((Target("pods/a", knob), value)))], ("pods",), ALL)
    assert plan.wanted == {}
    assert [entry.why for entry in plan.rejected] == [Unfit.MALFORMED]


def test_equally_restrictive_wishes_go_by_the_roster_and_are_named_a_tie() -> None:
    target = Target("pods/a", Knob.CPUSET_CPUS)
    plan = settle([("late", verdict((target, "0-1"))), ("b", verdict((target, "2-3")))], ("pods",), ALL)
    won = plan.wanted[target]
    assert (won.policy, won.wish.value, won.lost, won.tied) == ("late", "0-1", (("b", "2-3"),), True)


def test_policies_that_agree_are_named() -> None:
    plan = settle([(name, verdict((BE, "1000 100000"))) for name in "abc"], ("pods",), ALL)
    won = plan.wanted[BE]
    assert (won.policy, won.agreed, won.lost, won.tied) == ("a", ("b", "c"), (), False)


def test_a_policy_that_contradicts_itself_gets_the_more_restrictive() -> None:
    plan = settle([("a", verdict((BE, "9000 100000"), (BE, "1000 100000")))], ("pods",), ALL)
    assert plan.wanted[BE].wish.value == "1000 100000"


def test_the_weight_of_a_group_that_shall_be_idle_is_not_wished() -> None:
    idle, heavy = Target("pods/a", Knob.CPU_IDLE), Target("pods/a", Knob.CPU_WEIGHT)
    plan = settle([("a", verdict((heavy, "10"))), ("b", verdict((idle, "1")))], ("pods",), ALL)
    assert list(plan.wanted) == [idle]
    assert [(entry.policy, entry.why) for entry in plan.rejected] == [("a", Unfit.PINNED)]
    plan = settle([("a", verdict((heavy, "10"))), ("b", verdict((idle, "0")))], ("pods",), ALL)
    assert list(plan.wanted) == [idle, heavy]


def test_wishes_outside_the_roots_or_of_lacking_knobs_are_not_taken_up() -> None:
    outside, lacking = Target("podsx/a", Knob.CPU_MAX), Target("pods/a", Knob.CPU_BURST)
    wishes = verdict((outside, "1000 100000"), (lacking, "0"), (BE, "1000 100000"))
    plan = settle([("a", wishes)], ("pods",), ALL - {Knob.CPU_BURST})
    assert list(plan.wanted) == [BE]
    assert {entry.why for entry in plan.rejected} == {Unfit.OUTSIDE, Unfit.LACKING}


def test_roots_are_of_cgroups_only() -> None:
    cache, link = Target("BE", Knob.SCHEMATA), Target("eth0/be", Knob.RATE)
    plan = settle([("a", verdict((cache, "L3:0=f"), (link, "1 2")))], (), ALL)
    assert list(plan.wanted) == [cache, link]


@pytest.mark.parametrize(
    ("group", "roots", "inside"),
    [
        ("a", ("a",), True),
        ("a/b", ("a",), True),
        ("ab", ("a",), False),
        ("", ("a",), False),
        ("a", ("",), False),
        ("a", ("a/b",), False),
        ("a", (), False),
    ],
)
def test_within(group: str, roots: tuple[str, ...], inside: bool) -> None:
    assert within(group, roots) is inside
