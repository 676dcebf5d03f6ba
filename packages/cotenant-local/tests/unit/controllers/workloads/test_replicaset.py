from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.processes.plain_cluster import PlainCluster, template

from cotenant_local.controllers.runtime.actions import PODS, REPLICA_SETS, Create, Delete, Patch, Plan
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.pods import deletion_order
from cotenant_local.controllers.workloads.replicaset import BURST, reconcile

NOW = 1_800_000_000.0


def cluster(replicas: int, **spec: Any) -> PlainCluster:
    made = PlainCluster(NOW)
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec}
    made.put(REPLICA_SETS, {"metadata": {"name": "rs"}, "spec": body})
    return made


def plan(made: PlainCluster) -> Plan:
    return reconcile(made.view(REPLICA_SETS, "rs"), made.views(PODS), made.now_s)


def test_creates_missing_pods_with_an_owner_reference() -> None:
    made = cluster(3)
    made.converge(lambda: plan(made))
    pods = made.views(PODS)
    assert len(pods) == 3
    assert all(p.metadata.controller.uid == made.view(REPLICA_SETS, "rs").metadata.uid for p in pods)
    assert made.view(REPLICA_SETS, "rs").status.replicas == 3


def test_replaces_failed_pods_but_not_pending_ones() -> None:
    made = cluster(2)
    made.converge(lambda: plan(made))
    first = made.views(PODS)[0].metadata.name
    made.kubelet(first, "Failed")
    made.converge(lambda: plan(made))
    assert len([p for p in made.views(PODS) if p.active]) == 2
    assert len(made.views(PODS)) == 3


def test_counts_ready_and_available_pods_and_requeues_for_availability() -> None:
    made = cluster(2, minReadySeconds=30)
    made.converge(lambda: plan(made))
    for pod in made.views(PODS):
        made.kubelet(pod.metadata.name)
    asked = plan(made)
    assert asked.requeue_at_s == NOW + 30
    made.converge(lambda: plan(made))
    status = made.view(REPLICA_SETS, "rs").status
    assert (status.ready_replicas, status.available_replicas) == (2, 0)
    made.now_s += 30
    made.converge(lambda: plan(made))
    assert made.view(REPLICA_SETS, "rs").status.available_replicas == 2


def test_adopts_matching_orphans_and_releases_pods_that_no_longer_match() -> None:
    made = cluster(2)
    made.put(PODS, {"metadata": {"name": "orphan", "labels": {"app": "web"}}, "spec": {}})
    made.put(PODS, {"metadata": {"name": "other", "labels": {"app": "db"}}, "spec": {}})
    made.converge(lambda: plan(made))
    assert made.view(PODS, "orphan").metadata.controller.name == "rs"
    assert made.view(PODS, "other").metadata.controller is None
    assert len(made.views(PODS)) == 3
    made.edit(PODS, "orphan", {"metadata": {"labels": {"app": "free"}}})
    made.converge(lambda: plan(made))
    assert made.view(PODS, "orphan").metadata.controller is None
    assert len([p for p in made.views(PODS) if p.metadata.controller]) == 2


def test_does_not_touch_pods_of_another_set() -> None:
    made = cluster(0)
    owner = {"kind": "ReplicaSet", "name": "x", "uid": "x", "apiVersion": "apps/v1", "controller": True}
    made.put(PODS, {"metadata": {"name": "p", "labels": {"app": "web"}, "ownerReferences": [owner]}, "spec": {}})
    assert not [a for a in plan(made).actions if isinstance(a, (Delete, Patch)) and a.name == "p"]


def test_a_terminating_set_creates_no_pods() -> None:
    made = cluster(3)
    made.objects[(REPLICA_SETS, "default", "rs")]["metadata"]["deletionTimestamp"] = stamp(NOW)
    assert not [a for a in plan(made).actions if isinstance(a, Create)]


def test_creates_at_most_one_burst_at_a_time() -> None:
    made = cluster(BURST + 100)
    assert len([a for a in plan(made).actions if isinstance(a, Create)]) == BURST


def a_pod(name: str, **more: Any) -> PodObjectView:
    meta = {"name": name, "namespace": "default", "uid": name, "creationTimestamp": stamp(more.pop("created", NOW))}
    meta["annotations"] = more.pop("annotations", {})
    ready, since = more.pop("ready", False), more.pop("since", NOW)
    restarts = more.pop("restarts", 0)
    status = {
        "phase": more.pop("phase", "Running"),
        "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": stamp(since)}],
        "containerStatuses": [{"name": "c", "restartCount": restarts}],
    }
    return msgspec.convert(
        {"metadata": meta, "spec": {"nodeName": more.pop("node", "n1")}, "status": status}, PodObjectView
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"node": "", "phase": "Pending"}, {"ready": False}),  # unassigned before assigned
        ({"phase": "Pending"}, {"phase": "Running"}),
        ({"ready": False}, {"ready": True}),
        (
            {"ready": True, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}},
            {"ready": True, "since": NOW - 5},
        ),
        ({"ready": True, "since": NOW - 10}, {"ready": True, "since": NOW - 900}),  # ready for a shorter time
        ({"ready": True, "restarts": 3}, {"ready": True}),
        ({"ready": True, "created": NOW}, {"ready": True, "created": NOW - 900}),  # younger
    ],
)
def test_deletion_order_prefers_the_least_useful_pods(first: dict[str, Any], second: dict[str, Any]) -> None:
    go, stay = a_pod("z-goes", **first), a_pod("a-stays", **second)
    for order in ([go, stay], [stay, go]):
        assert [p.metadata.name for p in deletion_order(order, [], NOW)] == ["z-goes", "a-stays"]


def test_pods_sharing_a_node_are_deleted_first() -> None:
    pods = [a_pod("a", ready=True, node="n1"), a_pod("b", ready=True, node="n2"), a_pod("c", ready=True, node="n2")]
    assert deletion_order(pods, pods, NOW)[0].spec.node_name == "n2"


@given(
    replicas=st.integers(0, 12),
    phases=st.lists(st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]), max_size=15),
)
def test_converges_from_any_state(replicas: int, phases: list[str]) -> None:
    made = cluster(replicas)
    owner = made.view(REPLICA_SETS, "rs").metadata.uid
    reference = {"kind": "ReplicaSet", "name": "rs", "uid": owner, "apiVersion": "apps/v1", "controller": True}
    for i, phase in enumerate(phases):
        meta = {"name": f"p{i}", "labels": {"app": "web"}, "ownerReferences": [reference]}
        made.put(PODS, {"metadata": meta, "spec": {}, "status": {"phase": phase}})
    made.converge(lambda: plan(made), limit=5)
    assert len([p for p in made.views(PODS) if p.active]) == replicas
