"""The arithmetic of the node policies is equal compiled, as in the lab's world, and plain, as on a node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.policy.nodeqos.cpu import allowance
from cotenant.policy.nodeqos.guard import step as guard_step
from cotenant_lab.world import node_qos

pytestmark = pytest.mark.slow
CPU = st.integers(0, 200_000)
PPM = st.integers(-2_000_000, 2_000_000)
TIME = st.integers(0, 10**12)


@settings(max_examples=examples(200), deadline=None)
@given(CPU, st.integers(1, 100), CPU, CPU, CPU)
def test_the_allowance(capacity: int, threshold: int, services: int, system: int, reserved: int) -> None:
    given_ = (capacity, threshold, services, system, reserved)
    assert node_qos.allowance_m(*given_) == allowance.allowance_m(*given_)


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 10**7), st.integers(0, 10**7), PPM, PPM)
def test_slack_and_severity(objective: int, p99: int, grow_from: int, cut_below: int) -> None:
    slack = guard_step.slack_ppm(objective, p99)
    assert node_qos.slack_ppm(objective, p99) == slack
    assert node_qos.severity_of_slack(slack, grow_from, cut_below) == guard_step.severity_of_slack(
        slack, grow_from, cut_below
    )


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 4), st.integers(0, 3), TIME, TIME, TIME, TIME, st.integers(-(10**12), 10**12))
def test_modes(mode: int, severity: int, missed: int, limit: int, calm_for: int, calm: int, cooling: int) -> None:
    given_ = (mode, severity, missed, limit, calm_for, calm, cooling)
    assert node_qos.next_mode(*given_) == guard_step.next_mode(*given_)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 4), CPU, CPU, CPU, CPU, CPU, st.integers(0, 1_000_000), CPU)
def test_ceilings(
    mode: int, ceiling: int, used: int, capacity: int, least: int, disabled: int, cut: int, growth: int
) -> None:
    given_ = (mode, ceiling, used, capacity, least, disabled, cut, growth)
    assert node_qos.next_ceiling_m(*given_) == guard_step.next_ceiling_m(*given_)
