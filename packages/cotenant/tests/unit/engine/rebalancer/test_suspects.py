"""Suspects: among them the repairs find the same violations as among all pods, and without a violation there are
none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.fakes.cluster.rule_worlds import TEAMS, a_node, a_pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.rebalancer.suspects import Suspects
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import NamespaceFacts, ObservedPod
from cotenant.policy.placement.profiles import profile
from cotenant.policy.rebalance.loads.low_node_load import Landing
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.violations.anti_affinity import repair_anti_affinity
from cotenant.policy.rebalance.violations.contract import PlacedPod, Repair
from cotenant.policy.rebalance.violations.spread import repair_spread

NAMESPACES = {"ns0": TEAMS[1], "ns1": TEAMS[2]}


class Refusing:
    """No pod may move: what violates a rule is kept, with the reason of the rule."""

    def admit(self, pod: LoadPod, node: str) -> str:
        return "not now"

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        raise AssertionError


def some_cluster(seed: int, rules: float) -> Cluster:
    rng = np.random.default_rng(seed)
    cluster = Cluster(profile("least-allocated"), np.random.default_rng(0))
    for name, labels in NAMESPACES.items():
        cluster.namespace_seen(NamespaceFacts(name, labels))
    for i in range(5):
        cluster.node_seen(a_node(rng, i))
    for i in range(int(rng.integers(5, 40))):
        made = a_pod(rng, f"p{i}", rules)
        cluster.pod_seen(ObservedPod(made, f"u{i}", "cotenant", 0.0, node=f"n{rng.integers(5)}"), 0.0)
    return cluster


def suspects(cluster: Cluster) -> list[PodInfo]:
    found = Suspects(cluster.alike(cluster.every_pod()), _nodes(cluster), _labels(cluster))
    found.anti_affinity()
    found.spread()
    return found.pods()


def violations(cluster: Cluster, pods: Sequence[PodInfo]) -> set[tuple[str, str, str]]:
    """Every pod that a repair would like to move, with the rule and the reason."""
    repair = Repair(_nodes(cluster), _labels(cluster), {pod.seen.uid: pod.node for pod in pods}, Refusing())
    placed = [PlacedPod(LoadPod(pod.seen.pod.key, pod.seen.uid, None), pod.seen.pod, pod.node) for pod in pods]
    repair_anti_affinity(placed, repair)
    repair_spread(placed, repair)
    return {(rule_kept.pod.key, rule_kept.rule, rule_kept.reason) for rule_kept in repair.kept}


def _nodes(cluster: Cluster) -> dict[str, Node]:
    return {node.name: node for node in cluster.nodes()}


def _labels(cluster: Cluster) -> dict[str, Labels]:
    return {facts.name: facts.labels for facts in cluster.namespaces()}


@pytest.mark.parametrize("seed", range(40))
def test_the_same_violations_are_found_as_among_all_pods(seed: int) -> None:
    cluster = some_cluster(seed, 0.3 if seed % 2 else 0.1)
    assert violations(cluster, suspects(cluster)) == violations(cluster, list(cluster.every_pod()))


def test_there_are_violations_and_pods_without_in_these_clusters() -> None:
    found = [some_cluster(seed, 0.1) for seed in range(0, 40, 2)]
    assert sum(bool(violations(cluster, suspects(cluster))) for cluster in found) > 5
    assert sum(len(suspects(cluster)) < len(list(cluster.every_pod())) for cluster in found) > 5
    assert any(not suspects(cluster) for cluster in found)
