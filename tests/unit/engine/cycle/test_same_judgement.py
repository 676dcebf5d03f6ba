"""The lab's scheduler and the cluster's engine judge alike: same profile object, same cluster, same choices."""

from __future__ import annotations

import numpy as np
import pytest

from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.scheduler import Scheduler
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import PendingArrays
from cotenant.model.cluster.affinity import PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import PlacementProfile, profile

WEB = LabelSelector.of({"app": "web"})


def nodes() -> list[Node]:
    sizes = (4000, 8000, 8000, 16000, 4000, 8000)
    return [
        Node(f"n{i}", Amounts.of({"cpu": cpu, "memory": cpu << 20}), Labels.of({ZONE: f"z{i % 3}", HOSTNAME: f"n{i}"}))
        for i, cpu in enumerate(sizes)
    ]


def pods(rules: bool) -> list[Pod]:
    made = []
    for i in range(24):
        more = {}
        if rules and i % 3 == 0:
            more = {"spread": (SpreadConstraint(ZONE, WEB),)}
        elif rules and i % 8 == 1:
            more = {"anti_affinity": (PodTerm(HOSTNAME, LabelSelector.of({"alone": "yes"})),)}
        labels = Labels.of({"app": "web", "alone": "yes" if i % 8 == 1 else "no"})
        size = Amounts.of({"cpu": 500 + 250 * (i % 4), "memory": (400 + 100 * (i % 5)) << 20})
        made.append(Pod(f"p{i}", requests=size, labels=labels, **more))  # type: ignore[arg-type]
    return made


def by_the_lab(chosen: PlacementProfile, values: list[Pod]) -> dict[str, str]:
    encoder = Encoder(half_node_cores=4.0, pressure_factor=chosen.knobs.pressure_factor)
    narrowing = Narrowing(encoder)
    for node in nodes():
        encoder.add_node(node)
    numbers = [encoder.add_pod(pod) for pod in values]
    for (number, shape), pod in zip(numbers, values, strict=True):
        narrowing.watch(number, pod, shape)
    ledger = Ledger(encoder.nodes(), encoder.shapes(), len(encoder.tenants), 0)
    scheduler = Scheduler(ledger, chosen, np.random.default_rng(3), narrowing=narrowing)
    number = np.array([number for number, _ in numbers])
    shape = np.array([shape for _, shape in numbers])
    size = len(values)
    scheduler.submit(
        PendingArrays(
            number, shape, ledger.shapes.tenant[shape], np.full(size, -1), shape, np.array([p.is_service for p in values]),
            np.arange(size, dtype=np.float64), np.full(size, np.inf), np.zeros(size), np.zeros(size),
        ),
        0.0,
    )  # fmt: skip
    decision = scheduler.decide(100.0)
    return {values[n].name: encoder.node(row).name for n, row in zip(decision.pods, decision.rows, strict=True)}


def by_the_cluster(chosen: PlacementProfile, values: list[Pod]) -> dict[str, str]:
    cluster = Cluster(chosen, np.random.default_rng(3))
    for node in nodes():
        cluster.node_seen(node)
    cluster.rebuild(0.0)  # takes the half node from the nodes that are there
    for i, pod in enumerate(values):
        cluster.pod_seen(ObservedPod(pod, pod.name, "cotenant", float(i)), 0.0)
    return {b.uid: b.node for b in cluster.decide(100.0) if isinstance(b, Bind)}


@pytest.mark.parametrize("name", ["first-fit", "least-allocated", "kube-default", "founding", "edf-paragon"])
@pytest.mark.parametrize("rules", [False, True], ids=["plain", "rules"])
def test_same_choices(name: str, rules: bool) -> None:
    values = pods(rules)
    lab = by_the_lab(profile(name), values)
    assert len(lab) > 12
    assert by_the_cluster(profile(name), values) == lab
