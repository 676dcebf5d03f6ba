"""The score of default spread constraints against kube-scheduler's formula, written out node by node.

Source: PodTopologySpread with `defaultingType: System`: maxSkew 3 over hosts and 5 over zones, ScheduleAnyway; nodes
without a key are left out of that constraint only.
"""

from __future__ import annotations

from math import log
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.kube_scoring import USUAL

SIZE = Amounts.of({"cpu": 100_000, "memory": 1 << 30})
FAST = Labels.of({"disk": "fast"})


def expected(nodes: list[Node], placed: list[tuple[Pod, int, bool]], new: Pod, rows: list[int]) -> list[int]:
    """Upstream's Score and NormalizeScore for the system defaults, over the feasible rows."""
    cost = [0.0] * len(rows)
    for key, skew in ((HOSTNAME, 3), (ZONE, 5)):
        counts: dict[str, int] = {}
        for pod, row, terminating in placed:
            value = nodes[row].labels.get(key)
            fits = not new.node_selector or nodes[row].labels.get("disk") == "fast"
            if value is not None and fits and not terminating and pod.namespace == new.namespace:
                counts[value] = counts.get(value, 0) + (pod.replica_of == new.replica_of)
        here = {nodes[row].labels.get(key) for row in rows} - {None}
        for at, row in enumerate(rows):
            value = nodes[row].labels.get(key)
            if value is not None:
                cost[at] += counts.get(value, 0) * log(len(here) + 2) + (skew - 1)
    whole = [round(entry) for entry in cost]
    if max(whole) == 0:
        return [100] * len(rows)
    return [100 * (max(whole) + min(whole) - number) // max(whole) for number in whole]


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(200), deadline=None)
def test_scores_are_kube_schedulers(seed: int) -> None:
    rng = Random(seed)
    encoder = Encoder(half_node_cores=1.0)
    nodes = []
    for i in range(rng.randint(1, 8)):
        labels = {HOSTNAME: f"n{i}"} if rng.random() < 0.9 else {}
        if rng.random() < 0.8:
            labels[ZONE] = rng.choice("abc")
        if rng.random() < 0.7:
            labels["disk"] = "fast"
        nodes.append(Node(f"n{i}", SIZE, Labels.of(labels)))
        encoder.add_node(nodes[-1])
    narrowing = Narrowing(encoder)
    selector = FAST if rng.random() < 0.4 else Labels()
    new = Pod("new", node_selector=selector, replica_of="web")
    number, shape = encoder.add_pod(new)
    narrowing.add_pod(number, new, shape)
    asked_first = rng.random() < 0.5  # whether the counts are made before the pods come, or from them
    if asked_first:
        narrowing.preferences(number, encoder.nodes().ready.nonzero()[0])
    placed = []
    for i in range(rng.randint(0, 20)):
        namespace, controller = rng.choice(("default", "default", "other")), rng.choice(("web", "web", "db", ""))
        pod = Pod(f"p{i}", namespace=namespace, labels=Labels.of({"app": rng.choice("xy")}), replica_of=controller)
        element, k = encoder.add_pod(pod)
        narrowing.add_pod(element, pod, k)
        row = rng.randrange(len(nodes))
        narrowing.assign(element, row)
        fate = rng.random()
        if fate < 0.2:
            narrowing.remove_pod(element)
        else:
            if fate < 0.4:
                narrowing.set_terminating(element)
            placed.append((pod, row, fate < 0.4))
    rows = [
        row for row in range(len(nodes)) if (not selector or "disk" in dict(nodes[row].labels)) and rng.random() < 0.9
    ]
    if not rows:
        return
    parts = {part.name: part.values for part in narrowing.preferences(number, encoder.nodes().ready.nonzero()[0][rows])}
    assert list(parts) == ["default spread"]
    assert parts["default spread"].tolist() == [
        USUAL.weights.spread * entry for entry in expected(nodes, placed, new, rows)
    ]


def test_counts_of_replicas_are_given_up_with_their_pods() -> None:
    encoder = Encoder(half_node_cores=1.0)
    encoder.add_node(Node("n0", SIZE, Labels.of({HOSTNAME: "n0"})))
    narrowing = Narrowing(encoder)
    for i in range(5):
        pod = Pod(f"p{i}", labels=Labels.of({"hash": str(i)}), replica_of=f"rs-{i}")
        number, shape = encoder.add_pod(pod)
        narrowing.add_pod(number, pod, shape)
        assert narrowing.has_soft_terms(number)
        narrowing.assign(number, 0)
        narrowing.remove_pod(number)
    assert narrowing.pod_counts.counts == narrowing.pod_counts.kinds == 0


test_first_cases = first_cases(
    test_scores_are_kube_schedulers,
)
