"""What is known of nodes: three sources, any order, nothing drifts, nothing grows without end."""

import numpy as np
import pytest
from tests.fakes.extender_forms import GIB, NOW, report

from cotenant.model.arrays import CPU, MEMORY
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod, Shape
from cotenant.model.resources import Amounts
from cotenant.services.extender.judge import ask_of
from cotenant.services.extender.mirror import NOBODY, Mirror


def node(name: str, cpu_milli: int = 8000, **more: int) -> Node:
    return Node(name, Amounts.of({"cpu": cpu_milli, "memory": 32 * GIB, **more}))


def shape(cpu_milli: int = 1000) -> Shape:
    return ask_of(Pod("p", requests=Amounts.of({"cpu": cpu_milli, "memory": GIB}))).shape


def requested(mirror: Mirror, name: str) -> int:
    mirror.validate()
    return int(mirror.nodes.requested[mirror.rows[name], CPU])


def test_residents_are_counted_whatever_comes_first() -> None:
    mirror = Mirror()
    mirror.assign("early", "a", shape())
    mirror.list(node("a"))
    mirror.assign("late", "a", shape(500))
    mirror.sync()
    assert requested(mirror, "a") == 1500
    mirror.leave("early")
    assert requested(mirror, "a") == 500
    mirror.leave("early")
    mirror.leave("never-seen")
    assert requested(mirror, "a") == 500


def test_a_pod_that_is_resized_or_moved_is_counted_once() -> None:
    mirror = Mirror()
    mirror.list(node("a"))
    mirror.list(node("b"))
    mirror.assign("u", "a", shape(1000))
    assert requested(mirror, "a") == 1000
    mirror.assign("u", "a", shape(3000))
    mirror.assign("u", "a", shape(3000))
    assert requested(mirror, "a") == 3000
    mirror.assign("u", "b", shape(3000))
    assert (requested(mirror, "a"), requested(mirror, "b")) == (0, 3000)


def test_a_node_that_leaves_and_returns_has_its_residents_again() -> None:
    mirror = Mirror()
    for name in ("a", "b"):
        mirror.list(node(name))
        mirror.assign(f"on-{name}", name, shape())
    mirror.sync()
    mirror.settle()
    mirror.unlist("a")
    mirror.assign("more", "a", shape(250))
    assert "a" not in mirror.rows
    assert requested(mirror, "b") == 1000
    mirror.list(node("c"))  # takes the free row
    assert requested(mirror, "c") == 0
    mirror.list(node("a"))
    assert requested(mirror, "a") == 1250
    assert mirror.counted[mirror.rows["a"]]


def test_a_node_that_leaves_takes_nothing_of_what_is_still_to_be_written() -> None:
    mirror = Mirror()
    mirror.list(node("a"))
    mirror.list(node("b"))
    mirror.settle()
    mirror.assign("u", "b", shape())
    mirror.unlist("a")
    assert requested(mirror, "b") == 1000


def test_new_resources_and_nodes_widen_the_arrays() -> None:
    mirror = Mirror()
    mirror.list(node("a"))
    mirror.assign("u", "a", shape())
    mirror.settle()
    for i in range(40):
        mirror.list(node(f"n{i}", **{"nvidia.com/gpu": 4}))
    assert "nvidia.com/gpu" in mirror.resources()
    assert requested(mirror, "a") == 1000
    assert mirror.nodes.capacity.shape == (42, 4)


def test_who_tells_a_nodes_size() -> None:
    mirror = Mirror()
    mirror.hear(report("a"))
    row = mirror.rows["a"]
    assert mirror.nodes.capacity[row, : MEMORY + 1].tolist() == [8000, 32 * GIB]
    assert not mirror.listed[row]
    mirror.give(node("a", 7500))
    mirror.hear(report("a", at_s=NOW))
    assert mirror.nodes.capacity[row, CPU] == 7500
    mirror.list(node("a", 7600))
    mirror.give(node("a", 1))
    assert mirror.nodes.capacity[row, CPU] == 7600
    assert mirror.listed[row]
    assert not mirror.counted[row]
    mirror.sync()
    assert mirror.counted[mirror.rows["a"]]


def test_reports_survive_a_new_building() -> None:
    mirror = Mirror()
    mirror.hear(report("a", cpu_used=3.0))
    mirror.list(node("b"))
    mirror.sync()
    row = mirror.rows["a"]
    assert mirror.offered[row, CPU] == 5000
    assert mirror.at_s[row] == NOW - 12
    assert np.isnan(mirror.at_s[mirror.rows["b"]])
    assert np.isnan(mirror.at_s[NOBODY])


def test_nodes_known_only_by_reports_are_bounded() -> None:
    mirror = Mirror(most_nodes=5)
    for i in range(50):
        mirror.hear(report(f"n{i}"))
    assert len(mirror.rows) <= 6 + 1
    assert "n49" in mirror.rows
    assert "n0" not in mirror.rows


def test_nodes_of_requests_are_bounded_and_the_clusters_stay() -> None:
    mirror = Mirror(most_nodes=20)
    mirror.list(node("own"))
    mirror.assign("u", "own", shape())
    for i in range(100):
        mirror.tidy(1)
        mirror.give(node(f"n{i}"))
    assert len(mirror.rows) <= 21
    assert requested(mirror, "own") == 1000


def test_shapes_are_bounded() -> None:
    mirror = Mirror(most_shapes=10)
    mirror.list(node("a"))
    mirror.assign("u", "a", shape(123))
    for i in range(100):
        mirror.tidy()
        mirror.intern(shape(i + 1))
    assert len(mirror.shapes.tenant) <= 12
    assert requested(mirror, "a") == 123


@pytest.mark.parametrize("seed", range(5))
def test_nothing_drifts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mirror = Mirror(most_nodes=12, most_shapes=6)
    truth: dict[str, tuple[str, int]] = {}
    there: set[str] = set()
    for _ in range(400):
        name, uid = f"n{rng.integers(8)}", f"u{rng.integers(30)}"
        match int(rng.integers(6)):
            case 0:
                mirror.list(node(name, int(rng.integers(1, 9)) * 1000))
                there.add(name)
            case 1:
                mirror.unlist(name)
                there.discard(name)
            case 2 | 3:
                milli = int(rng.integers(1, 12)) * 100
                mirror.assign(uid, name, shape(milli))
                truth[uid] = (name, milli)
            case 4:
                mirror.leave(uid)
                truth.pop(uid, None)
            case _:
                mirror.hear(report(f"r{rng.integers(30)}"))
                mirror.tidy()
        if rng.random() < 0.3:
            for each in there:
                assert requested(mirror, each) == sum(milli for on, milli in truth.values() if on == each)
