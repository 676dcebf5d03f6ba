"""Which desired value wins, and which are rejected."""

from __future__ import annotations

import pytest

from cotenant.engine.node.knobs.plan import RejectCause, resolve, within
from cotenant.engine.node.knobs.restrictiveness import restrictiveness
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.verdict import PolicyVerdict

ALL = frozenset(Knob)
BE = KnobTarget("pods/be", Knob.CPU_MAX)


def verdict(*requests: tuple[KnobTarget, str]) -> PolicyVerdict:
    return PolicyVerdict((), tuple(SetKnob(target, value, Reason("r", "t")) for target, value in requests))


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
    target = KnobTarget("pods/a", knob)
    for first, second in ((strict, loose), (loose, strict)):
        plan = resolve([("a", verdict((target, first))), ("b", verdict((target, second)))], ("pods",), ALL)
        won = plan.desired[target]
        assert won.request.value == strict
        assert won.overruled == (("a" if first == loose else "b", loose),)
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
    assert restrictiveness(knob, value) is None
    plan = resolve([("a", verdict((KnobTarget("pods/a", knob), value)))], ("pods",), ALL)
    assert plan.desired == {}
    assert [entry.why for entry in plan.rejected] == [RejectCause.MALFORMED]


def test_equally_restrictive_values_are_decided_by_policy_order_and_marked_tied() -> None:
    target = KnobTarget("pods/a", Knob.CPUSET_CPUS)
    plan = resolve([("late", verdict((target, "0-1"))), ("b", verdict((target, "2-3")))], ("pods",), ALL)
    won = plan.desired[target]
    assert (won.policy, won.request.value, won.overruled, won.tied) == ("late", "0-1", (("b", "2-3"),), True)


def test_policies_that_agree_are_recorded() -> None:
    plan = resolve([(name, verdict((BE, "1000 100000"))) for name in "abc"], ("pods",), ALL)
    won = plan.desired[BE]
    assert (won.policy, won.agreed, won.overruled, won.tied) == ("a", ("b", "c"), (), False)


def test_a_policy_that_contradicts_itself_gets_the_more_restrictive() -> None:
    plan = resolve([("a", verdict((BE, "9000 100000"), (BE, "1000 100000")))], ("pods",), ALL)
    assert plan.desired[BE].request.value == "1000 100000"


def test_the_weight_of_a_group_that_is_to_be_idle_is_rejected() -> None:
    idle, heavy = KnobTarget("pods/a", Knob.CPU_IDLE), KnobTarget("pods/a", Knob.CPU_WEIGHT)
    plan = resolve([("a", verdict((heavy, "10"))), ("b", verdict((idle, "1")))], ("pods",), ALL)
    assert list(plan.desired) == [idle]
    assert [(entry.policy, entry.why) for entry in plan.rejected] == [("a", RejectCause.PINNED)]
    plan = resolve([("a", verdict((heavy, "10"))), ("b", verdict((idle, "0")))], ("pods",), ALL)
    assert list(plan.desired) == [idle, heavy]


def test_requests_outside_the_roots_or_for_missing_knobs_are_rejected() -> None:
    outside, lacking = KnobTarget("podsx/a", Knob.CPU_MAX), KnobTarget("pods/a", Knob.CPU_BURST)
    requests = verdict((outside, "1000 100000"), (lacking, "0"), (BE, "1000 100000"))
    plan = resolve([("a", requests)], ("pods",), ALL - {Knob.CPU_BURST})
    assert list(plan.desired) == [BE]
    assert {entry.why for entry in plan.rejected} == {RejectCause.OUTSIDE, RejectCause.LACKING}


def test_roots_apply_to_cgroups_only() -> None:
    cache, link = KnobTarget("BE", Knob.SCHEMATA), KnobTarget("eth0/be", Knob.RATE)
    plan = resolve([("a", verdict((cache, "L3:0=f"), (link, "1 2")))], (), ALL)
    assert list(plan.desired) == [cache, link]


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


V1 = ALL - {Knob.MEMORY_MIN, Knob.MEMORY_LOW, Knob.MEMORY_HIGH, Knob.MEMORY_RECLAIM}


@pytest.mark.parametrize(
    ("supported", "pod", "main"), [(V1, "50000 100000", "50000 100000"), (ALL, "150000 100000", "100000 100000")]
)
def test_on_v1_a_quota_is_not_above_the_one_of_a_group_that_contains_it(
    supported: frozenset[Knob], pod: str, main: str
) -> None:
    wanted = (
        (KnobTarget("pods/be/a", Knob.CPU_MAX), "150000 100000"),
        (KnobTarget("pods/be/a/main", Knob.CPU_MAX), "100000 100000"),
        (KnobTarget("pods/be/a/log", Knob.CPU_MAX), "5000 100000"),
        (KnobTarget("pods/web", Knob.CPU_MAX), "150000 100000"),
    )
    plan = resolve([("guard", verdict((BE, "50000 100000"))), ("limits", verdict(*wanted))], ("pods",), supported)
    found = {target.group: desired.request.value for target, desired in plan.desired.items()}
    assert found == {
        "pods/be": "50000 100000",
        "pods/be/a": pod,
        "pods/be/a/main": main,
        "pods/be/a/log": "5000 100000",
        "pods/web": "150000 100000",
    }
    lowered = plan.desired[KnobTarget("pods/be/a/main", Knob.CPU_MAX)].request.reason.text
    assert ("lowered to the quota of /pods/be/a" in lowered) == (supported is V1)
