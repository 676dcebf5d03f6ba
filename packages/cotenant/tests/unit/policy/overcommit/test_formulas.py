"""Batch and mid amounts against their formulas, written out pod by pod."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.node_metric import HostApplication, MeasuredPod, Use
from cotenant.policy.overcommit.batch import BatchRules, batch_amounts, zone_amounts
from cotenant.policy.overcommit.facts import ActivePod, NodeFacts, Policy
from cotenant.policy.overcommit.mid import MidRules, mid_amounts

LENT, BELOW_PROD = ("batch", "free"), ("mid", "batch", "free")
_uses = st.builds(Use, st.integers(0, 40_000), st.integers(0, 40_000))
_pods = st.lists(
    st.builds(
        ActivePod,
        st.sampled_from(["a/1", "a/2", "a/3"]),
        st.sampled_from(list(PriorityClass)),
        _uses,
        st.sampled_from(list(QoSClass)),
        st.sampled_from([None, (0,), (1,)]),
    ),
    max_size=3,
    unique_by=lambda pod: pod.key,
)
_nodes = st.builds(
    NodeFacts,
    st.just(Use(100_000, 120_000)),
    st.just(Use(95_000, 110_000)),
    st.builds(tuple, _pods),
    _uses,
    usage=st.none() | _uses,
    system=_uses,
    measured=st.dictionaries(
        st.sampled_from(["a/1", "a/2", "gone/x"]),
        st.builds(MeasuredPod, _uses, st.sampled_from(list(PriorityClass))),
    ),
    host_applications=st.builds(
        tuple,
        st.lists(st.builds(HostApplication, _uses, st.sampled_from(list(PriorityClass))), max_size=2),
    ),
    prod_reclaimable=st.none() | _uses,
    zones=st.just((Use(50_000, 60_000), Use(50_000, 60_000))),
)
_percents = st.integers(0, 100)


def _word(value: PriorityClass) -> str:
    return value.name.lower()


def _lent(node: NodeFacts, policy: Policy, reclaim: int, limit: int | None, resource: int) -> int:
    capacity = node.capacity[resource]
    reserved = max(capacity - node.allocatable[resource], node.annotated_reservation[resource])
    programs = [made.use[resource] for made in node.host_applications if _word(made.priority_class) not in LENT]
    system = max(node.system[resource] + sum(programs), reserved)
    used = requested = most = 0
    for pod in node.pods:
        if _word(pod.priority_class) in LENT:
            continue
        request, sample = pod.request[resource], node.measured.get(pod.key)
        use = sample.use[resource] if sample is not None else request
        requested += request
        most += max(use, request)
        used += request if pod.qos is QoSClass.LSE and resource == 0 else use
    for key, gone in node.measured.items():
        if key not in {pod.key for pod in node.pods} and _word(gone.priority_class) not in LENT:
            used += gone.use[resource]
            most += gone.use[resource]
    left = capacity - capacity * (100 - reclaim) // 100
    if policy is Policy.MAX_USAGE_REQUEST:
        left -= system + most
    elif policy is Policy.REQUEST and resource == 1:
        left -= reserved + requested
    else:
        left -= system + used
    return min(max(0, left), capacity if limit is None else capacity * limit // 100)


@settings(max_examples=25)
@given(
    _nodes,
    st.sampled_from([Policy.USAGE, Policy.MAX_USAGE_REQUEST, Policy.REQUEST]),
    st.tuples(_percents, _percents),
    st.tuples(st.none() | _percents, st.none() | _percents),
)
def test_batch_amounts_are_their_formula(
    node: NodeFacts, policy: Policy, reclaim: tuple[int, int], limit: tuple[int | None, int | None]
) -> None:
    rules = BatchRules(*reclaim, policy, policy, *limit)
    found = [amount.value for amount in batch_amounts(node, rules)]
    assert found == [_lent(node, policy, reclaim[at], limit[at], at) for at in (0, 1)]


@settings(max_examples=25)
@given(_nodes, st.integers(0, 100), _percents, st.tuples(_percents, _percents))
def test_predicted_mid_amounts_are_their_formula(
    node: NodeFacts, unallocated: int, static: int, threshold: tuple[int, int]
) -> None:
    rules = MidRules(*threshold, unallocated)
    for at, amount in enumerate(mid_amounts(node, rules)):
        capacity = node.capacity[at]
        reserved = max(capacity - node.allocatable[at], node.annotated_reservation[at])
        programs = [made.use[at] for made in node.host_applications if _word(made.priority_class) not in BELOW_PROD]
        asked = [pod.request[at] for pod in node.pods if _word(pod.priority_class) not in BELOW_PROD]
        free = max(0, capacity - node.usage[at]) if node.usage is not None else 0
        lent = node.prod_reclaimable[at] if node.prod_reclaimable is not None else 0
        beside = max(0, capacity - max(node.system[at] + sum(programs), reserved) - sum(asked))
        whole = min(max(0, lent), free) + beside * unallocated // 100
        assert amount.value == min(whole, capacity * threshold[at] // 100)
    fixed = mid_amounts(node, MidRules(*threshold, unallocated, True, static, static))
    assert [amount.value for amount in fixed] == [
        node.capacity[at] * min(static, threshold[at]) // 100 for at in (0, 1)
    ]


@pytest.mark.parametrize("policy", [Policy.USAGE, Policy.MAX_USAGE_REQUEST, Policy.REQUEST])
def test_a_zone_has_its_pods_and_half_of_what_belongs_to_none(policy: Policy) -> None:
    prod = PriorityClass.PROD
    node = NodeFacts(
        Use(100_000, 100_001),
        Use(99_000, 99_000),
        (
            ActivePod("a/1", prod, Use(9_000, 7_000), zones=(0,)),
            ActivePod("a/2", prod, Use(1_001, 1_001)),
            ActivePod("a/3", PriorityClass.BATCH, Use(5_000, 5_000), zones=(1,)),
        ),
        system=Use(3_001, 3_003),
        measured={
            "a/1": MeasuredPod(Use(2_000, 9_000), prod),
            "gone/x": MeasuredPod(Use(401, 403), prod),
            "gone/y": MeasuredPod(Use(70, 70), PriorityClass.FREE),
        },
        zones=(Use(50_000, 50_000), Use(50_000, 50_001)),
    )
    for zone, amounts in enumerate(zone_amounts(node, BatchRules(80, 60, policy, policy))):
        for at, amount in enumerate(amounts):
            mine = node.zones[zone][at]
            half = ceil(node.pods[1].request[at] / 2)
            gone = ceil(node.measured["gone/x"].use[at] / 2)
            use, request = (2_000, 9_000)[at] * (zone == 0), (9_000, 7_000)[at] * (zone == 0)
            left = mine - mine * (20, 40)[at] // 100
            if policy is Policy.REQUEST and at == 1:
                left -= ceil((1_000, 1_001)[at] / 2) + request + half
            else:
                counted = max(use, request) if policy is Policy.MAX_USAGE_REQUEST else use
                left -= ceil(node.system[at] / 2) + counted + half + gone
            assert amount.value == left
