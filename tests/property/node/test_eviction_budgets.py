"""Budgets of evictions over any sequence of requests, answers and names: what is accepted stays within the limits,
and requests are bounded too.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.fake_node import pod
from tests.property.few import examples

from cotenant.engine.node.evictions import HOUR_US, MINUTE_US, Evictions
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.settings import SECOND_US, EvictionLimits
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_decision import EvictPod, Reason
from cotenant.model.machine.verdict import PolicyVerdict

pytestmark = pytest.mark.slow
PODS = [pod(f"p{i}", f"kubepods/besteffort/podp{i}", QoSClass.BE) for i in range(8)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from([SECOND_US // 2, SECOND_US, 30 * SECOND_US, 20 * 60 * SECOND_US]),
        st.lists(st.sampled_from(range(len(PODS))), unique=True),  # wanted
        st.sets(st.sampled_from(range(len(PODS)))),  # named by now
        st.lists(st.sampled_from(["yes", "no", "later", "never"]), min_size=1),  # answers, in turn
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=examples(150), deadline=None)
def test_accepted_and_requested_evictions_are_bounded(steps: list[tuple[int, list[int], set[int], list[str]]]) -> None:
    limits = EvictionLimits(per_minute=2, per_hour=5, per_tenant_per_hour=5, outstanding=3, refused_per_minute=4)
    evictions = Evictions(limits, AgentCounts())
    now_us = 0
    accepted: list[int] = []
    asked: list[int] = []
    late: list[tuple[str, int]] = []
    for passes_us, wanted, named, answers in steps:
        now_us += passes_us
        for uid, at_us in late:
            if evictions.answered(uid, True, "", now_us) is not None:
                accepted.append(at_us)
        late.clear()
        here = [
            node_pod if number in named else replace(node_pod, namespace="", name=node_pod.uid, is_named=False)
            for number, node_pod in enumerate(PODS)
        ]
        reason = Reason("test", "test")
        verdict = PolicyVerdict((reason,), evictions=tuple(EvictPod(here[i].uid, here[i].key, reason) for i in wanted))
        chosen = evictions.choose([("test", verdict)], {node_pod.uid: node_pod for node_pod in here}, now_us)
        for number, (_, eviction) in enumerate(chosen):
            assert not eviction.key.startswith("/")
            asked.append(now_us)
            match answers[number % len(answers)]:
                case "yes":
                    evictions.answered(eviction.uid, True, "", now_us)
                    accepted.append(now_us)
                case "no":
                    evictions.answered(eviction.uid, False, "", now_us)
                case "later":
                    late.append((eviction.uid, now_us))
        evictions.validate(now_us)
    for at_us in accepted:
        assert sum(0 <= other - at_us < MINUTE_US for other in accepted) <= limits.per_minute
        assert sum(0 <= other - at_us < HOUR_US for other in accepted) <= limits.per_hour
    most = limits.per_minute + limits.refused_per_minute + limits.outstanding
    for at_us in asked:
        assert sum(0 <= other - at_us < MINUTE_US for other in asked) <= most
