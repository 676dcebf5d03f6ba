from __future__ import annotations

import numpy as np
import pytest

from cotenant.model.arrays import Mask
from cotenant.model.cluster.affinity import NodeInclusionPolicy, SpreadConstraint, WhenUnsatisfiable
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.topology import Domains
from cotenant.model.resources import Amounts
from cotenant.policy.placement.topology import spread

SIZE = Amounts.of({"cpu": 1000, "memory": 100})
ALL = LabelSelector()
# rows 0..5: zones a a b b c and one node without a zone
ZONES = ["a", "a", "b", "b", "c", None]
NODES = [Node(f"n{i}", SIZE, Labels.of({HOSTNAME: f"n{i}"} | ({ZONE: z} if z else {}))) for i, z in enumerate(ZONES)]
BY_ZONE, BY_HOST = Domains.of(ZONE, NODES), Domains.of(HOSTNAME, NODES)
ROWS = np.arange(6)
EVERY = np.ones(6, dtype=np.bool_)


def rule(
    matching: list[int], skew: int = 1, eligible: Mask = EVERY, itself: bool = True, **more: int
) -> spread.SpreadRule:
    return spread.count_rule(SpreadConstraint(ZONE, ALL, skew, **more), BY_ZONE, np.array(matching), eligible, itself)


def test_only_the_emptiest_zones_pass() -> None:
    # a has 2, b has 1, c has 1: one more in a would be 3 against 1
    counted = rule([1, 1, 1, 0, 1, 0])
    assert spread.mask(counted, ROWS).tolist() == [False, False, True, True, True, False]
    assert spread.has_key(counted, ROWS).tolist() == [True] * 5 + [False]
    assert spread.mask(counted, np.array([4, 0])).tolist() == [True, False]


def test_a_larger_skew_and_a_pod_that_does_not_count_itself() -> None:
    assert spread.mask(rule([1, 1, 1, 0, 1, 0], skew=2), ROWS).tolist() == [True] * 5 + [False]
    assert spread.mask(rule([1, 1, 1, 0, 1, 0], itself=False), ROWS).tolist() == [True] * 5 + [False]


def test_a_zone_the_pod_cannot_use_does_not_hold_the_others_down() -> None:
    matching = [1, 0, 1, 0, 0, 0]
    assert spread.mask(rule(matching), ROWS).tolist() == [False, False, False, False, True, False]
    without_c = np.array([True, True, True, True, False, True])
    assert spread.mask(rule(matching, eligible=without_c), ROWS)[:4].tolist() == [True] * 4


def test_too_few_domains_count_as_empty() -> None:
    matching = [1, 0, 1, 0, 1, 0]
    assert spread.mask(rule(matching), ROWS)[:5].tolist() == [True] * 5
    assert spread.mask(rule(matching, min_domains=3), ROWS)[:5].tolist() == [True] * 5
    assert spread.mask(rule(matching, min_domains=4), ROWS)[:5].tolist() == [False] * 5


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({}, [True, False, True, True, True, False]),
        ({"node_affinity_policy": NodeInclusionPolicy.IGNORE}, [True, True, True, True, True, False]),
        ({"node_taints_policy": NodeInclusionPolicy.HONOR}, [True, False, False, True, True, False]),
    ],
)
def test_which_nodes_count(policies: dict[str, NodeInclusionPolicy], expected: list[bool]) -> None:
    constraint = SpreadConstraint(ZONE, ALL, **policies)
    affinity, tolerated = EVERY.copy(), EVERY.copy()
    affinity[1], tolerated[2] = False, False
    assert spread.eligible_nodes(constraint, [BY_ZONE, BY_HOST], affinity, tolerated).tolist() == expected


def any_rule(domains: Domains, matching: list[int], skew: int = 1) -> spread.SpreadRule:
    constraint = SpreadConstraint(domains.key, ALL, skew, WhenUnsatisfiable.SCHEDULE_ANYWAY)
    return spread.count_rule(constraint, domains, np.array(matching), EVERY, True)


def test_fewer_pods_score_higher() -> None:
    # log(3 + 2) = 1.609: 3, 1, 0 pods cost 5, 2, 0
    assert spread.score([any_rule(BY_ZONE, [2, 1, 1, 0, 0, 0])], ROWS).tolist() == [0, 0, 60, 60, 100, 0]


def test_equal_and_empty_domains_score_alike() -> None:
    assert spread.score([any_rule(BY_ZONE, [0] * 6)], ROWS).tolist() == [100, 100, 100, 100, 100, 0]
    assert spread.score([any_rule(BY_ZONE, [1, 0, 1, 0, 1, 0])], ROWS).tolist() == [100, 100, 100, 100, 100, 0]
    assert spread.score([any_rule(BY_ZONE, [0] * 6)], np.array([5])).tolist() == [0]


def test_constraints_add_up() -> None:
    both = [any_rule(BY_ZONE, [1, 0, 0, 0, 0, 0]), any_rule(BY_HOST, [1, 0, 0, 0, 0, 0])]
    score = spread.score(both, ROWS)
    assert score[0] < score[1] < score[2] == score[3] == score[4] == 100
