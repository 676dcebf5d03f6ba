"""The rules of what the keeper grants, for each kind of knob at its border."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.rules import KnobRules, Requester, own_groups

REASON = Reason("test", "because")
RULES = KnobRules(
    ("kubepods/besteffort", "demo"),
    never=("demo/agent/keeper",),
    interfaces=frozenset({"eth0"}),
    classes=frozenset({"BE"}),
    longest_ttl_us=1000,
)
CGROUP = tuple(knob for knob in Knob if knob.scope is KnobScope.CGROUP)
GOOD = {
    Knob.CPU_MAX: "20000 100000",
    Knob.CPU_BURST: "1000",
    Knob.CPU_WEIGHT: "50",
    Knob.CPU_IDLE: "1",
    Knob.CPUSET_CPUS: "0",
    Knob.CGROUP_FREEZE: "1",
    Knob.MEMORY_MIN: "1048576",
    Knob.MEMORY_LOW: "1048576",
    Knob.MEMORY_HIGH: "67108864",
    Knob.MEMORY_MAX: "67108864",
    Knob.MEMORY_RECLAIM: "4096",
    Knob.IO_WEIGHT: "default 50",
    Knob.IO_MAX: "8:0 rbps=1048576 wbps=max riops=max wiops=max",
    Knob.SCHEMATA: "L3:0=ff",
    Knob.RATE: "1000000 2000000",
    Knob.NETWORK_RATE: "8000000",
    Knob.NETWORK_DELAY: "20000",
    Knob.NETWORK_LOSS: "10000",
    Knob.GPU_POWER: "350000",
    Knob.GPU_CLOCKS: "210 1200",
    Knob.GPU_TIMESLICE: "short",
    Knob.GPU_MIG: "1g.10gb 3g.40gb",
    Knob.MPS_THREADS: "30",
    Knob.MPS_MEMORY: "4096",
}


def refusal(
    group: str, value: str = "20000 100000", knob: Knob = Knob.CPU_MAX, ttl_us: int = 10, rules: KnobRules = RULES
) -> str | None:
    return rules.refusal(SetKnob(KnobTarget(group, knob), value, REASON, ttl_us))


# The border of each kind of knob


@pytest.mark.parametrize("knob", CGROUP)
@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("demo", None),
        ("demo/x", None),
        ("demo/x/y", None),
        ("", "not below"),
        ("demox", "not below"),
        ("dem", "not below"),
        ("eth0/be", "not below"),
        ("BE", "not below"),
        ("x/demo", "not below"),
    ],
)
def test_a_cgroups_knob_is_granted_at_and_below_a_root_only(knob: Knob, group: str, why: str | None) -> None:
    rules = KnobRules(("demo",), interfaces=frozenset({"eth0"}), classes=frozenset({"BE"}), freezes=True)
    told = refusal(group, GOOD[knob], knob, rules=rules)
    assert told is None if why is None else why in (told or "")


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("eth0/be", None),
        ("eth0/ls", None),
        ("eth1/be", "eth1 is not an allowed network interface (--interface)"),
        ("eth/be", "not an allowed network interface"),
        ("eth0x/be", "not an allowed network interface"),
        ("lo/be", "not an allowed network interface"),
        ("demo/be", "not an allowed network interface"),
        ("", "not an allowed network interface"),
        ("eth0", "not a class of eth0"),
        ("eth0/root", "not a class of eth0"),
        ("eth0/be/x", "not a class of eth0"),
    ],
)
def test_the_rates_of_named_interfaces_only_are_granted(group: str, why: str | None) -> None:
    told = refusal(group, GOOD[Knob.RATE], Knob.RATE)
    assert told is None if why is None else why in (told or "")
    assert refusal(group, GOOD[Knob.RATE], Knob.RATE, rules=KnobRules(("demo", "eth0"))) is not None


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("BE", None),
        ("LS", "LS is not an allowed class (--resctrl-class)"),
        ("B", "not an allowed class"),
        ("BE/x", "not an allowed class"),
        ("info", "not an allowed class"),
        ("demo", "not an allowed class"),
        ("", "the root is not an allowed class"),
    ],
)
def test_the_schemata_of_named_classes_only_are_granted(group: str, why: str | None) -> None:
    told = refusal(group, GOOD[Knob.SCHEMATA], Knob.SCHEMATA)
    assert told is None if why is None else why in (told or "")
    assert refusal(group, GOOD[Knob.SCHEMATA], Knob.SCHEMATA, rules=KnobRules(("demo", "BE"))) is not None


def test_a_group_is_frozen_only_where_that_was_allowed_and_never_the_one_that_asks() -> None:
    assert "no group is frozen here (--freeze)" in (refusal("demo/x", "1", Knob.CGROUP_FREEZE) or "")
    rules = replace(RULES, freezes=True)
    assert refusal("demo/x", "1", Knob.CGROUP_FREEZE, rules=rules) is None
    wish = SetKnob(KnobTarget("demo/x", Knob.CGROUP_FREEZE), "1", REASON, 10)
    told = rules.refusal(wish, Requester("agent", ("demo/x/agent",)))
    assert told == "/demo/x contains /demo/x/agent, which is never written"


def test_every_knob_is_refused_by_a_keeper_that_names_nothing() -> None:
    for knob in Knob:
        for group in ("a", "a/b", "eth0/be", "BE", ""):
            assert refusal(group, GOOD[knob], knob, rules=KnobRules(())) is not None, (knob, group)


@pytest.mark.parametrize("knob", Knob)
@pytest.mark.parametrize("group", ["../x", "demo/../..", "demo/..", "/demo", "demo//x", "demo/.", "demo/", "demo\0/x"])
def test_a_path_that_leads_out_of_the_tree_is_not_a_target(knob: Knob, group: str) -> None:
    with pytest.raises(InvalidInput):
        KnobTarget(group, knob)


@pytest.mark.parametrize(
    "group", ["kubepods/besteffort", "kubepods/besteffort/pod1/c", "demo/agent/other", "demo/agent/keeper/x"]
)
def test_groups_at_or_below_a_root_are_granted(group: str) -> None:
    assert refusal(group) is None


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("", "not below"),
        ("kubepods", "not below"),
        ("kubepods/besteffortx", "not below"),
        ("kubepods/burstable/pod2", "not below"),
        ("demo", "never written"),
        ("demo/agent", "never written"),
        ("demo/agent/keeper", "never written"),
        ("demo/\udcff", "Unicode"),
        ("demo/" + "x" * 5000, "5005 characters"),
    ],
)
def test_other_groups_are_refused(group: str, why: str) -> None:
    assert why in (refusal(group) or "")


def test_a_requesters_own_groups_are_refused() -> None:
    request = SetKnob(KnobTarget("kubepods/besteffort", Knob.CPU_MAX), GOOD[Knob.CPU_MAX], REASON, 10)
    inside = Requester("agent", ("kubepods/besteffort/pod1",))
    assert "never written" in (RULES.refusal(request, inside) or "")


# A root's own knobs


@pytest.mark.parametrize(
    ("knob", "value", "before"),
    [
        (Knob.CPU_WEIGHT, "101", "100"),
        (Knob.CPU_WEIGHT, "10000", "1"),
        (Knob.IO_WEIGHT, "default 200", "default 100"),
        (Knob.MEMORY_MIN, "1", "0"),
        (Knob.MEMORY_MIN, "max", "1073741824"),
        (Knob.MEMORY_LOW, "4096", "0"),
        (Knob.MEMORY_HIGH, "max", "67108864"),
        (Knob.MEMORY_MAX, "67108865", "67108864"),
        (Knob.CPU_MAX, "max 100000", "400000 100000"),
        (Knob.CPU_MAX, "20000 50000", "30000 100000"),
        (Knob.CPU_BURST, "1", "0"),
        (Knob.CPU_IDLE, "0", "1"),
        (Knob.CPUSET_CPUS, "0-3", "0-1"),
        (Knob.CPUSET_CPUS, "", "0-1"),
        (Knob.IO_MAX, "8:0 rbps=max wbps=max riops=max wiops=max", "8:0 rbps=1048576 wbps=max riops=max wiops=max"),
        (Knob.IO_MAX, "8:0 rbps=max wbps=1048576 riops=max wiops=max", "8:0 rbps=1048576 wbps=max riops=max wiops=max"),
    ],
)
def test_a_roots_own_knob_is_not_raised_above_what_stood_before(knob: Knob, value: str, before: str) -> None:
    assert "may not be raised" in (RULES.above_original(KnobTarget("demo", knob), value, before) or "")
    assert RULES.above_original(KnobTarget("demo/x", knob), value, before) is None
    assert KnobRules(("demo",), raises_roots=True).above_original(KnobTarget("demo", knob), value, before) is None
    assert KnobRules(("demo", "demo/x")).above_original(KnobTarget("demo/x", knob), value, before) is None


@pytest.mark.parametrize(
    ("knob", "value", "before"),
    [
        (Knob.CPU_WEIGHT, "100", "100"),
        (Knob.CPU_WEIGHT, "1", "39"),
        (Knob.IO_WEIGHT, "default 50", "default 100"),
        (Knob.MEMORY_MIN, "0", "4096"),
        (Knob.MEMORY_LOW, "max", "max"),
        (Knob.MEMORY_HIGH, "67108864", "max"),
        (Knob.CPU_MAX, "400000 100000", "max 100000"),
        (Knob.CPU_IDLE, "1", "0"),
        (Knob.CPUSET_CPUS, "0", ""),
        (Knob.CPUSET_CPUS, "1", "0-1"),
        (Knob.IO_MAX, "8:0 rbps=1048576 wbps=max riops=max wiops=max", ""),
        (Knob.MEMORY_RECLAIM, "4096", ""),
    ],
)
def test_a_roots_own_knob_may_be_made_more_restrictive(knob: Knob, value: str, before: str) -> None:
    assert RULES.above_original(KnobTarget("demo", knob), value, before) is None


def test_knobs_outside_of_cgroups_have_no_roots() -> None:
    assert RULES.above_original(KnobTarget("eth0/be", Knob.RATE), "1 2", "0 1") is None
    assert RULES.above_original(KnobTarget("BE", Knob.SCHEMATA), "L3:0=ff", "L3:0=f") is None


# Values


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (Knob.CPU_MAX, "500 100000"),
        (Knob.CPU_MAX, "1000 1000000"),  # 1 mCPU
        (Knob.CPU_MAX, "20000"),
        (Knob.CPU_MAX, "max 100000\nmax 100000"),
        (Knob.CPU_WEIGHT, "0"),
        (Knob.CPU_IDLE, "2"),
        (Knob.CPUSET_CPUS, "0-99999"),
        (Knob.MEMORY_MAX, "-1"),
        (Knob.MEMORY_MAX, "0"),
        (Knob.MEMORY_MAX, "1048575"),
        (Knob.MEMORY_HIGH, "0"),
        (Knob.IO_MAX, "/dev/sda rbps=1"),
        (Knob.IO_MAX, "8:0 rbps=1 wbps=max riops=max wiops=max"),
        (Knob.IO_MAX, "8:0 rbps=max wbps=max riops=max wiops=1"),
    ],
)
def test_malformed_and_starving_values_are_refused(knob: Knob, value: str) -> None:
    assert refusal("demo/x", value, knob) is not None


@pytest.mark.parametrize("value", ["L3:0=ff\nX", "L3:0=ff;" * 1000])
def test_malformed_schemata_are_refused(value: str) -> None:
    assert "allowed class" not in (refusal("BE", value, Knob.SCHEMATA) or "allowed class")


@pytest.mark.parametrize("value", ["1 2; reboot", "1000000", "2000000 1000000", "1 8000", "8000 999999"])
def test_malformed_and_starving_rates_are_refused(value: str) -> None:
    assert "allowed network" not in (refusal("eth0/be", value, Knob.RATE) or "allowed network")


@pytest.mark.parametrize(
    ("group", "knob", "value"),
    [
        ("demo/x", Knob.CPU_MAX, "1000 100000"),
        ("demo/x", Knob.CPU_MAX, "max 100000"),
        ("demo/x", Knob.CPUSET_CPUS, "0-3,8"),
        ("demo/x", Knob.MEMORY_HIGH, "max"),
        ("demo/x", Knob.MEMORY_MAX, "1048576"),
        ("BE", Knob.SCHEMATA, "L3:0=ff;1=f\nMB:0=50"),
        ("eth0/be", Knob.RATE, "1000000 2000000"),
    ],
)
def test_values_in_bounds_are_granted(group: str, knob: Knob, value: str) -> None:
    assert refusal(group, value, knob) is None


def test_knobs_and_times_are_bounded() -> None:
    assert "1001 us" in (refusal("demo/x", ttl_us=1001) or "")
    only_cpu = KnobRules(("demo",), knobs=frozenset({Knob.CPU_MAX}))
    request = SetKnob(KnobTarget("demo/x", Knob.MEMORY_MAX), "4096", REASON)
    assert "allowed knobs" in (only_cpu.refusal(request) or "")


# Arguments


def test_the_trees_root_cannot_be_an_allowed_root() -> None:
    with pytest.raises(InvalidInput, match="never written"):
        KnobRules(("",))


@pytest.mark.parametrize("name", ["", "..", "a/b", "eth 0", "x" * 16, "eth0\n"])
def test_a_name_that_no_interface_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="--interface"):
        KnobRules(("demo",), interfaces=frozenset({name}))


@pytest.mark.parametrize("name", ["", "..", "a/b", "info", "mon_groups"])
def test_a_name_that_no_class_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="--resctrl-class"):
        KnobRules(("demo",), classes=frozenset({name}))


def test_own_groups_are_those_of_all_trees_but_the_root() -> None:
    lines = ["12:cpu,cpuacct:/system.slice/k.service\n", "1:name=systemd:/a:b\n", "0::/\n", "3:x:/../..\n", "odd\n"]
    assert own_groups(lines) == ("a:b", "system.slice/k.service")
