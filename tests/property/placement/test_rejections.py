"""Rejections name exactly the nodes that refuse, and the reported shortage is the real one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster import plain_rules, rule_worlds
from tests.fakes.cluster.plain_rules import Cluster, Resident
from tests.property.few import examples, first_cases

from cotenant.engine.cycle.eviction.required_room import demands
from cotenant.engine.cycle.rejections import Explanation, Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.ledger import Ledger
from cotenant.engine.state.narrowing import Narrowing
from cotenant.model.arrays import Sum
from cotenant.model.cluster.pod import Pod, PodEstimate
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.resources import Amounts
from cotenant.policy.placement.compiled import Reject, plain_rejections
from cotenant.policy.placement.profiles import profile

FIT = (Reject.CPU, Reject.MEMORY, Reject.RESOURCE, Reject.GROUP, Reject.LOAD)


class World:
    def __init__(self, rng: np.random.Generator, nodes: int, pods: int) -> None:
        self.nodes = [
            replace(rule_worlds.a_node(rng, i), ready=bool(rng.random() < 0.9), unschedulable=bool(rng.random() < 0.1))
            for i in range(nodes)
        ]
        self.encoder = Encoder(half_node_cores=1.0)
        for node in self.nodes:
            self.encoder.add_node(node)
        self.narrowing = Narrowing(self.encoder)
        self.ledger = Ledger(self.encoder.nodes(), self.encoder.shapes(), 0, 0)
        self.residents: list[Resident] = []
        for i in range(pods):
            pod = rule_worlds.a_pod(rng, f"r{i}", 0.1, Amounts.of({"cpu": int(rng.choice([0, 200, 600]))}))
            row = int(rng.integers(nodes))
            number = self.add(pod)
            self.ledger.place(np.array([number]), np.array([row]), np.array([self.encoder.shape_of(number)]))
            self.narrowing.assign(number, row)
            self.residents.append(Resident(pod, self.nodes[row]))

    def add(self, pod: Pod) -> int:
        number, shape = self.encoder.add_pod(pod)
        self.ledger.adopt(self.encoder.nodes(), self.encoder.shapes(), self.encoder.tenant_rows)
        self.narrowing.add_pod(number, pod, shape)
        return number

    def explain(self, number: int) -> Explanation:
        return Rejector(self.encoder, self.narrowing, profile("first-fit")).explain(number)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=examples(100))
def test_the_reported_refusals_are_those_of_the_filters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = World(rng, int(rng.integers(1, 7)), int(rng.integers(0, 10)))
    pod = rule_worlds.a_pod(
        rng, "p", float(rng.choice([0.0, 0.2])), Amounts.of({"cpu": int(rng.choice([0, 500, 1500]))})
    )
    reported = world.explain(world.add(pod))
    cluster = Cluster(world.nodes, world.residents, {})
    refusing = [
        not (plain_rules.row_local(cluster, pod, node) and plain_rules.may(cluster, pod, node)) for node in world.nodes
    ]
    # fit alone may count a node twice, under two resources; here only CPU and slots of pods can be short
    assert sum(r.nodes for r in reported.rejections) == sum(refusing)
    assert reported.nodes == len(world.nodes)
    if reported.nearest is not None and reported.nearest.resource and reported.nearest.amount < pod.requests.get("cpu"):
        assert reported.nearest.resource == "cpu"
        eased = replace(
            pod, name="eased", requests=Amounts.of({"cpu": pod.requests.get("cpu") - reported.nearest.amount})
        )
        opened = [
            plain_rules.row_local(cluster, eased, node) and plain_rules.may(cluster, eased, node)
            for node in world.nodes
        ]
        assert sum(opened) - (len(refusing) - sum(refusing)) == reported.nearest.nodes


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(["cotenant", "first-fit"]))
@settings(deadline=None, max_examples=examples(100))
def test_amounts_with_limits_judge_as_the_compiled_filters_do(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    world = World(rng, 6, 0)
    chosen = profile(name)
    estimate = PodEstimate(float(rng.uniform(0, 1.2)), int(rng.integers(0, 900))) if rng.random() < 0.7 else None
    pod = Pod(
        "p",
        requests=Amounts.of({"cpu": int(rng.choice([0, 300, 1100])), "memory": int(rng.choice([0, 500]))}),
        qos=QoSClass(rng.choice([QoSClass.BE, QoSClass.LS])),
        estimate=estimate,
        group="g" if rng.random() < 0.5 else "",
        load_limit=float(rng.choice([0.5, np.inf])),
    )
    _, k = world.encoder.add_pod(pod)
    nodes, shapes = world.encoder.nodes(), world.encoder.shapes()
    nodes.ready[:] = True
    nodes.taints[:] = 0
    nodes.requested[:, :2] = rng.integers(0, 1200, (6, 2))
    nodes.sums[:, [Sum.USE_CPU, Sum.USE_MEMORY]] = rng.integers(0, 1200, (6, 2))
    nodes.group_count[:] = rng.integers(0, 2, nodes.group_count.shape)
    verdicts = plain_rejections(nodes, shapes, k, int(chosen.fit), chosen.knobs.array())
    short = np.zeros(6, dtype=np.bool_)
    for demand in demands(world.encoder.axis.names, nodes, shapes, k, chosen):
        short |= demand.held > demand.limit
    assert short.tolist() == np.isin(verdicts, FIT).tolist()


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.sampled_from(["cotenant", "first-fit"]))
@settings(deadline=None, max_examples=examples(100))
def test_a_node_that_any_filter_rejects_is_explained_and_no_other(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    world = World(rng, 6, 0)
    chosen = profile(name)
    pod = replace(
        rule_worlds.a_pod(rng, "p", 0.0, Amounts.of({"cpu": int(rng.choice([0, 300, 1100]))})),
        qos=QoSClass(rng.choice([QoSClass.BE, QoSClass.LS])),
        load_limit=float(rng.choice([0.5, np.inf])),
    )
    k = world.encoder.shape_of(world.add(pod))
    nodes, shapes = world.encoder.nodes(), world.encoder.shapes()
    nodes.ready[:] = rng.random(6) < 0.8
    nodes.requested[:, :2] = rng.integers(0, 1200, (6, 2))
    nodes.sums[:] = rng.integers(0, 1200, nodes.sums.shape)
    verdicts = plain_rejections(nodes, shapes, k, int(chosen.fit), chosen.knobs.array())
    explained = Rejector(world.encoder, None, chosen).check(k, -1).misses
    assert (explained > 0).tolist() == (verdicts != 0).tolist()


test_first_cases = first_cases(
    test_the_reported_refusals_are_those_of_the_filters,
    test_amounts_with_limits_judge_as_the_compiled_filters_do,
    test_a_node_that_any_filter_rejects_is_explained_and_no_other,
)
