"""The encoded bits agree with the plain evaluation, for any sequence of events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import first_cases

from cotenant.engine.encoding.demands import WORD_BITS
from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredTerm
from cotenant.model.cluster.labels import NO_LABELS, Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration, first_repelling, tolerated
from cotenant.model.resources import Amounts
from cotenant.policy.placement.filters import fit, node_affinity, taints

KEYS, VALUES = ["a", "b", "c"], ["1", "2", "30", "x", ""]
GPU = "nvidia.com/gpu"

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(Labels.of)
some_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True).map(tuple)
requirements = st.one_of(
    st.builds(
        Requirement, st.sampled_from(KEYS), st.sampled_from([SelectorOperator.IN, SelectorOperator.NOT_IN]), some_values
    ),
    st.builds(
        Requirement, st.sampled_from(KEYS), st.sampled_from([SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST])
    ),
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from([SelectorOperator.GT, SelectorOperator.LT]),
        st.sampled_from([("1",), ("2",), ("-7",)]),
    ),
)
names = st.sampled_from(["n0", "n1", "n2"]).map(
    lambda name: (Requirement("metadata.name", SelectorOperator.IN, (name,)),)
)
terms = st.builds(NodeSelectorTerm, st.lists(requirements, max_size=3).map(tuple), st.one_of(st.just(()), names))
affinities = st.one_of(
    st.none(),
    st.builds(
        NodeAffinity,
        st.one_of(st.none(), st.lists(terms, max_size=3).map(lambda t: NodeSelector(tuple(t)))),
        st.lists(st.builds(PreferredTerm, st.integers(1, 100), terms), max_size=3).map(tuple),
    ),
)
taint_values = st.builds(
    Taint, st.sampled_from(["t", "u"]), st.sampled_from(["", "v", "w"]), st.sampled_from(TaintEffect)
)
tolerations = st.one_of(
    st.builds(Toleration, st.sampled_from(["t", "u"]), st.just(Match.EQUAL), st.sampled_from(["", "v"])),
    st.builds(
        Toleration,
        st.sampled_from(["", "t", "u"]),
        st.just(Match.EXISTS),
        st.just(""),
        st.one_of(st.none(), st.sampled_from(TaintEffect)),
    ),
)
sizes = st.builds(
    lambda cpu, memory, gpu: Amounts.of({"cpu": cpu, "memory": memory} | ({GPU: gpu} if gpu else {})),
    *(st.integers(1, 8), st.integers(1, 8), st.integers(0, 3)),
)
nodes = st.builds(
    Node,
    st.just("n"),
    sizes,
    labels,
    st.lists(taint_values, max_size=3, unique=True).map(tuple),
    st.booleans(),
    st.booleans(),
)
pods = st.builds(
    Pod,
    name=st.just("p"),
    requests=sizes,
    node_selector=st.one_of(st.just(NO_LABELS), labels),
    node_affinity=affinities,
    tolerations=st.lists(tolerations, max_size=3).map(tuple),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("node"), nodes, st.just(0)),
        st.tuples(st.just("pod"), pods, st.just(0)),
        st.tuples(st.just("change"), nodes, st.integers(0, 5)),
        st.tuples(st.just("remove"), st.none(), st.integers(0, 5)),
    ),
    min_size=1,
    max_size=14,
)


def check(encoder: Encoder, known: dict[str, Node], pods_of: dict[int, Pod]) -> None:
    """Compare every filter and score by bits with the values themselves."""
    for k in pods_of:
        encoder.preferred(k)
    arrays, shapes = encoder.nodes(), encoder.shapes()
    rows = np.array([encoder.node_rows[name] for name in known], dtype=np.int64)
    assert arrays.labels.shape[1] == shapes.selector.shape[1]
    for k, pod in pods_of.items():
        selected = node_affinity.mask(arrays, shapes, k, rows)
        untainted = taints.mask(arrays, shapes, k, rows)
        bits, weights = encoder.preferred(k)
        preference = node_affinity.weight_of_bits(arrays, bits, weights, rows)
        untolerated = encoder.untolerated(k)
        soft_taints = node_affinity.weight_of_bits(arrays, untolerated, np.ones_like(untolerated), rows)
        fits = fit.mask(arrays, shapes, k, rows)
        for i, node in enumerate(known.values()):
            affinity = pod.node_affinity or NodeAffinity()
            matches = node.labels.contains(pod.node_selector) and (
                affinity.required is None or affinity.required.matches(node.name, node.labels)
            )
            repelled = first_repelling(node.effective_taints, pod.tolerations) is not None
            # past 64 distinct taints demand bits check some of them, so only both filters together are comparable
            named = pod.pinned in (None, node.name)  # a pinned node is checked by narrowing
            assert (selected[i] and untainted[i] and named) == (matches and not repelled)
            assert preference[i] == sum(p.weight for p in affinity.preferred if p.term.matches(node.name, node.labels))
            soft = {t for t in node.effective_taints if not t.repels and not tolerated(t, pod.tolerations)}
            assert soft_taints[i] == len(soft)
            assert fits[i] == all(amount <= node.allocatable.get(name) for name, amount in pod.requests)
            assert arrays.ready[rows[i]] == node.ready


def replay(script: list[tuple[str, Node | Pod | None, int]], encoder: Encoder) -> None:
    known: dict[str, Node] = {}
    pods_of: dict[int, Pod] = {}
    for number, (what, value, index) in enumerate(script):
        if what == "node" and isinstance(value, Node):
            node = replace(value, name=f"n{number}")
            encoder.add_node(node)
            known[node.name] = node
        elif what == "pod" and isinstance(value, Pod):
            pod = replace(value, name=f"p{number}")
            pods_of[encoder.add_pod(pod)[1]] = pod
        elif known and what == "change" and isinstance(value, Node):
            name = sorted(known)[index % len(known)]
            known[name] = replace(value, name=name)
            encoder.update_node(known[name])
        elif known and what == "remove":
            name = sorted(known)[index % len(known)]
            del known[name]
            row = encoder.remove_node(name)
            assert not encoder.nodes().ready[row]
    if known:
        check(encoder, known, pods_of)


@pytest.mark.slow
@given(steps)
@settings(deadline=None)
def test_bits_equal_the_plain_evaluation(script: list[tuple[str, Node | Pod | None, int]]) -> None:
    replay(script, Encoder(half_node_cores=4.0))


@pytest.mark.slow
@given(steps)
@settings(deadline=None)
def test_bits_equal_the_plain_evaluation_when_taints_overflow(script: list[tuple[str, Node | Pod | None, int]]) -> None:
    encoder = Encoder(half_node_cores=4.0)
    size = Amounts.of({"cpu": 1, "memory": 1})
    for i in range(WORD_BITS):
        encoder.add_node(Node(f"filler{i}", size, taints=(Taint("filler", str(i)),)))
    replay(script, encoder)


@pytest.mark.slow
@given(st.lists(st.tuples(pods, st.booleans()), min_size=1, max_size=10))
@settings(deadline=None)
def test_equal_pods_share_a_row_and_rows_do_not_move(drawn: list[tuple[Pod, bool]]) -> None:
    encoder = Encoder(half_node_cores=4.0)
    seen: dict[object, int] = {}
    for number, (pod, twice) in enumerate(drawn):
        named = replace(pod, name=f"p{number}")
        _, k = encoder.add_pod(named)
        assert seen.setdefault(named.shape(), k) == k
        if twice:
            assert encoder.add_pod(replace(named, name=f"q{number}"))[1] == k
    shapes = encoder.shapes()
    assert len(shapes.tenant) == len(seen)
    for shape, k in seen.items():
        assert encoder.shape(k) == shape
        row = encoder.axis.row(encoder.shape(k).requests)
        row[2] = 1
        assert shapes.request[k].tolist() == row


def test_label_bits_are_reset_when_labels_change() -> None:
    encoder = Encoder(half_node_cores=4.0)
    size = Amounts.of({"cpu": 1, "memory": 1})
    _, k = encoder.add_pod(Pod("p", node_selector=Labels.of({"disk": "ssd"})))
    encoder.add_node(Node("n", size, Labels.of({"disk": "ssd"})))
    everywhere = np.array([0])
    assert node_affinity.mask(encoder.nodes(), encoder.shapes(), k, everywhere).tolist() == [True]
    encoder.update_node(Node("n", size, Labels.of({"disk": "hdd"})))
    assert node_affinity.mask(encoder.nodes(), encoder.shapes(), k, everywhere).tolist() == [False]


@pytest.mark.parametrize("count", [63, 64, 65, 200])
def test_demands_spill_into_further_words(count: int) -> None:
    encoder = Encoder(half_node_cores=4.0)
    size = Amounts.of({"cpu": 1, "memory": 1})
    for i in range(0, count, 2):
        encoder.add_node(Node(f"n{i}", size, Labels.of({"rack": str(i)})))
    shapes = [encoder.add_pod(Pod(f"p{i}", node_selector=Labels.of({"rack": str(i)})))[1] for i in range(count)]
    arrays = encoder.nodes()
    assert arrays.labels.shape[1] == -(-count // WORD_BITS)
    rows = np.arange(len(arrays.ready))
    for i, k in enumerate(shapes):
        passing = np.flatnonzero(node_affinity.mask(arrays, encoder.shapes(), k, rows)).tolist()
        assert passing == ([i // 2] if i % 2 == 0 else [])


test_first_cases = first_cases(
    test_bits_equal_the_plain_evaluation,
    test_bits_equal_the_plain_evaluation_when_taints_overflow,
    test_equal_pods_share_a_row_and_rows_do_not_move,
)
