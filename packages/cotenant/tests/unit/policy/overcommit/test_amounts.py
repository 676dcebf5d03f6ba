"""Batch and mid amounts: the terms add up, limits are terms, and pods count by class."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.few import examples

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_metric import NO_USE, MeasuredPod, Use
from cotenant.policy.overcommit.batch import BatchRules, batch_amounts, zone_amounts
from cotenant.policy.overcommit.facts import ActivePod, Amount, AmountTerm, NodeFacts, Policy
from cotenant.policy.overcommit.mid import MidRules, mid_amounts
from cotenant.policy.overcommit.writing import Adjustments, adjusted

# Nodes are drawn slowly on a busy machine.
BUSY = settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])
SIZE = Use(100_000, 100 << 30)
PROD, BATCH = PriorityClass.PROD, PriorityClass.BATCH
ONE = ActivePod("a/one", PROD, Use(10_000, 8 << 30), QoSClass.LS)

_uses = st.builds(Use, st.integers(0, 200_000), st.integers(0, 1 << 38))
_pods = st.lists(
    st.builds(
        ActivePod,
        st.sampled_from(["a/1", "a/2", "a/3"]),
        st.sampled_from(list(PriorityClass)),
        _uses,
        st.sampled_from(list(QoSClass)),
    ),
    max_size=3,
    unique_by=lambda pod: pod.key,
)
_nodes = st.builds(
    NodeFacts,
    st.just(SIZE),
    st.just(Use(95_000, 96 << 30)),
    st.builds(tuple, _pods),
    usage=st.none() | _uses,
    system=_uses,
    measured=st.dictionaries(st.sampled_from(["a/1", "a/2", "gone/x"]), st.builds(MeasuredPod, _uses)),
    prod_reclaimable=st.none() | _uses,
    zones=st.sampled_from([(), (Use(50_000, 50 << 30),) * 2]),
)


@BUSY
@given(
    _nodes,
    st.sampled_from([Policy.USAGE, Policy.MAX_USAGE_REQUEST, Policy.REQUEST]),
    st.none() | st.integers(0, 100),
    st.integers(0, 100),
)
def test_every_amount_is_the_sum_of_its_terms_and_within_the_node(
    node: NodeFacts, policy: Policy, limit: int | None, reclaim: int
) -> None:
    rules = BatchRules(reclaim, reclaim, policy, policy, limit, limit)
    whole = (*batch_amounts(node, rules), *mid_amounts(node, MidRules(unallocated_pct=reclaim)))
    for amount in (*whole, *(entry for pair in zone_amounts(node, rules) for entry in pair)):
        assert amount.value == sum(term.amount for term in amount.terms)
        assert 0 <= amount.value <= (SIZE.cpu_m if amount.resource.endswith("cpu") else SIZE.memory_bytes)


@BUSY
@given(_nodes, _uses)
def test_a_further_prod_pod_never_raises_what_is_lent(node: NodeFacts, request: Use) -> None:
    more = NodeFacts(
        node.capacity,
        node.allocatable,
        (*node.pods, ActivePod("b/new", PROD, request)),
        usage=node.usage,
        system=node.system,
        measured=node.measured,
        zones=node.zones,
    )
    for policy in (Policy.USAGE, Policy.MAX_USAGE_REQUEST, Policy.REQUEST):
        rules = BatchRules(cpu_policy=policy, memory_policy=policy)
        for before, after in zip(batch_amounts(node, rules), batch_amounts(more, rules), strict=True):
            assert after.value <= before.value


def test_an_unmeasured_pod_counts_by_its_request() -> None:
    for policy in (Policy.USAGE, Policy.MAX_USAGE_REQUEST):
        cpu, _ = batch_amounts(NodeFacts(SIZE, SIZE, (ONE,)), BatchRules(cpu_policy=policy))
        assert cpu.value == 60_000 - 10_000


def test_batch_and_free_pods_do_not_lower_batch_amounts() -> None:
    low = tuple(ActivePod(f"a/{c}", c, ONE.request) for c in (BATCH, PriorityClass.FREE))
    cpu, _ = batch_amounts(NodeFacts(SIZE, SIZE, low), BatchRules())
    assert cpu.value == 60_000


def test_raw_allocatable_is_the_reservation_not_the_amplified_one() -> None:
    node = NodeFacts(SIZE, Use(90_000, SIZE.memory_bytes))
    assert node.reserved == Use(10_000, 0)
    assert NodeFacts(SIZE, Use(150_000, SIZE.memory_bytes)).reserved == NO_USE


def test_an_amount_whose_terms_do_not_add_up_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the sum of its terms, 3"):
        Amount("batch-cpu", "usage", 4, (AmountTerm("capacity", 3),))


def test_adjustments_are_terms() -> None:
    cpu, _ = batch_amounts(NodeFacts(SIZE, SIZE), BatchRules())
    after = adjusted(cpu, Adjustments(Decimal("1.2"), {"batch-cpu": 2000}))
    assert after.value == 70_000
    assert [(term.name, term.amount) for term in after.terms[-2:]] == [
        ("CPU normalization x 1.2", 12_000),
        ("allocated by third parties", -2_000),
    ]
