"""Nodes and running pods of a copy as arrays, and what was measured of them last."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory, no_history
from cotenant.model.cluster.observed import ObservedPod, OwnedBy, PodPhase, PodWorkload
from cotenant.model.cluster.pod import Pod
from cotenant.model.machine.node_metric import MeasuredPod, NodeMetric, Use
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, MEMORY_NAME, MID_CPU, PODS_NAME, Amounts
from cotenant.services.assess.columns import (
    MAX_AGE_S,
    NodeColumns,
    RunningColumns,
    by_workload,
    joined,
    moment,
    node_columns,
    pod_columns,
)
from cotenant.services.assess.copying import ClusterCopy, CopiedOwner
from cotenant.services.assess.measured import with_measured
from cotenant.services.assess.totals import totals

MIB, GIB = 1 << 20, 1 << 30
NOW_S = 100_000.0


def owner(kind: str, uid: str = "rs", controller: bool = True) -> OwnedBy:
    return OwnedBy("apps/v1", kind, f"{kind.lower()}-{uid}", uid, controller)


def pod(
    name: str, on: str = "a", owners: tuple[OwnedBy, ...] = (), amounts: Amounts | None = None, **more: Any
) -> PodInfo:
    requests = Amounts.of({"cpu": 1500, "memory": 3 * MIB}) if amounts is None else amounts
    seen = ObservedPod(
        Pod(name, namespace="shop", requests=requests), f"u-{name}", "s", 0.0, node=on, owned_by=owners, **more
    )
    return PodInfo(seen, node=on)


def copy(
    pods: Iterable[PodInfo] = (),
    owners: dict[str, CopiedOwner] | None = None,
    metrics: dict[str, NodeMetric] | None = None,
    requested: Any = None,
    nodes: dict[str, bool] | None = None,
) -> ClusterCopy:
    """`nodes`: whether each takes pods."""
    there = {name: SimpleNamespace(takes_pods=takes) for name, takes in (nodes or {}).items()}
    engine = SimpleNamespace(every_pod=lambda: list(pods), requested=lambda: requested, node=there.get)
    return cast(Any, SimpleNamespace(engine=engine, owners=owners or {}, metrics=metrics or {}, now_s=NOW_S))


def running(*pods: PodInfo) -> RunningColumns:
    return pod_columns(copy(pods))


# ---- nodes


def test_nodes_have_what_is_allocatable_and_requested_and_room_only_where_they_take_pods() -> None:
    names, resources = ("a", "b", "gone"), ("memory", "cpu", "pods")
    capacity = np.array([[8 * GIB, 4000, 110], [4 * GIB, 2000, 50], [GIB, 1000, 10]])
    requested = np.array([[GIB, 500, 3], [2 * GIB, 1500, 5], [0, 0, 0]])
    assert resources == (MEMORY_NAME, CPU_NAME, PODS_NAME)
    found = node_columns(copy(requested=(names, resources, capacity, requested), nodes={"a": True, "b": False}))
    assert found.names == names
    assert found.cpu_m.tolist() == [4000, 2000, 1000]
    assert found.memory_mib.tolist() == [8192, 4096, 1024]
    assert found.cpu_requested_m.tolist() == [500, 1500, 0]
    assert found.memory_requested_mib.tolist() == [1024, 2048, 0]
    assert [column.tolist() for column in found.rooms] == [[3500], [7168], [107]]


def test_a_resource_that_no_node_has_is_none_and_a_copy_without_nodes_is_empty() -> None:
    found = node_columns(copy(requested=(("a",), ("cpu",), np.array([[4000]]), np.array([[1]])), nodes={"a": True}))
    assert (found.memory_mib.tolist(), found.rooms.slots.tolist()) == ([0], [0])
    none = np.zeros((0, 2), np.int64)
    empty = node_columns(copy(requested=((), ("cpu", "memory"), none, none)))
    assert [len(column) for column in (empty.cpu_m, empty.memory_mib, *empty.rooms)] == [0] * 5


# ---- pods


def test_running_pods_are_by_name_with_requests_of_any_class() -> None:
    lent = Amounts.of({"cpu": 100, BATCH_CPU: 2000, MID_CPU: 30, BATCH_MEMORY: 7 * MIB})
    found = running(
        pod("b", amounts=lent),
        pod("a"),
        pod("waits", ""),
        pod("ended", phase=PodPhase.FAILED),
        pod("held", reservation="r"),
    )
    assert [info.seen.pod.name for info in found.entries] == ["a", "b"]
    assert (found.cpu_m.tolist(), found.memory_mib.tolist()) == ([1500, 2130], [3, 7])


def test_a_workload_is_the_highest_controller_that_is_known() -> None:
    top = PodWorkload(OwnedBy("kubeflow.org/v1", "PyTorchJob", "train", "p"))
    pods = (
        pod("p0", owners=(owner("ReplicaSet"),)),
        pod("p1", owners=(owner("Other", "x", controller=False), owner("Job", "j"))),
        pod("p2", owners=(owner("Other", "x", controller=False),)),
        pod("p3", owners=(owner("ReplicaSet"),), workload=top),
    )
    found = pod_columns(copy(pods, owners={"rs": CopiedOwner("Deployment", "web"), "x": CopiedOwner("No", "no")}))
    assert found.workload == ("shop/Deployment/web", "shop/Job/job-j", "shop/Pod/p2", "shop/PyTorchJob/train")


def test_requests_by_workload() -> None:
    found = by_workload(running(pod("p0", owners=(owner("Job"),)), pod("p1", owners=(owner("Job"),)), pod("p2")))
    assert list(found.names) == ["shop/Job/job-rs", "shop/Pod/p2"]
    assert (found.pods.tolist(), found.cpu_m.tolist(), found.memory_mib.tolist()) == ([2, 1], [3000, 1500], [6, 3])
    none = by_workload(running())
    assert (list(none.names), len(none.pods)) == ([], 0)


def series(names: tuple[str, ...], cpu_m: list[list[float]], end_s: float = NOW_S, steps: int = 1) -> AssessedHistory:
    """Steps of a minute that end then; of memory as many MiB."""
    rows = np.array(cpu_m, np.float32) if names else np.zeros((0, steps), np.float32)
    return AssessedHistory(end_s - 60.0 * rows.shape[1], 60.0, names, rows, rows.copy(), "made up")


def history(
    pods: dict[str, list[float]],
    nodes: dict[str, list[float]],
    node: tuple[str, ...] = (),
    workload: tuple[str, ...] = (),
) -> ClusterHistory:
    unknown = np.full(len(pods), nan, np.float32)
    of_pods = series(tuple(pods), list(pods.values()))
    nowhere = ("",) * len(pods)
    return ClusterHistory(
        PodHistory(of_pods, node or nowhere, workload or nowhere, unknown, unknown),
        series(tuple(nodes), list(nodes.values())),
    )


def test_what_the_history_does_not_know_of_a_running_pod_is_joined() -> None:
    known = {"shop/p0": [1.0], "shop/p1": [1.0], "shop/old": [1.0]}
    given = history(known, {}, ("", "x", ""), ("", "shop/Job/known", ""))
    found = joined(given, running(pod("p0"), pod("p1")))
    assert found.pods.node == ("a", "x", "")
    assert found.pods.workload == ("shop/Pod/p0", "shop/Job/known", "")


def metric(name: str, cpu_m: int | None, age_s: float = 5.0, **pods: int) -> NodeMetric:
    measured = {f"shop/{key}": MeasuredPod(Use(use, 2 * MIB)) for key, use in pods.items()}
    return NodeMetric(name, age_s, use=None if cpu_m is None else Use(cpu_m, 5 * MIB), pods=measured)


def test_nodemetrics_are_a_history_of_one_step() -> None:
    metrics = {
        "b": metric("b", 900, MAX_AGE_S, p1=400),
        "a": metric("a", 700, p0=300, stranger=1),
        "old": metric("old", 1, MAX_AGE_S + 1, p2=5),
        "mute": metric("mute", None, p3=5),
    }
    pods = running(pod("p0"), pod("p1", "b"), pod("p2", "old"), pod("p3", "mute"))
    found = moment(copy(metrics=metrics), pods)
    assert (found.nodes.names, found.nodes.cpu_m.tolist()) == (("a", "b"), [[700.0], [900.0]])
    assert found.nodes.memory_mib.tolist() == [[5.0], [5.0]]
    assert found.pods.use.names == ("shop/p0", "shop/p1")
    assert (found.pods.use.cpu_m.tolist(), found.pods.use.memory_mib.tolist()) == ([[300.0], [400.0]], [[2.0], [2.0]])
    assert (found.pods.node, found.pods.workload) == (("a", "b"), ("shop/Pod/p0", "shop/Pod/p1"))
    assert (found.pods.cpu_request_m.tolist(), found.pods.memory_request_mib.tolist()) == ([1500.0] * 2, [3.0] * 2)
    assert "of 2 NodeMetrics" in found.nodes.source


def test_without_a_current_nodemetric_it_is_said_why_nothing_is_known() -> None:
    assert moment(copy(), running()).nodes.source.startswith("no source of use was given: only requests are known")
    old = moment(copy(metrics={"a": metric("a", 1, MAX_AGE_S + 1)}), running())
    assert old.nodes.source.startswith("the 1 NodeMetrics are older than 15 min")
    assert old.nodes.steps == 0


# ---- measurements out of a history


def test_the_last_known_step_stands_for_a_nodemetric_that_is_not_there() -> None:
    given = history(
        {"shop/p0": [10.0, 200.0], "shop/p1": [50.0, nan], "shop/gone": [9.0, 9.0]},
        {"a": [100.0, 700.0], "b": [300.0, nan], "c": [nan, nan], "d": [1.0, 1.0]},
    )
    current, old = metric("d", 42), metric("a", 1, MAX_AGE_S + 1)
    pods = running(pod("p0"), pod("p1", "b"), pod("p2", "b"))
    found = with_measured(copy(metrics={"d": current, "a": old}), pods, given)
    assert set(found) == {"a", "b", "d"}
    assert found["d"] is current
    a, b = found["a"], found["b"]
    assert (a.age_s, a.use, a.system) == (60.0, Use(700, 700 * MIB), Use(500, 500 * MIB))
    assert a.pods is not None
    assert {key: one.use for key, one in a.pods.items()} == {"shop/p0": Use(200, 200 * MIB)}
    assert (b.age_s, b.use, b.system) == (120.0, Use(300, 300 * MIB), Use(250, 250 * MIB))


@pytest.mark.parametrize(("late_s", "is_known"), [(0.0, True), (MAX_AGE_S - 60.0, True), (MAX_AGE_S - 59.0, False)])
def test_what_is_older_than_a_quarter_of_an_hour_is_not_current(late_s: float, is_known: bool) -> None:
    given = history({}, {"a": [5.0]})
    given = ClusterHistory(given.pods, series(("a",), [[5.0]], NOW_S - late_s))
    assert (set(with_measured(copy(), running(), given)) == {"a"}) is is_known
    assert dict(with_measured(copy(), running(), no_history("none"))) == {}


# ---- totals


def test_figures_of_the_whole_cluster() -> None:
    zeros = np.zeros(0, np.int64)
    nodes = NodeColumns(
        ("a", "b"), np.array([4000, 2000]), np.array([2048, 1024]), np.array([1000, 2500]), np.array([512, 512]),
        node_columns(copy(requested=((), (), zeros.reshape(0, 0), zeros.reshape(0, 0)))).rooms,
    )  # fmt: skip
    lent = pod("p1", amounts=Amounts.of({BATCH_CPU: 1500, MID_CPU: 500, BATCH_MEMORY: 256 * MIB}))
    workloads: Any = [
        SimpleNamespace(idle_cpu_m=400.0, idle_memory_mib=512.0),
        SimpleNamespace(idle_cpu_m=None, idle_memory_mib=None),
        SimpleNamespace(idle_cpu_m=100.0, idle_memory_mib=256.0),
    ]
    use = history({}, {"a": [1000.0, 3000.0, nan], "b": [500.0, 1000.0, nan]})
    by_key = {one.key: one for one in totals(nodes, running(pod("p0"), lent), use, workloads)}
    values = {key: one.value for key, one in by_key.items() if one.value is not None}
    assert values == pytest.approx(
        {
            "nodes": 2,
            "pods": 2,
            "cpu_allocatable": 6.0,
            "cpu_allocated": 3.5,
            "cpu_free": 2.5,
            "cpu_lent": 2.0,
            "cpu_used_last": 4.0,
            "cpu_idle": 0.5,
            "memory_allocatable": 3.0,
            "memory_allocated": 1.0,
            "memory_free": 2.0,
            "memory_lent": 0.25,
            "memory_used_last": 4000 / 1024,
            "memory_idle": 0.75,
        }
    )
    assert by_key["cpu_used_last"].interval == "none: one measurement of 2 nodes"


def test_more_that_is_requested_than_there_is_leaves_nothing_free_and_unknown_use_says_why() -> None:
    none = np.zeros((0, 0), np.int64)
    rooms = node_columns(copy(requested=((), (), none, none))).rooms
    nodes = NodeColumns(("a",), np.array([1000]), np.array([1024]), np.array([1500]), np.array([1024]), rooms)
    by_key = {one.key: one for one in totals(nodes, running(), no_history("nobody measures"), ())}
    assert (by_key["cpu_free"].value, by_key["memory_free"].value) == (0, 0)
    assert "cpu_lent" not in by_key
    assert {by_key[key].why for key in ("cpu_used_last", "cpu_idle", "memory_idle")} == {"nobody measures"}
