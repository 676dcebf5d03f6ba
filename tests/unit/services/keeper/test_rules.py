"""The rules of what the keeper grants."""

from __future__ import annotations

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, SetKnob, Target
from cotenant.model.machine.node_decision import Reason
from cotenant.services.keeper.rules import Rules, own_groups

REASON = Reason("test", "because")
RULES = Rules(("kubepods/besteffort", "demo"), never=("demo/agent/keeper",), longest_ttl_us=1000)


def refusal(group: str, value: str = "20000 100000", knob: Knob = Knob.CPU_MAX, ttl_us: int = 10) -> str | None:
    return RULES.refusal(SetKnob(Target(group, knob), value, REASON, ttl_us))


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
    ],
)
def test_other_groups_are_refused(group: str, why: str) -> None:
    assert why in (refusal(group) or "")


@pytest.mark.parametrize("group", ["../x", "demo/../..", "/demo", "demo//x", "demo/.", "demo\0/x"])
def test_a_path_that_leads_out_of_the_tree_is_not_a_target(group: str) -> None:
    with pytest.raises(InvalidInput):
        Target(group, Knob.CPU_MAX)


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
        (Knob.IO_MAX, "/dev/sda rbps=1"),
        (Knob.SCHEMATA, "L3:0=ff\nX"),
        (Knob.SCHEMATA, "L3:0=ff;" * 1000),
        (Knob.RATE, "1 2; reboot"),
    ],
)
def test_malformed_values_are_refused(knob: Knob, value: str) -> None:
    assert refusal("demo/x", value, knob) is not None


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        (Knob.CPU_MAX, "1000 100000"),
        (Knob.CPU_MAX, "max 100000"),
        (Knob.CPUSET_CPUS, "0-3,8"),
        (Knob.MEMORY_HIGH, "max"),
        (Knob.SCHEMATA, "L3:0=ff;1=f\nMB:0=50"),
        (Knob.RATE, "1000000 2000000"),
    ],
)
def test_values_in_bounds_are_granted(knob: Knob, value: str) -> None:
    assert refusal("demo/x", value, knob) is None


def test_knobs_and_times_are_bounded() -> None:
    assert "1001 us" in (refusal("demo/x", ttl_us=1001) or "")
    only_cpu = Rules(("demo",), knobs=frozenset({Knob.CPU_MAX}))
    request = SetKnob(Target("demo/x", Knob.MEMORY_MAX), "4096", REASON)
    assert "allowed knobs" in (only_cpu.refusal(request) or "")


def test_the_trees_root_cannot_be_an_allowed_root() -> None:
    with pytest.raises(InvalidInput, match="never written"):
        Rules(("",))


def test_own_groups_are_those_of_all_trees_but_the_root() -> None:
    lines = ["12:cpu,cpuacct:/system.slice/k.service\n", "1:name=systemd:/a:b\n", "0::/\n", "3:x:/../..\n", "odd\n"]
    assert own_groups(lines) == ("a:b", "system.slice/k.service")
