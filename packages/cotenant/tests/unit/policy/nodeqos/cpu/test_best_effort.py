from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import health, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePodPhase
from cotenant.model.machine.node_state import Alarm, GroupUse, NodeState
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.cpu.best_effort import (
    BestEffortCpuConfig,
    BestEffortCpuMemory,
    decide,
    pressed,
    reads,
)
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant.policy.nodeqos.guard.config import GuardConfig

GROUP = "batch/besteffort"
QUOTA = BestEffortCpuConfig(suppress=SuppressConfig(form=SuppressionForm.QUOTA))
CPUSET = BestEffortCpuConfig()


def shared(web_m: int = 6100, batch_m: int = 3000, system_m: int = 1100, told: Any = None, **fields: Any) -> NodeState:
    """A service and best-effort work in the kubelet's group, on 16 CPUs."""
    web = in_use("web", web_m, health=told, objective_p99_us=1000)
    batch = in_use("batch", batch_m, QoSClass.BE, group=f"{GROUP}/batch")
    fields = {"best_effort_group": GROUP, "best_effort": GroupUse(GROUP, cpu_m=batch_m)} | fields
    return node([web, batch], used_m=web_m + batch_m + system_m, **fields)


def values(verdict: PolicyVerdict) -> dict[str, str]:
    return {str(wish.target): wish.value for wish in verdict.knobs}


def first(state: NodeState, config: BestEffortCpuConfig) -> PolicyVerdict:
    return decide(state, config, BestEffortCpuMemory())[0]


def test_the_quota_is_the_issues_own_example_and_its_terms_add_up() -> None:
    verdict = first(shared(), QUOTA)
    assert values(verdict) == {f"/{GROUP}:cpu.idle": "1", f"/{GROUP}:cpu.max": "320000 100000"}
    reason = verdict.knobs[1].reason
    assert reason.text == "quota: budget 3.2 CPU = 16 x 65 % - 6.1 services - 1.1 system"
    assert sum(term.value for term in reason.terms) == 3200


@pytest.mark.parametrize(
    ("standing", "web_m", "quota_us", "why"),
    [
        ("100000 100000", 6100, 260_000, "limited by the growth step"),
        ("800000 100000", 6100, 320_000, ""),
        ("310000 100000", 6100, 310_000, "limited by the growth step"),
        ("50000 50000", 6100, 260_000, "limited by the growth step"),
        ("320000 100000", 20_000, 2000, "raised to the minimum"),
    ],
)
def test_the_quota_shrinks_at_once_grows_in_steps_and_has_a_dead_band(standing, web_m, quota_us, why) -> None:
    state = shared(web_m=web_m, knobs={KnobTarget(GROUP, Knob.CPU_MAX): standing})
    verdict = first(state, QUOTA)
    assert values(verdict)[f"/{GROUP}:cpu.max"] == f"{quota_us} 100000"
    reason = verdict.knobs[-1].reason
    assert why in reason.text
    assert sum(term.value for term in reason.terms) == quota_us // 100


def test_without_a_reading_the_last_desired_value_counts_as_current() -> None:
    _, memory = decide(shared(web_m=8000), QUOTA, BestEffortCpuMemory())
    verdict, _ = decide(shared(web_m=0), QUOTA, memory)
    assert values(verdict)[f"/{GROUP}:cpu.max"] == "290000 100000"


def test_a_cpuset_takes_whole_cores_and_groups_with_a_list_of_their_own_follow() -> None:
    child = KnobTarget(f"{GROUP}/batch", Knob.CPUSET_CPUS)
    knobs = {KnobTarget(GROUP, Knob.CPUSET_CPUS): "0-15", child: "0-15"}
    assert values(first(shared(knobs=knobs), CPUSET)) == {
        f"/{GROUP}:cpu.idle": "1",
        f"/{GROUP}:cpuset.cpus": "0-3",
        str(child): "0-3",
    }
    assert str(child) not in values(first(shared(knobs={**knobs, child: ""}), CPUSET))


def test_a_list_that_was_not_read_this_time_is_held_on() -> None:
    child = KnobTarget(f"{GROUP}/batch", Knob.CPUSET_CPUS)
    _, memory = decide(shared(knobs={child: "0-15"}), CPUSET, BestEffortCpuMemory())
    verdict, _ = decide(shared(), CPUSET, memory)
    assert values(verdict)[str(child)] == "0-3"


def test_a_quota_is_added_where_the_guard_allows_less_than_the_cpuset() -> None:
    verdict = first(shared(told=health(960)), CPUSET)
    assert values(verdict)[f"/{GROUP}:cpuset.cpus"] == "0-1"
    assert values(verdict)[f"/{GROUP}:cpu.max"] == "160000 100000"
    quota = next(wish for wish in verdict.knobs if wish.target.knob is Knob.CPU_MAX)
    assert "the guard's ceiling, below 3.2 CPU = 16 x 65 %" in quota.reason.text
    assert sum(term.value for term in quota.reason.terms) == 1600


def test_the_guards_quota_stays_where_the_allowance_is_less_but_the_list_cannot_follow_it() -> None:
    """A list has two CPUs at least: on a node of two it limits nothing, whatever the allowance."""
    verdict = first(shared(1000, 900, 0, told=health(960), cpus=2), CPUSET)
    assert values(verdict)[f"/{GROUP}:cpuset.cpus"] == "0-1"
    quota = next(wish for wish in verdict.knobs if wish.target.knob is Knob.CPU_MAX)
    assert quota.value == "45000 100000"  # half of what it used, where the allowance is 0.3 CPU
    assert sum(term.value for term in quota.reason.terms) == 450


def test_with_suppression_off_only_the_guard_limits() -> None:
    off = BestEffortCpuConfig(suppress=SuppressConfig(enabled=False))
    assert values(first(shared(told=health(300)), off)) == {f"/{GROUP}:cpu.idle": "1"}
    assert values(first(shared(told=health(960)), off))[f"/{GROUP}:cpu.max"] == "160000 100000"


def test_machines_without_a_knob_get_the_other_form_or_a_reason() -> None:
    state = shared(supported=frozenset({Knob.CPU_MAX}))
    assert values(first(state, CPUSET)) == {f"/{GROUP}:cpu.max": "320000 100000"}
    state = shared(supported=frozenset({Knob.CPUSET_CPUS}))
    assert values(first(state, QUOTA)) == {f"/{GROUP}:cpuset.cpus": "0-3"}
    verdict = first(shared(supported=frozenset()), QUOTA)
    assert not verdict.knobs
    assert "no knob that limits CPU" in verdict.reasons[-1].text


def test_without_a_common_group_the_budget_is_divided_and_limits_hold() -> None:
    web = in_use("web", 6100)
    hog = in_use("hog", 4000, QoSClass.BE)
    small = in_use("small", 40, QoSClass.BE, containers=(NodeContainer("c", "pods/small/c", cpu_limit_m=500),))
    over = in_use("over", 0, QoSClass.BE, phase=NodePodPhase.OVER)
    verdict = first(node([web, hog, small, over], used_m=11_240), QUOTA)
    got = values(verdict)
    assert got["/pods/hog:cpu.max"] == "304000 100000"
    assert got["/pods/small:cpu.max"] == "16000 100000"
    assert "/pods/over:cpu.max" not in got
    assert sum(int(value.split()[0]) for key, value in got.items() if key.endswith("cpu.max")) == 320_000


def test_best_effort_work_outside_the_common_group_shares_its_budget() -> None:
    host = in_use("host", 1000, QoSClass.BE, group="system.slice/batch", host_application=True)
    state = shared()
    state = node([*state.pods, host], used_m=11_200, best_effort_group=GROUP, best_effort=state.best_effort)
    got = {key: value for key, value in values(first(state, QUOTA)).items() if key.endswith("cpu.max")}
    assert set(got) == {f"/{GROUP}:cpu.max", "/system.slice/batch:cpu.max"}
    assert sum(int(value.split()[0]) for value in got.values()) == 320_000


def test_trifling_shifts_between_groups_are_not_written() -> None:
    def two(first_m: int, second_m: int) -> NodeState:
        pods = [in_use("a", first_m, QoSClass.BE), in_use("b", second_m, QoSClass.BE), in_use("web", 6100)]
        return node(pods, used_m=7200 + first_m + second_m)

    before, memory = decide(two(1000, 1000), QUOTA, BestEffortCpuMemory())
    after, _ = decide(two(1040, 960), QUOTA, memory)
    assert values(after) == values(before)


def test_before_the_first_interval_what_was_set_stays() -> None:
    child = KnobTarget(f"{GROUP}/batch", Knob.CPUSET_CPUS)
    _, memory = decide(shared(knobs={child: "0-15"}), CPUSET, BestEffortCpuMemory())
    unknown = node(shared().pods, best_effort_group=GROUP)
    unknown = NodeState(
        0, 0, type(unknown.host)(16, None, 1, 0), unknown.pods, best_effort_group=GROUP, knobs={child: "0-3"}
    )
    verdict, after = decide(unknown, CPUSET, memory)
    assert values(verdict) == {str(wish.target): wish.value for wish in memory.wanted}
    assert decide(unknown, CPUSET, after)[0].knobs == verdict.knobs
    assert values(first(unknown, CPUSET)) == {f"/{GROUP}:cpu.idle": "1"}


def test_without_best_effort_work_nothing_is_set() -> None:
    verdict, memory = decide(node([in_use("web", 1000)]), CPUSET, BestEffortCpuMemory())
    assert not verdict.knobs
    assert verdict.reasons[-1].text == "no best-effort work on this node"
    assert memory.wanted == ()


def test_the_idle_class_is_used_only_with_pods_to_protect() -> None:
    alone = node([in_use("batch", 1000, QoSClass.BE)])
    assert not [wish for wish in first(alone, CPUSET).knobs if wish.target.knob is Knob.CPU_IDLE]


def test_an_alarm_between_samples_cuts_at_once() -> None:
    state = shared(told=health(300))
    verdict, memory = decide(state, QUOTA, BestEffortCpuMemory())
    assert values(verdict)[f"/{GROUP}:cpu.max"] == "320000 100000"
    verdict, _ = pressed(state, QUOTA, memory, Alarm(200_000, "pods/web", "cpu"))
    assert values(verdict)[f"/{GROUP}:cpu.max"] == "160000 100000"


def test_it_reads_the_quotas_and_lists_that_it_looks_at() -> None:
    assert [str(target) for target in reads(shared())] == [
        f"/{GROUP}:cpu.max",
        f"/{GROUP}:cpuset.cpus",
        f"/{GROUP}/batch:cpuset.cpus",
    ]


def test_exclusive_cpus_stay_clear_also_when_suppression_is_off() -> None:
    off = BestEffortCpuConfig(suppress=SuppressConfig(enabled=False), guard=GuardConfig(enabled=False), idle=False)
    lse = in_use("lse", 100, QoSClass.LSE, own_cpus=(4, 5))
    state = node([*shared().pods, lse], best_effort_group=GROUP, best_effort=GroupUse(GROUP, cpu_m=3000))
    assert values(first(state, off)) == {f"/{GROUP}:cpuset.cpus": "0-3,6-15"}


def test_a_group_never_gets_cpus_that_its_owner_did_not_give_it() -> None:
    lists = KnobTarget(GROUP, Knob.CPUSET_CPUS)
    below = KnobTarget(f"{GROUP}/batch", Knob.CPUSET_CPUS)
    state = shared(web_m=500, owners={lists: "2-5"}, knobs={lists: "2-3", below: "2-3"})
    given = values(first(state, CPUSET))
    assert given[str(lists)] == given[str(below)]
    assert set(parse_cpus(given[str(lists)])) <= {2, 3, 4, 5}
    everywhere = values(first(shared(web_m=500, knobs={lists: "2-3"}), CPUSET))
    assert not set(parse_cpus(everywhere[str(lists)])) <= {2, 3, 4, 5}


def test_a_quota_keeps_off_exclusive_cpus_too() -> None:
    lse = in_use("lse", 100, QoSClass.LSE, own_cpus=(4, 5))
    state = node([*shared().pods, lse], best_effort_group=GROUP, best_effort=GroupUse(GROUP, cpu_m=3000))
    told = values(first(state, QUOTA))
    assert told[f"/{GROUP}:cpuset.cpus"] == "0-3,6-15"
    assert f"/{GROUP}:cpu.max" in told


def test_what_a_quota_comes_from_is_kept_with_since_when() -> None:
    """A list of CPUs is no quota: the allowance binds only where it is one."""
    _, calm = decide(shared(), CPUSET, BestEffortCpuMemory())
    assert calm.binding is None
    _, cut = decide(shared(told=health(2000, over=50)), CPUSET, BestEffortCpuMemory())
    assert cut.binding is not None
    assert cut.binding.rule == "cpu-guard"
    assert "guard cuts best-effort work" in cut.binding.text
    later = replace(shared(told=health(2000, over=50)), at_us=shared().at_us + 1_000_000)
    _, held = decide(later, CPUSET, cut)
    assert held.binding is not None
    assert held.binding_us == cut.binding_us == shared().at_us
    _, lent = decide(shared(), QUOTA, BestEffortCpuMemory())
    assert lent.binding is not None
    assert lent.binding.rule == "cpu-suppress"
