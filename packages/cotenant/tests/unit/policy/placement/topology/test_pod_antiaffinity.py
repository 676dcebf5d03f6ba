from __future__ import annotations

import numpy as np

from cotenant.model.arrays import Int
from cotenant.model.cluster.labels import ZONE, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.topology import Domains
from cotenant.model.resources import Amounts
from cotenant.policy.placement.topology import pod_antiaffinity

SIZE = Amounts.of({"cpu": 1000, "memory": 100})
# rows 0..5: zones a a b b c and one node without a zone
NODES = [Node(f"n{i}", SIZE, Labels.of({ZONE: z} if z else {})) for i, z in enumerate(["a", "a", "b", "b", "c", None])]
BY_ZONE = Domains.of(ZONE, NODES)
ROWS = np.arange(6)


def anti(matching: list[int], weight: int = 0) -> pod_antiaffinity.AntiRule:
    return pod_antiaffinity.count_rule(BY_ZONE, np.array(matching), weight)


def test_anti_affinity_closes_whole_domains_and_spares_nodes_without_the_key() -> None:
    assert pod_antiaffinity.mask(anti([0, 1, 0, 0, 0, 1]), ROWS).tolist() == [False, False, True, True, True, True]
    assert pod_antiaffinity.mask(anti([0] * 6), ROWS).tolist() == [True] * 6


def test_preferred_anti_affinity_scores_from_least_to_most() -> None:
    rules = [anti([1, 0, 0, 0, 0, 0], 10), anti([1, 0, 1, 0, 0, 0], 30)]
    assert pod_antiaffinity.score(rules, ROWS).tolist() == [0, 0, 25, 25, 100, 100]
    assert pod_antiaffinity.score([anti([0] * 6, 5)], ROWS).tolist() == [0] * 6
    nobody: Int = np.array([], dtype=np.int64)
    assert pod_antiaffinity.score(rules, nobody).tolist() == []
