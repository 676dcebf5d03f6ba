"""Invariants of the CPU policies of a node, for any input."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases
from tests.unit.policy.nodeqos.nodes import SECOND_US, topology

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import canonical, parse_cpu_max
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.model.machine.node_state import Alarm, GroupUse, HostUse, NodeState, PodUse, ServiceHealth
from cotenant.policy.nodeqos.burst import policy as burst
from cotenant.policy.nodeqos.burst.config import BurstConfig, BurstPolicy
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig, BestEffortCpuMemory, decide, holders
from cotenant.policy.nodeqos.cpu.division import GroupShare, divide
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm, allowance
from cotenant.policy.nodeqos.guard.config import GuardConfig
from cotenant.policy.nodeqos.guard.policy import GuardMemory, judge
from cotenant.policy.nodeqos.guard.step import slack_ppm
from cotenant.policy.nodeqos.guard.track import GuardMode

PPM = 1_000_000
CPUS = st.sampled_from([1, 2, 4, 16, 96])
SIGNAL = st.none() | st.integers(0, 2_000_000)


@st.composite
def pods(draw: st.DrawFn, cpus: int) -> tuple[PodUse, ...]:
    found = []
    for i in range(draw(st.integers(0, 5))):
        qos = draw(st.sampled_from([QoSClass.LS, QoSClass.LSR, QoSClass.LSE, QoSClass.BE, QoSClass.BE, QoSClass.NONE]))
        group = f"{draw(st.sampled_from(['be', 'pods']))}/p{i}"
        limit = draw(st.sampled_from([0, 5, 500, 4000]))
        use = GroupUse(
            group,
            cpu_m=draw(st.none() | st.integers(0, cpus * 1000)),
            throttled_ppm=draw(SIGNAL),
            run_delay_ppm=draw(SIGNAL),
            cpu_stall_ppm=draw(SIGNAL),
        )
        told = ServiceHealth(
            window_us=draw(st.integers(0, 30 * SECOND_US)),
            requests=draw(st.integers(0, 1000)),
            p99_us=draw(st.integers(0, 3000)),
            over_objective=draw(st.integers(0, 1000)),
            age_us=draw(st.integers(0, 40 * SECOND_US)),
        )
        pod = NodePod(
            f"u{i}",
            "ns",
            f"p{i}",
            group,
            qos,
            objective_p99_us=draw(st.none() | st.just(1000)) if qos is not QoSClass.BE else None,
            containers=(NodeContainer("c", f"{group}/c", cpu_request_m=draw(st.integers(0, 4000)), cpu_limit_m=limit),),
            own_cpus=(draw(st.integers(0, cpus - 1)),) if qos in (QoSClass.LSE, QoSClass.LSR) else (),
        )
        found.append(PodUse(pod, use, (replace(use, group=f"{group}/c"),), draw(st.none() | st.just(told))))
    return tuple(found)


@st.composite
def histories(draw: st.DrawFn) -> list[NodeState]:
    """A node over some seconds; pods come and go, counters are missing, alarms fall in between."""
    cpus = draw(CPUS)
    common = draw(st.booleans())
    states, at_us = [], 0
    for _ in range(draw(st.integers(1, 6))):
        at_us += draw(st.sampled_from([0, 100_000, SECOND_US, 20 * SECOND_US, -SECOND_US]))
        alarms = (Alarm(at_us, draw(st.sampled_from(["", "pods/p0", "be/p1"])), "cpu"),) if draw(st.booleans()) else ()
        there = draw(pods(cpus))
        inside = sum(entry.use.cpu_m or 0 for entry in there if entry.pod.group.startswith("be/"))
        states.append(
            NodeState(
                at_us=max(0, at_us),
                interval_us=SECOND_US,
                host=HostUse(cpus, draw(st.none() | st.integers(0, cpus * 1000)), 1 << 34, 0),
                pods=there,
                best_effort_group="be" if common else None,
                best_effort=GroupUse("be", cpu_m=draw(st.none() | st.just(inside))) if common else None,
                cpus=topology(cpus),
                reserved_cpu_m=draw(st.sampled_from([0, 300])),
                knobs={
                    KnobTarget("be", Knob.CPU_MAX): draw(st.sampled_from(["max 100000", "150000 100000", "3000 10000"]))
                },
                alarms=alarms,
            )
        )
    return states


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(histories(), st.sampled_from(list(SuppressionForm)), st.none() | st.integers(0, 100))
def test_limits_stay_between_floor_and_node_in_canonical_form_and_services_keep_theirs(
    states, form, min_percent
) -> None:
    config = BestEffortCpuConfig(suppress=SuppressConfig(form=form, min_percent=min_percent))
    memory = BestEffortCpuMemory()
    for state in states:
        verdict, after = decide(state, config, memory)
        assert (verdict, after) == decide(state, config, memory)  # the same again
        assert verdict.reasons
        assert len({wish.target for wish in verdict.knobs}) == len(verdict.knobs)
        quotas = 0
        for wish in verdict.knobs:
            assert canonical(wish.target.knob, wish.value) == wish.value
            assert wish.reason.text
            if wish.target.knob is Knob.CPU_MAX:
                quota_us = parse_cpu_max(wish.value).quota_us
                assert quota_us is not None
                assert quota_us >= 1000
                quotas += quota_us
        capacity_m = state.host.capacity_cpu_m
        held = len(holders(state))
        grace_us = 100 * sum(cpu_m for raised in after.grace.raised for _, cpu_m in raised.paid_by)
        assert grace_us <= 100 * config.grace.max_m
        # one kernel's least for each group may exceed the node's own least, nothing else but the grace exceeds the node
        assert quotas <= max(capacity_m * 100, 1000 * held, 2000) + grace_us
        granted = allowance(state, config.suppress)
        if granted is not None and min_percent is None and granted.cpu_m > 0:
            services = sum(entry.use.cpu_m or 0 for entry in state.services)
            assert services + granted.cpu_m <= capacity_m * config.suppress.threshold_percent // 100
            if form is SuppressionForm.QUOTA and held and quotas:
                band_us = capacity_m  # a hundredth of the node
                assert quotas <= max(granted.cpu_m * 100 + band_us, 1000 * held, 2000) + grace_us
        assert len(after.guard.burns) <= len(state.pods)
        memory = after


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(histories())
def test_the_guard_never_grows_while_slack_is_short_and_cuts_at_once(states) -> None:
    config, memory = GuardConfig(), GuardMemory()
    for state in states:
        before = memory.ceiling_m
        ceiling, after = judge(state, config, memory)
        capacity_m = state.host.capacity_cpu_m
        assert 0 < ceiling.cpu_m <= capacity_m
        grown = ceiling.cpu_m - (capacity_m if before is None else min(before, capacity_m))
        if ceiling.mode is not GuardMode.OFF:
            # The rest is given back at once only where pods without an objective are owed less.
            assert grown <= capacity_m * config.growth_ppm // PPM or ceiling.cpu_m == owed_floor_m(state, config)
            short = [
                entry
                for entry in state.services
                if entry.pod.objective_p99_us is not None
                and entry.health is not None
                and entry.health.age_us <= config.health_age_us
                and entry.health.tells(config.min_requests)
                and slack_ppm(entry.pod.objective_p99_us, entry.health.p99_us) < config.grow_from_ppm
            ]
            if short:
                assert grown <= 0
        memory = after


def owed_floor_m(state: NodeState, config: GuardConfig) -> int:
    """The node less what its pods without an objective are owed, written out."""
    capacity_m, owed_m = state.host.capacity_cpu_m, 0
    protected = [e for e in state.services if e.pod.qos is not QoSClass.NONE or e.pod.objective_p99_us is not None]
    others = [entry for entry in protected if entry.pod.objective_p99_us is None]
    alarms = [alarm for alarm in state.alarms if alarm.group or len(others) == len(protected)]
    for entry in others:
        if entry.use.cpu_m is None:
            return 0
        waited = entry.use.run_delay_ppm if entry.use.run_delay_ppm is not None else entry.use.cpu_stall_ppm or 0
        waited += sum(alarm.stall_ppm for alarm in alarms if alarm.group == entry.pod.group)
        owed_m += 2 * max(entry.pod.cpu_request_m, entry.use.cpu_m + waited // 1000)
    owed_m += sum(2 * (alarm.stall_ppm // 1000) for alarm in alarms if not alarm.group)
    assert config.bound_ppm == 2 * PPM
    return max(0, capacity_m - owed_m)


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_pods_without_an_objective_cost_at_most_their_bound_while_no_objective_is_in_danger(states) -> None:
    config, memory = GuardConfig(), GuardMemory()
    for state in states:
        ceiling, memory = judge(state, config, memory)
        capacity_m = state.host.capacity_cpu_m
        if (memory.objectives.ceiling_m or capacity_m) >= capacity_m and not _is_in_danger(memory, state):
            assert ceiling.cpu_m >= owed_floor_m(state, config)
        assert sum(term.value for term in ceiling.reason.terms if term.unit == "mCPU") == ceiling.cpu_m


def _is_in_danger(memory: GuardMemory, state: NodeState) -> bool:
    return memory.objectives.restless_us == state.at_us


@settings(max_examples=examples(80), deadline=None)
@given(
    st.integers(0, 100_000),
    st.lists(
        st.builds(GroupShare, st.integers(0, 20_000), st.integers(1, 5000), st.none() | st.integers(1, 9000)),
        max_size=8,
    ),
)
def test_a_division_hands_out_all_and_nothing_beyond_limits(total_m, shares) -> None:
    parts = divide(total_m, shares, 10)
    for part, share in zip(parts, shares, strict=True):
        assert part >= 10
        assert share.limit_m is None or part <= max(10, share.limit_m)
    full = all(share.limit_m is not None and part == max(10, share.limit_m) for part, share in zip(parts, shares))
    if shares and not full:
        assert sum(parts) == max(total_m, 10 * len(shares))


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(
    histories(), st.sampled_from(list(BurstPolicy)), st.sampled_from([-1, 0, 30]), st.sampled_from([800, 1000, 1500])
)
def test_bursts_stay_between_the_limit_and_its_multiple_and_the_kernel_takes_them(
    states, policy, period_s, ratio
) -> None:
    config = BurstConfig(policy=policy, quota_burst_period_s=period_s, ratio_milli=ratio)
    memory = burst.BurstMemory()
    for state in states:
        verdict, after = burst.decide(state, config, memory)
        assert (verdict, after) == burst.decide(state, config, memory)
        quota = {
            w.target.group: parse_cpu_max(w.value).quota_us for w in verdict.knobs if w.target.knob is Knob.CPU_MAX
        }
        limits = {c.group: c.cpu_limit_m for entry in state.pods for c in entry.pod.containers}
        for wish in verdict.knobs:
            assert canonical(wish.target.knob, wish.value) == wish.value
            group = wish.target.group
            if group not in limits:
                continue
            base_us = max(1000, -(-limits[group] * 100 * 1000 // ratio))
            if wish.target.knob is Knob.CPU_MAX:
                assert base_us <= quota[group] <= base_us * 3
            else:
                assert 0 < int(wish.value) <= quota.get(group, base_us)
        assert len(after.buckets) <= len(limits)
        memory = after


test_first_cases = first_cases(
    test_limits_stay_between_floor_and_node_in_canonical_form_and_services_keep_theirs,
    test_the_guard_never_grows_while_slack_is_short_and_cuts_at_once,
    test_pods_without_an_objective_cost_at_most_their_bound_while_no_objective_is_in_danger,
    test_bursts_stay_between_the_limit_and_its_multiple_and_the_kernel_takes_them,
)
