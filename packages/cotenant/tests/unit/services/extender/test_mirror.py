"""What is known of nodes: three sources, any order, nothing drifts, nothing grows without end."""

import numpy as np
import pytest
from tests.fakes.servers.extender_forms import GIB, NOW, report

from cotenant.model.arrays import CPU, MEMORY
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod, Shape
from cotenant.model.resources import Amounts
from cotenant.services.extender.judge import demand_of
from cotenant.services.extender.mirror import UNKNOWN, Mirror


def node(name: str, cpu_milli: int = 8000, **more: int) -> Node:
    return Node(name, Amounts.of({"cpu": cpu_milli, "memory": 32 * GIB, **more}))


def shape(cpu_milli: int = 1000) -> Shape:
    return demand_of(Pod("p", requests=Amounts.of({"cpu": cpu_milli, "memory": GIB}))).shape


def requested(mirror: Mirror, name: str) -> int:
    mirror.validate()
    return int(mirror.nodes.requested[mirror.rows[name], CPU])


def test_residents_are_counted_whatever_comes_first() -> None:
    mirror = Mirror()
    mirror.pod_seen("early", "a", shape())
    mirror.node_seen(node("a"))
    mirror.pod_seen("late", "a", shape(500))
    mirror.sync()
    assert requested(mirror, "a") == 1500
    mirror.pod_gone("early")
    assert requested(mirror, "a") == 500
    mirror.pod_gone("early")
    mirror.pod_gone("never-seen")
    assert requested(mirror, "a") == 500


def test_a_pod_that_is_resized_or_moved_is_counted_once() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.node_seen(node("b"))
    mirror.pod_seen("u", "a", shape(1000))
    assert requested(mirror, "a") == 1000
    mirror.pod_seen("u", "a", shape(3000))
    mirror.pod_seen("u", "a", shape(3000))
    assert requested(mirror, "a") == 3000
    mirror.pod_seen("u", "b", shape(3000))
    assert (requested(mirror, "a"), requested(mirror, "b")) == (0, 3000)


def test_a_node_that_leaves_and_returns_has_its_residents_again() -> None:
    mirror = Mirror()
    for name in ("a", "b"):
        mirror.node_seen(node(name))
        mirror.pod_seen(f"on-{name}", name, shape())
    mirror.sync()
    mirror.apply()
    mirror.node_gone("a")
    mirror.pod_seen("more", "a", shape(250))
    assert "a" not in mirror.rows
    assert requested(mirror, "b") == 1000
    mirror.node_seen(node("c"))  # takes the free row
    assert requested(mirror, "c") == 0
    mirror.node_seen(node("a"))
    assert requested(mirror, "a") == 1250
    assert mirror.counted[mirror.rows["a"]]


def test_a_node_that_leaves_takes_nothing_of_what_is_still_to_be_written() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.node_seen(node("b"))
    mirror.apply()
    mirror.pod_seen("u", "b", shape())
    mirror.node_gone("a")
    assert requested(mirror, "b") == 1000


def test_new_resources_and_nodes_widen_the_arrays() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.pod_seen("u", "a", shape())
    mirror.apply()
    for i in range(40):
        mirror.node_seen(node(f"n{i}", **{"nvidia.com/gpu": 4}))
    assert "nvidia.com/gpu" in mirror.resources()
    assert requested(mirror, "a") == 1000
    assert mirror.nodes.capacity.shape == (42, 4)


def test_who_tells_a_nodes_size() -> None:
    mirror = Mirror()
    mirror.report_received(report("a"))
    row = mirror.rows["a"]
    assert mirror.nodes.capacity[row, : MEMORY + 1].tolist() == [8000, 32 * GIB]
    assert not mirror.listed[row]
    mirror.node_in_request(node("a", 7500))
    mirror.report_received(report("a", at_s=NOW))
    assert mirror.nodes.capacity[row, CPU] == 7500
    mirror.node_seen(node("a", 7600))
    mirror.node_in_request(node("a", 1))
    assert mirror.nodes.capacity[row, CPU] == 7600
    assert mirror.listed[row]
    assert not mirror.counted[row]
    mirror.sync()
    assert mirror.counted[mirror.rows["a"]]


def test_reports_survive_a_new_building() -> None:
    mirror = Mirror()
    mirror.report_received(report("a", cpu_used=3.0))
    mirror.node_seen(node("b"))
    mirror.sync()
    row = mirror.rows["a"]
    assert mirror.offered[row, CPU] == 5000
    assert mirror.at_s[row] == NOW - 12
    assert np.isnan(mirror.at_s[mirror.rows["b"]])
    assert np.isnan(mirror.at_s[UNKNOWN])


def test_nodes_known_only_by_reports_are_bounded() -> None:
    mirror = Mirror(max_nodes=5)
    for i in range(50):
        mirror.report_received(report(f"n{i}"))
    assert len(mirror.rows) <= 6 + 1
    assert "n49" in mirror.rows
    assert "n0" not in mirror.rows


def test_nodes_of_requests_are_bounded_and_the_clusters_stay() -> None:
    mirror = Mirror(max_nodes=20)
    mirror.node_seen(node("own"))
    mirror.pod_seen("u", "own", shape())
    for i in range(100):
        mirror.forget_unused(1)
        mirror.node_in_request(node(f"n{i}"))
    assert len(mirror.rows) <= 21
    assert requested(mirror, "own") == 1000


def test_shapes_are_bounded() -> None:
    mirror = Mirror(max_shapes=10)
    mirror.node_seen(node("a"))
    mirror.pod_seen("u", "a", shape(123))
    for i in range(100):
        mirror.forget_unused()
        mirror.intern(shape(i + 1))
    assert len(mirror.shapes.tenant) <= 12
    assert requested(mirror, "a") == 123


@pytest.mark.parametrize("seed", range(5))
def test_nothing_drifts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mirror = Mirror(max_nodes=12, max_shapes=6)
    truth: dict[str, tuple[str, int]] = {}
    there: set[str] = set()
    for _ in range(400):
        name, uid = f"n{rng.integers(8)}", f"u{rng.integers(30)}"
        match int(rng.integers(6)):
            case 0:
                mirror.node_seen(node(name, int(rng.integers(1, 9)) * 1000))
                there.add(name)
            case 1:
                mirror.node_gone(name)
                there.discard(name)
            case 2 | 3:
                milli = int(rng.integers(1, 12)) * 100
                mirror.pod_seen(uid, name, shape(milli))
                truth[uid] = (name, milli)
            case 4:
                mirror.pod_gone(uid)
                truth.pop(uid, None)
            case _:
                mirror.report_received(report(f"r{rng.integers(30)}"))
                mirror.forget_unused()
        if rng.random() < 0.3:
            for entry in there:
                assert requested(mirror, entry) == sum(milli for on, milli in truth.values() if on == entry)


def test_pods_that_come_and_go_without_a_request_leave_nothing() -> None:
    mirror = Mirror()
    mirror.node_seen(node("a"))
    mirror.sync()
    for at in range(1000):
        mirror.pod_seen(f"u{at}", "a", shape())
        mirror.pod_gone(f"u{at}")
    assert not mirror._moving
    assert requested(mirror, "a") == 0


def test_a_pod_that_is_gone_and_seen_again_before_the_next_request_is_counted_once() -> None:
    mirror = Mirror()
    for name in ("a", "b"):
        mirror.node_seen(node(name))
    mirror.sync()
    mirror.pod_seen("u", "a", shape(1000))
    assert requested(mirror, "a") == 1000
    mirror.pod_gone("u")
    mirror.pod_seen("u", "b", shape(2000))
    assert (requested(mirror, "a"), requested(mirror, "b")) == (0, 2000)
