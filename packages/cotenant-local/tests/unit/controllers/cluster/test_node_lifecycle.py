from typing import Any

import msgspec
import pytest

from cotenant_local.controllers.cluster.node_lifecycle import (
    evict,
    eviction_due_s,
    is_full_disruption,
    mark_pods_not_ready,
    reconcile_node,
)
from cotenant_local.controllers.runtime.actions import Delete, Patch, Plan
from cotenant_local.controllers.views.core import micro_stamp, stamp
from cotenant_local.controllers.views.nodes import LeaseView, NodeObjectView, TaintView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.fleet import NodeFleet

NOW = 1_800_000_000.0
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": stamp(NOW)}


def node(ready: str | None = "True", taints: list[dict[str, Any]] | None = None, **more: Any) -> NodeObjectView:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready, "lastHeartbeatTime": stamp(NOW)}]
    meta = {"name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": stamp(NOW)}
    spec = {"taints": taints or [], **more}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"conditions": conditions}}, NodeObjectView)


def lease(renewed: float, duration: int = 40) -> LeaseView:
    spec = {"holderIdentity": "n", "leaseDurationSeconds": duration, "renewTime": micro_stamp(renewed)}
    return msgspec.convert({"metadata": {"name": "n"}, "spec": spec}, LeaseView)


def pod(*tolerations: dict[str, Any], ready: bool = True, name: str = "p") -> PodObjectView:
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "3"}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert(
        {"metadata": meta, "spec": {"nodeName": "n", "tolerations": tolerations}, "status": status}, PodObjectView
    )


def taints(plan: Plan) -> list[tuple[str, str]] | None:
    for action in plan.actions:
        if isinstance(action, Patch) and "spec" in action.body:
            return [(t["key"].split("/")[-1], t["effect"]) for t in action.body["spec"]["taints"] or []]
    return None


def test_a_renewed_lease_keeps_a_node_ready() -> None:
    plan = reconcile_node(node(), lease(NOW + 100), NOW + 120)
    assert plan.actions == ()
    assert plan.requeue_at_s == NOW + 140


def test_the_grace_period_is_configurable_and_never_shorter_than_the_lease() -> None:
    assert reconcile_node(node(), lease(NOW, duration=5), NOW + 11.9, grace_s=12.0).actions == ()
    assert taints(reconcile_node(node(), lease(NOW, duration=5), NOW + 12, grace_s=12.0)) is not None
    assert reconcile_node(node(), lease(NOW, duration=30), NOW + 29, grace_s=12.0).actions == ()


def test_a_fleet_renews_four_times_per_grace_period() -> None:
    assert (NodeFleet(20).renew_every_s, NodeFleet(20).lease_duration_s) == (10.0, 40)
    assert (NodeFleet(20, grace_s=12.0).renew_every_s, NodeFleet(20, grace_s=12.0).lease_duration_s) == (3.0, 12)
    assert (NodeFleet(5000).renew_every_s, NodeFleet(5000).lease_duration_s) == (20.0, 80)


def test_a_missed_heartbeat_sets_conditions_unknown_and_taints() -> None:
    plan = reconcile_node(node(), lease(NOW + 1), NOW + 41)
    status = next(a for a in plan.actions if isinstance(a, Patch) and a.subresource == "status")
    assert {c["type"]: c["status"] for c in status.body["status"]["conditions"]}["Ready"] == "Unknown"
    assert status.resource_version == "7"
    assert taints(plan) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]


@pytest.mark.parametrize(("duration", "silent"), [(40, True), (200, False)])
def test_the_lease_duration_extends_the_grace_period(duration: int, silent: bool) -> None:
    plan = reconcile_node(node(), lease(NOW, duration), NOW + 100)
    assert bool(plan.actions) is silent


def test_heartbeats_missed_before_the_start_are_ignored() -> None:
    assert reconcile_node(node(), lease(NOW - 9000), NOW + 10_000, since_s=NOW + 9_990).actions == ()


def test_the_not_ready_taint_is_removed_and_user_taints_are_kept() -> None:
    held = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"}]
    assert taints(reconcile_node(node("True", held), lease(NOW), NOW)) == [("mine", "NoSchedule")]
    assert taints(reconcile_node(node(None, held[:1]), lease(NOW), NOW)) == [
        ("not-ready", "NoSchedule"),
        ("not-ready", "NoExecute"),
    ]
    assert taints(reconcile_node(node("False"), lease(NOW), NOW)) == [
        ("not-ready", "NoSchedule"),
        ("not-ready", "NoExecute"),
    ]


def test_cordoning_adds_the_taint_and_uncordoning_removes_it() -> None:
    assert taints(reconcile_node(node(unschedulable=True), lease(NOW), NOW)) == [("unschedulable", "NoSchedule")]
    held = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    assert taints(reconcile_node(node("True", held), lease(NOW), NOW)) == []


def test_an_unreachable_node_is_not_written_again() -> None:
    silent = node("Unknown", [{**UNREACHABLE, "effect": "NoSchedule"}, UNREACHABLE])
    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure"):
        more = msgspec.convert({"type": kind, "status": "Unknown"}, type(silent.status.conditions[0]))
        silent = msgspec.structs.replace(
            silent, status=msgspec.structs.replace(silent.status, conditions=(*silent.status.conditions, more))
        )
    assert reconcile_node(silent, lease(NOW - 500), NOW + 500).actions == ()


TAINT = msgspec.convert(UNREACHABLE, TaintView)


@pytest.mark.parametrize(
    ("tolerations", "leaves"),
    [
        ([], NOW + 50),  # at once
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoExecute"}], None),  # never
        (
            [{"key": UNREACHABLE["key"], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            NOW + 300,
        ),
        (
            [
                {"operator": "Exists", "tolerationSeconds": 900},
                {"key": UNREACHABLE["key"], "operator": "Exists", "tolerationSeconds": 60},
            ],
            NOW + 60,
        ),
        ([{"key": "other", "operator": "Exists"}], NOW + 50),
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "tolerationSeconds": -5}], NOW),
    ],
)
def test_tolerations_determine_when_a_pod_is_evicted(tolerations: list[dict[str, Any]], leaves: float | None) -> None:
    assert eviction_due_s(pod(*tolerations), [TAINT], NOW + 50) == leaves


def test_pods_are_evicted_when_their_toleration_expires() -> None:
    waits = pod({"operator": "Exists", "tolerationSeconds": 300}, name="waits")
    goes, stays = pod(name="goes"), pod({"operator": "Exists"}, name="stays")
    tainted = node("Unknown", [UNREACHABLE])
    plan = evict(tainted, [waits, goes, stays], NOW + 10)
    assert [a.name for a in plan.actions if isinstance(a, Delete)] == ["goes"]
    assert plan.requeue_at_s == NOW + 300
    later = evict(tainted, [waits, stays], NOW + 300)
    assert [a.name for a in later.actions if isinstance(a, Delete)] == ["waits"]


def test_pods_of_an_unreachable_node_are_set_not_ready() -> None:
    assert mark_pods_not_ready(node("True"), [pod()], NOW).actions == ()
    plan = mark_pods_not_ready(node("Unknown"), [pod(), pod(ready=False)], NOW)
    assert len(plan.actions) == 1


@pytest.mark.parametrize(
    ("silent", "total", "full"), [(2, 2, False), (3, 3, True), (3, 6, False), (4, 7, True), (0, 0, False)]
)
def test_more_than_half_and_more_than_two_unreachable_nodes_are_a_full_disruption(
    silent: int, total: int, full: bool
) -> None:
    assert is_full_disruption(silent, total) is full
