"""Over any sequence of starts the grace stays within its accounts, and the budget's own arithmetic is untouched."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples
from tests.unit.policy.nodeqos.nodes import SECOND_US, in_use, node

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.machine.node_pod import NodePodPhase
from cotenant.policy.nodeqos.cpu.startup_grace import StartupGraceConfig, StartupGraceMemory, lowered, raised

pytestmark = pytest.mark.slow
TENANTS = ["a", "b", ""]
GROUP = "be"
QUOTA = KnobTarget(GROUP, Knob.CPU_MAX)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 100_000, SECOND_US, SECOND_US, 7 * SECOND_US, 30 * SECOND_US]),
        st.lists(  # pods that are there: number, tenant, use, phase
            st.tuples(
                st.integers(0, 40), st.sampled_from(TENANTS), st.integers(0, 400), st.sampled_from(list(NodePodPhase))
            ),
            max_size=6,
            unique_by=lambda entry: entry[0],
        ),
        st.sampled_from(["2000 100000", "20000 100000", "95000 100000", "200000 100000", "3000 10000"]),
    ),
    max_size=80,
)
CONFIGS = st.builds(
    StartupGraceConfig,
    each_m=st.sampled_from([50, 200]),
    max_pods=st.integers(1, 3),
    burst_us=st.sampled_from([0, 500_000, 4_000_000]),
    minute_us=st.sampled_from([0, 4_000_000]),
    tenant_burst_us=st.sampled_from([0, 300_000, 2_000_000]),
    tenant_minute_us=st.sampled_from([0, 1_000_000]),
)


@given(CONFIGS, STEPS)
@settings(max_examples=examples(200), deadline=None)
def test_what_is_given_is_bounded_by_the_accounts(config: StartupGraceConfig, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    memory, at_us = StartupGraceMemory(), 1_000 * SECOND_US
    in_force = ""
    ats: list[int] = []
    given_m: list[dict[str, int]] = []  # by tenant, from each decision to the next
    for passes_us, there, budget in steps:
        at_us += passes_us
        pods = [
            in_use(
                f"p{number}", cpu_m, QoSClass.BE, group=f"{GROUP}/p{number}", tenant=tenant, phase=phase, namespace="n"
            )
            for number, tenant, cpu_m, phase in there
        ]
        state = node(pods, at_s=at_us / SECOND_US, knobs={QUOTA: in_force} if in_force else {})
        before = memory.raised
        assert lowered(state, memory).knobs.get(QUOTA) == (before[0].without if before else in_force or None)
        budget_m = parse_cpu_max(budget).cpu_m or 0
        wanted = (SetKnob(QUOTA, budget, Reason("test", "budget", (DecisionTerm("budget", budget_m, "mCPU"),))),)
        (knob,), _, memory = raised(wanted, state, config, memory)
        in_force = knob.value
        extra_m = (parse_cpu_max(knob.value).cpu_m or 0) - budget_m
        paid: dict[str, int] = {}
        for entry in memory.raised:
            for tenant, cpu_m in entry.paid_by:
                paid[tenant] = paid.get(tenant, 0) + cpu_m
        assert 0 <= extra_m == sum(paid.values()) <= config.max_m
        assert extra_m == 0 or budget_m + extra_m <= config.tight_m
        assert sum(term.value for term in knob.reason.terms) == budget_m + extra_m
        assert len(memory.owed) <= len(TENANTS) + 1
        ats.append(at_us)
        given_m.append(paid)
    for tenant in (None, *TENANTS, "n"):
        burst_us = config.burst_us if tenant is None else config.tenant_burst_us
        minute_us = config.minute_us if tenant is None else config.tenant_minute_us
        spent = [
            (sum(paid.values()) if tenant is None else paid.get(tenant, 0)) * (until - since) / 1000
            for paid, since, until in zip(given_m, ats, ats[1:], strict=False)
        ]
        one_us = max(spent, default=0)
        sums = [0.0, *accumulate(spent)]
        for first in range(len(sums)):
            for last in range(first + 1, len(sums)):
                passed_us = ats[last] - ats[first]
                max_us = burst_us + minute_us * passed_us / (60 * SECOND_US) + one_us + (last - first)  # rounding
                assert sums[last] - sums[first] <= max_us
