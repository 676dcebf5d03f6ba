from __future__ import annotations

from dataclasses import fields, replace
from math import inf, nan

import numpy as np
import pytest

from cotenant.engine.encoding.encoder import MAX_UNOFFERED, Encoder
from cotenant.model.arrays import MICRO, Param, Sum
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import NODE_AFFINITY, Pod, PodEstimate, Shape
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import BATCH_CPU, MAX_AMOUNT, NOWHERE, Amounts
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.compiled import plain_rejections
from cotenant.policy.placement.filters import node_affinity, taints
from cotenant.policy.placement.knobs import Knobs

SIZE = Amounts.of({"cpu": 8000, "memory": 1 << 30, "pods": 20})


def test_duplicate_and_unknown_names_raise() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n", SIZE))
    encoder.add_pod(Pod("p", "ns"))
    with pytest.raises(InvalidInput, match="node: n"):
        encoder.add_node(Node("n", SIZE))
    with pytest.raises(InvalidInput, match="pod: ns/p"):
        encoder.add_pod(Pod("p", "ns"))
    for call in (
        lambda: encoder.update_node(Node("m", SIZE)),
        lambda: encoder.remove_node("m"),
        lambda: encoder.remove_pod("ns/q"),
    ):
        with pytest.raises(InvalidInput, match="was added"):
            call()
    for cores in (0.0, -1.0, nan, inf):
        with pytest.raises(InvalidInput, match="half_node_cores"):
            Encoder(cores)


def test_a_recreated_pod_gets_a_new_number() -> None:
    encoder = Encoder(half_node_cores=4.0)
    first, shape = encoder.add_pod(Pod("p"))
    assert encoder.remove_pod("default/p") == first
    assert encoder.add_pod(Pod("p")) == (first + 1, shape)


def test_placed_amounts_survive_growth() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n0", SIZE))
    encoder.nodes().requested[0] = [1, 2, 3]
    encoder.nodes().sums[0, Sum.PRESSURE] = 7
    for i in range(1, 50):
        encoder.add_node(Node(f"n{i}", Amounts.of({"cpu": 1, "memory": 1, f"example.com/r{i}": i})))
        encoder.add_pod(Pod(f"p{i}", tenant=f"t{i}", group=f"g{i}"))
    nodes, shapes = encoder.nodes(), encoder.shapes()
    assert nodes.capacity.shape == nodes.requested.shape == (50, 3 + 49)
    assert shapes.request.shape == (49, 52)
    assert nodes.group_count.shape == (50, 64)  # doubled each time
    assert nodes.requested[0].tolist() == [1, 2, 3] + [0] * 49
    assert nodes.sums[0, Sum.PRESSURE] == 7
    assert np.isnan(nodes.report).all()
    assert shapes.group.tolist() == list(range(49))
    assert shapes.tenant.tolist() == list(range(49))
    assert encoder.tenant_rows == 49
    assert all(column.flags.c_contiguous for column in (*nodes, *shapes))


def test_a_thousand_made_up_resources_take_a_bounded_number_of_columns() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n0", SIZE))
    for i in range(1000):
        encoder.add_pod(Pod(f"p{i}", requests=Amounts.of({f"e.io/r{i}": i + 1})))
    assert len(encoder.axis) == 3 + MAX_UNOFFERED + 1 == encoder.nodes().capacity.shape[1]
    nowhere = encoder.axis.column(NOWHERE)
    assert encoder.shapes().request[:, nowhere].tolist() == [0] * MAX_UNOFFERED + [1] * (1000 - MAX_UNOFFERED)
    encoder.add_pod(Pod("gpu", requests=Amounts.of({"nvidia.com/gpu": 1})))  # of devices that a rule judges
    assert "nvidia.com/gpu" in encoder.axis.names


def test_a_resource_that_a_node_comes_to_offer_is_told_apart_from_the_others() -> None:
    encoder = Encoder(half_node_cores=4.0)
    for i in range(MAX_UNOFFERED):
        encoder.add_pod(Pod(f"p{i}", requests=Amounts.of({f"e.io/r{i}": 1})))
    _, both = encoder.add_pod(Pod("both", requests=Amounts.of({"e.io/a": 5, "e.io/b": 7})))
    _, only = encoder.add_pod(Pod("only", requests=Amounts.of({"e.io/b": 9})))
    assert encoder.requests_revision == 0
    encoder.add_node(Node("n", Amounts.of({"cpu": 1000, "memory": 1, "e.io/b": 8})))
    assert encoder.requests_revision == 1
    nowhere, b = encoder.axis.column(NOWHERE), encoder.axis.column("e.io/b")
    assert encoder.shapes().request[[both, only]][:, [nowhere, b]].tolist() == [[1, 7], [0, 9]]
    assert encoder.nodes().capacity[0, [nowhere, b]].tolist() == [0, 8]
    encoder.set_provided(frozenset({"e.io/a", "e.io/unasked"}))
    a = encoder.axis.column("e.io/a")
    assert encoder.shapes().request[both, [nowhere, a]].tolist() == [0, 5]
    assert encoder.nodes().capacity[0, a] == MAX_AMOUNT
    assert "e.io/unasked" not in encoder.axis.names


def test_groups_without_pods_give_their_columns_back() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n0", SIZE))
    for turn in range(20):
        for i in range(8):
            encoder.add_pod(Pod(f"p{i}", group=f"g{turn}-{i}"))
        assert sorted(encoder.groups.values()) == list(range(8))
        for i in range(8):
            encoder.release_pod(encoder.remove_pod(f"default/p{i}"))
        encoder.reclaim()
        assert not encoder.groups
    assert encoder.nodes().group_count.shape == (1, 8)


def test_a_node_row_is_reused_only_without_residents() -> None:
    encoder = Encoder(half_node_cores=4.0)
    for name in ("a", "b"):
        encoder.add_node(Node(name, SIZE, taints=(Taint("x"),)))
    nodes = encoder.nodes()
    nodes.requested[0, 2] = 1
    with pytest.raises(InvalidInput, match="residents"):
        encoder.remove_node("a")
    nodes.requested[0, 2] = 0
    nodes.report[0] = 1.0
    assert encoder.remove_node("a") == 0
    with pytest.raises(InvalidInput):
        encoder.node(0)
    assert encoder.add_node(Node("c", SIZE)) == 0
    assert encoder.node(0).name == "c"
    assert encoder.nodes().taints[0] == 0
    assert np.isnan(encoder.nodes().report[0]).all()
    assert len(encoder.nodes().ready) == 2


def test_estimates_become_parameters_and_sums() -> None:
    encoder = Encoder(half_node_cores=4.0, pressure_factor=0.5)
    estimate = PodEstimate(1.5, 1000, sensitivity=0.2, pressure=0.4, allowance=0.5, duration_s=60.0)
    requests = Amounts.of({"cpu": 2000, "memory": 4000})
    service = encoder.add_pod(
        Pod("s", requests=requests, priority_class=PriorityClass.PROD, estimate=estimate, load_limit=0.7)
    )[1]
    batch = encoder.add_pod(Pod("b", requests=requests, qos=QoSClass.BE, estimate=estimate))[1]
    plain = encoder.add_pod(Pod("c", requests=requests))[1]
    shapes = encoder.shapes()
    assert shapes.params[service].tolist() == [1.5, 1000, 0.2, 0.4, 0.5, 1.0, 35.0, 0.7, 60.0, 0.0, 0.0, 0.0]
    assert shapes.params[batch].tolist() == [1.5, 1000, 0.2, 0.4, 0.5, 0.0, 15.0, inf, 60.0, 0.0, 0.0, 0.0]
    assert shapes.params[plain, [Param.USE_CPU, Param.USE_MEMORY, Param.ALLOWANCE]].tolist() == [2.0, 4000.0, inf]
    # c = 2, u = 1.5, a = 0.2, b = 0.4, w = 1 / 0.5, o = b u / K = 0.15
    assert shapes.sums[service, Sum.PRESSURE] == 0.6 * MICRO
    assert shapes.sums[batch, Sum.PRESSURE] == 0.3 * MICRO  # what the cache partition leaves
    assert shapes.sums[service, Sum.SERVICE_WAO] == round(2 * 2 * 0.2 * 0.15 * MICRO)
    assert shapes.sums[batch, Sum.BATCH_WA] == 0.8 * MICRO
    assert shapes.sums[plain, Sum.USE_CPU] == 2000
    assert shapes.sums[plain, Sum.BATCH_W] == 0


@pytest.mark.parametrize(
    "lent",
    [
        {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": 4000},
        {"kubernetes.io/mid-cpu": 2000, "kubernetes.io/mid-memory": 4000},
        {"cpu": 500, "memory": 1000, "kubernetes.io/batch-cpu": 1500, "kubernetes.io/batch-memory": 3000},
    ],
)
@pytest.mark.parametrize("estimate", [None, PodEstimate(1.5, 1000, sensitivity=0.2, pressure=0.4, allowance=0.5)])
def test_a_pod_on_lent_resources_weighs_as_one_with_native_requests(
    lent: dict[str, int], estimate: PodEstimate | None
) -> None:
    encoder = Encoder(half_node_cores=4.0)
    native = Amounts.of({"cpu": 2000, "memory": 4000})
    plain = encoder.add_pod(Pod("a", requests=native, qos=QoSClass.BE, estimate=estimate))[1]
    same = encoder.add_pod(Pod("b", requests=Amounts.of(lent), qos=QoSClass.BE, estimate=estimate))[1]
    shapes = encoder.shapes()
    assert shapes.sums[same].tolist() == shapes.sums[plain].tolist()
    assert shapes.sums[same, Sum.BATCH_CPU] == 2000
    uses = [Param.USE_CPU, Param.USE_MEMORY]
    assert shapes.params[same, uses].tolist() == shapes.params[plain, uses].tolist()
    assert (
        shapes.request[same, 0] + 1000 * shapes.params[same, Param.LENT_CPU],
        shapes.request[same, 1] + shapes.params[same, Param.LENT_MEMORY],
    ) == (2000, 4000)


def test_co_location_resources_get_their_columns() -> None:
    encoder = Encoder(half_node_cores=4.0)
    _, k = encoder.add_pod(Pod("p", requests=Amounts.of({BATCH_CPU: 500})))
    encoder.add_node(Node("lends", Amounts.of({"cpu": 8000, "memory": 100, BATCH_CPU: 400})))
    assert encoder.axis.names[3] == BATCH_CPU
    assert encoder.shapes().request[k].tolist() == [0, 0, 1, 500]
    assert encoder.nodes().capacity[0].tolist() == [8000, 100, 110, 400]


def test_more_taints_than_bits() -> None:
    encoder = Encoder(half_node_cores=4.0)
    early = encoder.add_pod(Pod("early", tolerations=(Toleration("k", Match.EQUAL, "99"),)))[1]
    for i in range(100):
        encoder.add_node(Node(f"n{i}", SIZE, taints=(Taint("k", str(i)),)))
    late = encoder.add_pod(Pod("late", tolerations=(Toleration("k", Match.EQUAL, "3"),)))[1]
    everything = encoder.add_pod(Pod("all", tolerations=(Toleration(operator=Match.EXISTS),)))[1]
    none = encoder.add_pod(Pod("none"))[1]
    knobs = Knobs().array()
    passing = {
        k: np.flatnonzero(plain_rejections(encoder.nodes(), encoder.shapes(), k, Fit.REQUESTS, knobs) == 0).tolist()
        for k in (early, late, everything, none)
    }
    assert passing == {early: [99], late: [3], everything: list(range(100)), none: []}
    # the 65th and later taints are not in the word
    assert taints.mask(encoder.nodes(), encoder.shapes(), none, np.array([63, 64])).tolist() == [False, True]


def test_cordoning_and_readiness() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("cordoned", SIZE, unschedulable=True))
    encoder.add_node(Node("down", SIZE, ready=False))
    regular = encoder.add_pod(Pod("p"))[1]
    daemon = encoder.add_pod(Pod("d", tolerations=(Toleration("node.kubernetes.io/unschedulable", Match.EXISTS),)))[1]
    knobs = Knobs().array()
    verdicts = [
        plain_rejections(encoder.nodes(), encoder.shapes(), k, Fit.REQUESTS, knobs) > 0 for k in (regular, daemon)
    ]
    assert [v.tolist() for v in verdicts] == [[True, True], [False, True]]


def test_a_released_number_is_given_again_and_a_named_one_never() -> None:
    encoder = Encoder(half_node_cores=4.0)
    first, shape = encoder.add_pod(Pod("p"))
    with pytest.raises(InvalidInput, match="pod number"):
        encoder.release_pod(first)  # its name is still known
    encoder.remove_pod("default/p")
    assert encoder.shape_of(first) == shape
    encoder.release_pod(first)
    with pytest.raises(InvalidInput, match="pod number"):
        encoder.release_pod(first)
    assert encoder.add_pod(Pod("q")) == (first, shape)


def test_numbers_shapes_and_bits_stay_bounded_as_pods_come_and_go() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n", SIZE, Labels.of({"rack": "7"})))
    for day in range(300):
        number, k = encoder.add_pod(Pod("p", node_selector=Labels.of({"rack": str(day)}), tenant=f"t{day}"))
        assert (node_affinity.mask(encoder.nodes(), encoder.shapes(), k, np.array([0])) == [day == 7]).all()
        encoder.remove_pod("default/p")
        encoder.release_pod(number)
        if encoder.reclaimable > 8:
            assert len(encoder.reclaim()) == 9
            with pytest.raises(InvalidInput, match="shape row"):
                encoder.shape(k)
    assert number == 0
    assert len(encoder.shapes().tenant) <= 9
    assert encoder.tenant_rows <= 9
    assert encoder.nodes().labels.shape[1] == 1


def test_a_tenant_with_pods_keeps_its_number_and_others_numbers_are_given_again() -> None:
    encoder = Encoder(half_node_cores=4.0)
    _, kept = encoder.add_pod(Pod("kept", tenant="a"))
    other, _ = encoder.add_pod(Pod("other", tenant="b"))
    encoder.remove_pod("default/other")
    encoder.release_pod(other)
    encoder.reclaim()
    _, again = encoder.add_pod(Pod("again", tenant="a", group="g"))
    _, new = encoder.add_pod(Pod("new", tenant="c"))
    tenants = encoder.shapes().tenant
    assert tenants[again] == tenants[kept] == 0
    assert tenants[new] == 1
    assert encoder.tenant_rows == 2


def test_shapes_in_use_or_interned_are_not_reclaimed() -> None:
    encoder = Encoder(half_node_cores=4.0)
    kept = encoder.intern(Pod("a", requests=Amounts.of({"cpu": 1})).shape())
    _, used = encoder.add_pod(Pod("b", requests=Amounts.of({"cpu": 2})))
    assert encoder.reclaim().tolist() == []
    assert (encoder.shape(kept).requests.get("cpu"), encoder.shape(used).requests.get("cpu")) == (1, 2)


def test_taints_that_keep_changing_reuse_their_bits() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n", SIZE))
    _, k = encoder.add_pod(Pod("p", tolerations=(Toleration("day", Match.EQUAL, "150"),)))
    knobs = Knobs().array()
    for day in range(300):
        encoder.update_node(
            Node("n", SIZE, taints=(Taint("day", str(day)), Taint("soft", str(day), TaintEffect.PREFER_NO_SCHEDULE)))
        )
        passes = plain_rejections(encoder.nodes(), encoder.shapes(), k, Fit.REQUESTS, knobs)[0] == 0
        assert passes == (day == 150)
        assert len(encoder.untolerated(k)) == 1
    assert int(encoder.nodes().taints[0]) < 8
    assert encoder.nodes().labels.shape[1] == 1


def test_only_label_changes_increase_the_labels_revision() -> None:
    encoder = Encoder(half_node_cores=4.0)
    encoder.add_node(Node("n", SIZE))
    before = encoder.labels_revision
    encoder.update_node(Node("n", SIZE, ready=False, taints=(Taint("t"),)))
    assert encoder.labels_revision == before
    encoder.update_node(Node("n", SIZE, Labels.of({"a": "b"})))
    assert encoder.labels_revision == before + 1


def test_a_pod_like_one_of_a_reclaimed_shape_gets_a_shape_of_its_own() -> None:
    encoder = Encoder(half_node_cores=4.0)
    small, large = Amounts.of({"cpu": 1000}), Amounts.of({"cpu": 2000})
    number, row = encoder.add_pod(Pod("p", requests=small))
    encoder.remove_pod("default/p")
    encoder.release_pod(number)
    assert encoder.reclaim().tolist() == [row]
    assert encoder.add_pod(Pod("q", requests=large))[1] == row
    again = encoder.add_pod(Pod("p", requests=small))[1]
    assert again != row
    assert encoder.shape(again).requests == small
    assert encoder.reclaimable == 0
    number, same = encoder.add_pod(Pod("r", requests=small))
    assert same == again
    encoder.remove_pod("default/r")
    encoder.release_pod(number)
    assert encoder.reclaimable == 0  # the pod before uses it


def test_pods_of_equal_keys_have_equal_shapes() -> None:
    here = NodeSelectorTerm(expressions=(Requirement("a", SelectorOperator.EXISTS),))
    changes: dict[str, object] = {
        "namespace": "other",
        "requests": Amounts.of({"cpu": 3}),
        "qos": QoSClass.BE,
        "priority_class": PriorityClass.PROD,
        "priority": 7,
        "labels": Labels.of({"a": "b"}),
        "node_selector": Labels.of({"a": "b"}),
        "node_affinity": NodeAffinity(required=NodeSelector((here,))),
        "tolerations": (Toleration(key="k"),),
        "tenant": "t",
        "group": "g",
        "group_limit": 2,
        "estimate": PodEstimate(1.0, 1),
        "objective_p99_ms": 5.0,
        "load_limit": 0.5,
        "scored_by": "other",
        "is_daemon": True,
        "profile": "ns/p",
        "unfiltered": frozenset({NODE_AFFINITY}),
    }
    known = {field.name for field in fields(Pod) if field.init}
    assert changes.keys() <= known
    base = Pod("p", group="h")
    pods = [base, *(replace(base, **{name: value}) for name, value in changes.items())]  # type: ignore[arg-type]
    shaped = {field.name for field in fields(Shape)}
    assert shaped & known <= changes.keys()  # a field more of a shape has a case here
    for surcharge in (0.0, 0.5):
        for one in pods:
            for other in pods:
                if one.shape_key() == other.shape_key(surcharge):
                    assert one.shape() == other.shape(surcharge)
    assert base.shape_key() == replace(base, name="q", priority=3).shape_key()
