"""Hints of several resources, and the NUMA nodes on which they meet."""

from __future__ import annotations

import pytest

from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.policy.placement.numa import Alignment, Hint, NumaRoom, align, alone, alone_of, hints, meet_on_one
from cotenant.policy.placement.refusal import Refusal

TWO = (0, 1)


def test_hints_prefer_as_few_nodes_as_an_idle_machine_would_need() -> None:
    rooms = (NumaRoom(0, 8, 2), NumaRoom(1, 8, 8))
    assert hints(4, rooms) == (Hint(0b10, True), Hint(0b11, False))
    assert hints(10, rooms) == (Hint(0b11, True),)
    assert hints(12, rooms) == ()


@pytest.mark.parametrize(
    ("policy", "nodes", "preferred"),
    [
        (TopologyPolicy.NONE, None, True),
        (TopologyPolicy.BEST_EFFORT, 0b10, True),
        (TopologyPolicy.RESTRICTED, 0b10, True),
        (TopologyPolicy.SINGLE_NUMA_NODE, 0b10, True),
    ],
)
def test_resources_meet_where_all_prefer_it(policy: TopologyPolicy, nodes: int | None, preferred: bool) -> None:
    asked = {"cpu": (Hint(0b01, True), Hint(0b10, True), Hint(0b11, False)), "gpu": (Hint(0b10, True),), "memory": None}
    got = align(policy, asked, TWO)
    assert isinstance(got, Alignment)
    assert (got.nodes, got.preferred) == (nodes, preferred)


def test_two_resources_on_different_nodes_pass_only_by_best_effort() -> None:
    asked = {"cpu": (Hint(0b01, True),), "gpu": (Hint(0b10, True),)}
    lenient = align(TopologyPolicy.BEST_EFFORT, asked, TWO)
    assert isinstance(lenient, Alignment)
    assert lenient.nodes is None
    strict = align(TopologyPolicy.RESTRICTED, asked, TWO)
    assert isinstance(strict, Refusal)
    assert strict.reason == "NUMA topology policy Restricted cannot be satisfied"
    assert strict.nearest == "cpu fits NUMA 0; gpu fits NUMA 1"


def test_restricted_lets_a_pod_span_nodes_that_needs_them_and_a_single_node_does_not() -> None:
    asked = {"cpu": (Hint(0b11, True),)}
    got = align(TopologyPolicy.RESTRICTED, asked, TWO)
    assert isinstance(got, Alignment)
    assert got.nodes == 0b11
    refused = align(TopologyPolicy.SINGLE_NUMA_NODE, asked, TWO)
    assert isinstance(refused, Refusal)
    assert refused.nearest == "cpu fits NUMA 0+1 at best"


def test_what_no_set_of_nodes_can_serve_is_named() -> None:
    refused = align(TopologyPolicy.RESTRICTED, {"cpu": (Hint(0b01, True),), "gpu": ()}, TWO)
    assert isinstance(refused, Refusal)
    assert refused.nearest == "no set of NUMA nodes has enough gpu"


def test_a_resource_that_needs_more_nodes_than_the_others_takes_the_narrowest_set_around_them() -> None:
    asked = {
        "cpu": (Hint(0b011, True), Hint(0b110, True), Hint(0b111, False)),
        "gpu": (Hint(0b010, True),),
        "rdma": None,
    }
    got = align(TopologyPolicy.RESTRICTED, asked, (0, 1, 2))
    assert isinstance(got, Alignment)
    assert (got.nodes, got.within("cpu"), got.within("gpu"), got.within("rdma")) == (0b010, 0b011, 0b010, None)


def test_what_cannot_be_served_is_taken_anywhere_by_best_effort_and_the_others_still_meet() -> None:
    asked = {"cpu": (Hint(0b10, True), Hint(0b11, False)), "gpu": ()}
    got = align(TopologyPolicy.BEST_EFFORT, asked, TWO)
    assert isinstance(got, Alignment)
    assert (got.nodes, got.preferred, got.sets) == (0b10, False, (("cpu", 0b10),))


@pytest.mark.parametrize("free", [(8, 8, 8), (2, 8, 8), (2, 2, 8), (8, 2, 2), (2, 2, 2), (8, 1, 4)])
@pytest.mark.parametrize("policy", [one for one in TopologyPolicy if one is not TopologyPolicy.NONE])
def test_where_all_meet_on_one_node_the_short_way_says_the_same(policy: TopologyPolicy, free: tuple[int, ...]) -> None:
    cpu, gpu = (tuple(NumaRoom(node, 8, has) for node, has in enumerate(some)) for some in (free, (4, 8, 8)))
    asked = {"cpu": hints(4, cpu), "gpu": hints(5, gpu)}
    each = {"cpu": alone(4, cpu), "gpu": alone(5, gpu)}
    assert each == {name: alone_of(given) for name, given in asked.items()}
    found, whole = meet_on_one(each), align(policy, asked, (0, 1, 2))
    if each["cpu"] & each["gpu"]:
        assert found == whole
        assert isinstance(found, Alignment)
        assert found.preferred
    else:
        assert found is None
    assert meet_on_one({}) is None
