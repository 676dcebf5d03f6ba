from __future__ import annotations

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredTerm
from cotenant.model.cluster.labels import NO_LABELS, Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.filters import node_affinity

SIZE = Amounts.of({"cpu": 1000, "memory": 100})
ROWS = np.arange(4)
SSD = NodeSelectorTerm((Requirement("disk", SelectorOperator.IN, ("ssd",)),))
ZONE_A = NodeSelectorTerm((Requirement("zone", SelectorOperator.IN, ("a",)),))
MANY = NodeSelectorTerm((Requirement("cores", SelectorOperator.GT, ("32",)),))


def cluster() -> Encoder:
    encoder = Encoder(half_node_cores=1.0)
    for i, labels in enumerate(
        ({"disk": "ssd", "zone": "a"}, {"disk": "ssd", "zone": "b", "cores": "64"}, {"zone": "a", "cores": "16"}, {})
    ):
        encoder.add_node(Node(f"n{i}", SIZE, Labels.of(labels)))
    return encoder


def passing(selector: Labels = NO_LABELS, *required: NodeSelectorTerm) -> list[bool]:
    encoder = cluster()
    affinity = NodeAffinity(NodeSelector(required)) if required else None
    _, k = encoder.add_pod(Pod("p", node_selector=selector, node_affinity=affinity))
    return node_affinity.mask(encoder.nodes(), encoder.shapes(), k, ROWS).tolist()


def test_no_demand_passes_everywhere() -> None:
    assert passing() == [True] * 4


def test_selector_and_affinity_must_both_hold() -> None:
    assert passing(Labels.of({"zone": "a"})) == [True, False, True, False]
    assert passing(NO_LABELS, SSD, MANY) == [True, True, False, False]
    assert passing(Labels.of({"zone": "a"}), SSD, MANY) == [True, False, False, False]


def test_an_empty_term_matches_no_node() -> None:
    assert passing(NO_LABELS, NodeSelectorTerm()) == [False] * 4


def test_preferences_are_weighted_and_relative_to_the_best() -> None:
    encoder = cluster()
    preferred = (PreferredTerm(60, SSD), PreferredTerm(20, ZONE_A), PreferredTerm(1, MANY))
    _, k = encoder.add_pod(Pod("p", node_affinity=NodeAffinity(preferred=preferred)))
    bits, weights = encoder.preferred(k)
    nodes = encoder.nodes()
    assert node_affinity.weight_of_bits(nodes, bits, weights, ROWS).tolist() == [80, 61, 20, 0]
    assert node_affinity.score(nodes, bits, weights, ROWS).tolist() == [100.0, 76.0, 25.0, 0.0]
    assert node_affinity.score(nodes, bits, weights, np.array([3])).tolist() == [0.0]
    assert node_affinity.mask(nodes, encoder.shapes(), k, ROWS).tolist() == [True] * 4  # only a wish


def test_no_preference_scores_zero() -> None:
    encoder = cluster()
    _, k = encoder.add_pod(Pod("p"))
    bits, weights = encoder.preferred(k)
    assert node_affinity.score(encoder.nodes(), bits, weights, ROWS).tolist() == [0.0] * 4
