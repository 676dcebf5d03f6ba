"""Pods of a configured kube-scheduler profile land where kube-scheduler's formulas, written out node by node, say.

Source: noderesources (least_allocated.go, most_allocated.go, requested_to_capacity_ratio.go, balanced_allocation.go,
resource_allocation.go), v1.36.
"""

from __future__ import annotations

from dataclasses import replace
from math import floor, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint, TaintEffect
from cotenant.model.resources import Amounts
from cotenant.policy.placement.kube_scoring import FitStrategy, KubeScoring, ScoreWeights
from cotenant.policy.placement.profiles import PlacementProfile
from cotenant.policy.placement.scores import kube_configured

GPU, CARD = "nvidia.com/gpu", "example.com/card"
Sums = dict[str, int]


def towards_zero(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


def strategy_score(scoring: KubeScoring, requested: Sums, capacity: Sums, pod: Sums) -> int:
    total = weights = 0
    for name, weight in scoring.resources:
        if (pod.get(name, 0) == 0 and "/" in name) or capacity.get(name, 0) == 0:
            continue
        wanted, has = requested.get(name, 0) + pod.get(name, 0), capacity[name]
        if scoring.strategy is FitStrategy.LEAST_ALLOCATED:
            points = 0 if wanted > has else (has - wanted) * 100 // has
        elif scoring.strategy is FitStrategy.MOST_ALLOCATED:
            points = min(wanted, has) * 100 // has
        else:
            points = on_line(scoring.shape, 100 if wanted > has else wanted * 100 // has)
            if points <= 0:
                continue
        total += points * weight
        weights += weight
    if weights == 0:
        return 0
    if scoring.strategy is FitStrategy.REQUESTED_TO_CAPACITY_RATIO:
        return floor(total / weights + 0.5)
    return total // weights


def on_line(shape: tuple[tuple[int, int], ...], used: int) -> int:
    for i, (utilization, score) in enumerate(shape):
        if used <= utilization:
            if i == 0:
                return score * 10
            before, low = shape[i - 1]
            rise = (score * 10 - low * 10) * (used - before)
            return low * 10 + towards_zero(rise, utilization - before)
    return shape[-1][1] * 10


def balance(requested: list[int], capacity: list[int]) -> int:
    fractions = [min(1.0, took / has) for took, has in zip(requested, capacity, strict=True) if has]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = sqrt(sum((entry - mean) ** 2 for entry in fractions) / len(fractions))
    return int((1 - deviation) * 100)


def balanced(scoring: KubeScoring, requested: Sums, capacity: Sums, pod: Sums) -> int:
    names = scoring.balanced_resources
    if not any(pod.get(name, 0) for name in names):
        return 0
    counted = [name for name in names if (pod.get(name, 0) or "/" not in name) and capacity.get(name, 0)]
    has = [capacity[name] for name in counted]
    after = balance([requested.get(name, 0) + pod.get(name, 0) for name in counted], has)
    before = balance([requested.get(name, 0) for name in counted], has)
    return 50 + towards_zero(50 + after - before, 2)


def random_scoring(rng: Random) -> KubeScoring:
    names = ["cpu", "memory", GPU, CARD, "ephemeral-storage"]
    points = sorted(rng.sample(range(101), rng.randint(1, 4)))
    return KubeScoring(
        weights=ScoreWeights(fit=rng.choice((0, 1, 3)), balanced=rng.choice((0, 1, 2)), taints=rng.choice((0, 3))),
        strategy=rng.choice(list(FitStrategy)),
        resources=tuple((name, rng.randint(1, 5)) for name in rng.sample(names, rng.randint(1, 4))),
        shape=tuple((point, rng.randint(0, 10)) for point in points),
        balanced_resources=tuple(rng.sample(names, rng.randint(1, 4))),
    )


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(300), deadline=None)
def test_each_pod_lands_on_a_node_with_the_highest_score(seed: int) -> None:
    rng = Random(seed)
    scoring = random_scoring(rng)
    profile = PlacementProfile("k", "", samples_nodes=True, kube=scoring)
    engine = Cluster(profile, np.random.default_rng(seed))
    capacities: dict[str, Sums] = {}
    requested: dict[str, Sums] = {}
    tainted: dict[str, bool] = {}
    for i in range(rng.randint(1, 8)):
        size = {"cpu": rng.randint(1, 20) * 500, "memory": rng.randint(1, 20) << 28, "pods": 30}
        if rng.random() < 0.5:
            size[GPU] = rng.randint(1, 8)
        if rng.random() < 0.3:
            size[CARD] = rng.randint(1, 4)
        if rng.random() < 0.5:
            size["ephemeral-storage"] = rng.randint(1, 50) << 30
        capacities[f"n{i}"], requested[f"n{i}"], tainted[f"n{i}"] = size, {}, rng.random() < 0.3
        node = Node(f"n{i}", Amounts.of(size))
        if tainted[f"n{i}"]:
            node = replace(node, taints=(Taint("a", "", TaintEffect.PREFER_NO_SCHEDULE),))
        engine.node_seen(node)
    for number in range(rng.randint(1, 12)):
        wanted = {"cpu": rng.randint(1, 12) * 250, "memory": rng.randint(1, 12) << 27}
        for name, share in ((GPU, 0.4), (CARD, 0.2), ("ephemeral-storage", 0.3)):
            if rng.random() < share:
                wanted[name] = rng.randint(1, 3) * (1 << 30 if name == "ephemeral-storage" else 1)
        engine.pod_seen(ObservedPod(Pod(f"p{number}", requests=Amounts.of(wanted)), f"u{number}", "cotenant", 0.0), 0.0)
        chosen = [entry.node for entry in engine.decide(float(number)) if isinstance(entry, Bind)]
        feasible = [
            name
            for name, size in capacities.items()
            if all(requested[name].get(what, 0) + amount <= size.get(what, 0) for what, amount in wanted.items())
        ]
        untolerated = {name: int(tainted[name]) for name in feasible}
        most = max(untolerated.values(), default=0)
        totals = {
            name: scoring.weights.fit * strategy_score(scoring, requested[name], capacities[name], wanted)
            + scoring.weights.balanced * balanced(scoring, requested[name], capacities[name], wanted)
            + scoring.weights.taints * (100 if most == 0 else 100 - 100 * untolerated[name] // most)
            for name in feasible
        }
        if not feasible:
            assert not chosen
            continue
        (node_name,) = chosen
        assert totals[node_name] == max(totals.values()), (scoring, wanted, totals, node_name)
        for what, amount in wanted.items():
            requested[node_name][what] = requested[node_name].get(what, 0) + amount
    engine.validate()


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(300), deadline=None)
def test_compiled_is_plain(seed: int) -> None:
    rng = Random(seed)
    scoring = random_scoring(rng)
    encoder = Encoder(1.0)
    for i in range(rng.randint(1, 6)):
        size = {"cpu": rng.randint(1, 20) * 500, "memory": rng.randint(1, 20) << 28, "pods": 30}
        size |= {name: rng.randint(0, 9) for name in (GPU, CARD, "ephemeral-storage") if rng.random() < 0.5}
        encoder.add_node(Node(f"n{i}", Amounts.of(size)))
    wanted = {name: rng.randint(0, 4) for name in (GPU, CARD, "ephemeral-storage") if rng.random() < 0.5}
    wanted |= {name: rng.randint(0, 3000) for name in ("cpu", "memory") if rng.random() < 0.9}
    number, _ = encoder.add_pod(Pod("p", requests=Amounts.of(wanted)))
    nodes, shapes, k = encoder.nodes(), encoder.shapes(), encoder.shape_of(number)
    nodes.requested[:] = [[rng.randint(0, 4000) for _ in encoder.axis.names] for _ in range(len(nodes.ready))]
    rows = np.arange(len(nodes.ready))
    columns = {name: at for at, name in enumerate(encoder.axis.names)}
    given_ = (scoring, columns, nodes, shapes, k, rows)
    assert kube_configured.fit_rows(*given_).tolist() == kube_configured.fit_score(*given_).tolist()
    compiled, plain = kube_configured.balanced_rows(*given_), kube_configured.balanced_score(*given_)
    assert (compiled is None) == (plain is None)
    if compiled is not None and plain is not None:
        assert compiled.tolist() == plain.tolist()


test_first_cases = first_cases(
    test_each_pod_lands_on_a_node_with_the_highest_score,
    test_compiled_is_plain,
)
