"""Pods of several scheduler names, each scored by its own profile in one engine: every pod goes where an engine
with only its profile would put it.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.score_parts import Seen, table
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.affinity import PodTerm
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.codes import Order
from cotenant.policy.placement.profiles import PlacementProfile, profile

GIB = 1 << 30
PROFILES = {
    name: replace(profile(name), random_ties=False, samples_nodes=False, order=Order.ARRIVAL)
    for name in ("best-fit", "least-allocated", "balance", "kube-default", "cotenant-requests", "founding-ledger")
}


def engine(main: PlacementProfile, others: tuple[PlacementProfile, ...], nodes: list[Node]) -> Cluster:
    made = Cluster(main, np.random.default_rng(0), EngineSettings(max_pods=100, also_scored_by=others))
    for node in nodes:
        made.node_seen(node)
    return made


def some_nodes(rng: Random) -> list[Node]:
    return [
        Node(
            f"n{i}",
            Amounts.of({"cpu": rng.choice((4000, 8000)), "memory": rng.choice((8, 16)) * GIB, "pods": 20}),
            Labels.of({HOSTNAME: f"n{i}", ZONE: rng.choice("ab")}),
        )
        for i in range(rng.randint(2, 7))
    ]


def a_pod(rng: Random, number: int, scored_by: str) -> Pod:
    pod = Pod(
        f"p{number}",
        requests=Amounts.of({"cpu": rng.choice((500, 1000, 1500)), "memory": rng.choice((1, 2, 3)) * GIB}),
        labels=Labels.of({"app": rng.choice("xy")}),
        scored_by=scored_by,
    )
    if rng.random() < 0.2:
        return replace(pod, affinity=(PodTerm(ZONE, LabelSelector.of({"app": "x"}), weight=50),))
    return replace(pod, host_ports=(HostPort(80),)) if rng.random() < 0.2 else pod


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60), deadline=None)
def test_each_pod_goes_where_its_own_profile_puts_it(seed: int) -> None:
    rng = Random(seed)
    nodes = some_nodes(rng)
    named = rng.sample(sorted(PROFILES), rng.randint(2, 4))
    main, others = PROFILES[named[0]], tuple(PROFILES[name] for name in named[1:])
    together = engine(main, others, nodes)
    pods = [a_pod(rng, i, "" if (name := rng.choice(named)) == main.name else name) for i in range(rng.randint(1, 25))]
    for i, pod in enumerate(pods):
        together.pod_seen(ObservedPod(pod, f"u{i}", "cotenant", float(i)), 0.0)
    chosen = {instruction.uid: instruction for instruction in together.decide(100.0) if isinstance(instruction, Bind)}
    together.validate()
    residents: list[ObservedPod] = []
    for i, pod in enumerate(pods):
        alone = engine(PROFILES[pod.scored_by or main.name], (), nodes)
        for resident in residents:
            alone.pod_seen(resident, 0.0)
        seen = ObservedPod(replace(pod, scored_by=""), f"u{i}", "cotenant", float(i))
        alone.pod_seen(seen, 0.0)
        expected = {
            instruction.uid: instruction for instruction in alone.decide(100.0) if isinstance(instruction, Bind)
        }
        assert (f"u{i}" in chosen) == (f"u{i}" in expected)
        if f"u{i}" in expected:
            assert chosen[f"u{i}"].node == expected[f"u{i}"].node, pod
            record = chosen[f"u{i}"].record
            assert record.policy == (pod.scored_by or main.name)
            assert record.candidates == expected[f"u{i}"].record.candidates
            residents.append(replace(seen, node=expected[f"u{i}"].node))


class Listener:
    def __init__(self) -> None:
        self.first_terms: dict[str, tuple[str, ...]] = {}

    def judging(self, seen: Seen) -> None:
        self.first_terms[seen.pod] = tuple(part.name for part in table(seen).best(1)[0].parts)


def test_score_tables_and_explanations_are_those_of_the_pods_profile() -> None:
    nodes = [Node(f"n{i}", Amounts.of({"cpu": 4000, "memory": 8 * GIB, "pods": 20})) for i in range(3)]
    cluster = engine(PROFILES["least-allocated"], (PROFILES["best-fit"],), nodes)
    busy = Pod("busy", requests=Amounts.of({"cpu": 2000, "memory": 4 * GIB}))
    cluster.pod_seen(ObservedPod(busy, "busy", "other", 0.0, node="n1"), 0.0)
    listener = Listener()
    cluster.observe(listener)
    small = Amounts.of({"cpu": 500, "memory": GIB})
    for name, scored_by in (("spreads", ""), ("packs", "best-fit")):
        cluster.pod_seen(ObservedPod(Pod(name, requests=small, scored_by=scored_by), name, "cotenant", 1.0), 1.0)
    bound = {instruction.uid: instruction.node for instruction in cluster.decide(2.0) if isinstance(instruction, Bind)}
    assert bound["packs"] == "n1"
    assert bound["spreads"] != "n1"
    assert listener.first_terms == {"default/spreads": ("least allocated",), "default/packs": ("best fit",)}
    assert cluster.observe(None) is None
    answer = cluster.why.pod("default/packs", 3.0)
    assert answer is not None
    assert answer.candidates[0].node == "n1"
    assert answer.candidates[0].parts[0].name == "best fit"


test_first_cases = first_cases(
    test_each_pod_goes_where_its_own_profile_puts_it,
    most=3,
)
