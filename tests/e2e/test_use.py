"""`cotenant up` with kubectl: workloads run, scale and end, and events and statuses report it."""

from __future__ import annotations

import json
import os
import stat
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import NODES, Dead
from tests.e2e.manifests import deployment, is_running, job, pod
from tests.e2e.running import Client, Up, command, eventually, kubectl, metric
from tests.fakes.waiting import patience

pytestmark = pytest.mark.slow
BOUND = f"--timeout={patience(60):.0f}s"


def running(api: Client, namespace: str, app: str) -> list[Any]:
    found = api.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"app={app}")
    return [entry for entry in found if is_running(entry)]


def events(api: Client, namespace: str, reason: str) -> list[Any]:
    return [entry for entry in api.items(f"/api/v1/namespaces/{namespace}/events") if entry["reason"] == reason]


def test_secrets_stay_secret(up: Up, api: Client) -> None:
    for name in ("kubeconfig", "token", "cluster.db"):
        assert stat.S_IMODE((up.directory / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(up.directory.stat().st_mode) == 0o700
    for pid in (up.pid, *up.children().values()):
        words = command(pid)
        assert words
        assert not any(api.token in word for word in words)
        assert api.token.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert api.token not in up.said
    assert not any(api.token in log.read_text() for log in (up.directory / "logs").iterdir())
    assert api.exchange("GET", "/api/v1/nodes", token="nobody")[0] == 401


def test_only_this_machine_can_connect(up: Up) -> None:
    mine = set()
    for pid in (up.pid, *up.children().values()):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            try:
                mine.add(os.readlink(path))
            except FileNotFoundError:
                continue
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in mine]
    assert len(listening) == 3  # API server, scheduler, extender
    assert {address.partition(":")[0] for address in listening} == {"0100007F"}


def test_a_deployment_becomes_available_is_scaled_and_deleted(up: Up, api: Client, namespace: str) -> None:
    kubectl(up, "apply", "-n", namespace, "-f", "-", text=json.dumps(deployment("web", 3)))
    assert "successfully rolled out" in kubectl(up, "rollout", "status", "-n", namespace, "deploy/web", BOUND)
    placed = running(api, namespace, "web")
    assert len(placed) == 3
    for entry in placed:
        decision = json.loads(entry["metadata"]["annotations"]["cotenant.io/decision"])
        assert decision["policy"] == "cotenant"
        assert decision["nodes"] == NODES
        assert entry["status"]["podIP"]
    told = eventually("an event for each pod", lambda: _of_all(events(api, namespace, "Scheduled"), placed))
    assert all(entry["spec"]["nodeName"] in told[entry["metadata"]["name"]] for entry in placed)
    kubectl(up, "scale", "-n", namespace, "deploy/web", "--replicas=6")
    kubectl(up, "rollout", "status", "-n", namespace, "deploy/web", BOUND)
    assert len(running(api, namespace, "web")) == 6
    kubectl(up, "delete", "-n", namespace, "deploy/web", "--cascade=foreground", BOUND)
    assert not api.items(f"/api/v1/namespaces/{namespace}/pods")


def _of_all(found: list[Any], pods: list[Any]) -> dict[str, str]:
    """The messages by pod, once there is one for each."""
    told = {entry["involvedObject"]["name"]: entry["message"] for entry in found}
    return told if {entry["metadata"]["name"] for entry in pods} <= told.keys() else {}


def test_a_job_completes(up: Up, api: Client, namespace: str) -> None:
    kubectl(up, "apply", "-n", namespace, "-f", "-", text=json.dumps(job("batch", 4, 30)))
    kubectl(up, "wait", "-n", namespace, "--for=condition=complete", "job/batch", BOUND)
    status = api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/batch")["status"]
    assert status["succeeded"] == 4
    assert not status.get("failed")


def test_a_pod_that_fits_nowhere_reports_why(up: Up, api: Client, namespace: str) -> None:
    api.create(f"/api/v1/namespaces/{namespace}/pods", pod("big", "1000"))
    event = eventually("an event reports it", lambda: events(api, namespace, "FailedScheduling"))[0]
    # One node is cordoned, and may be tainted as well.
    assert f"0/{NODES} nodes are available" in event["message"]
    assert f"{NODES - 1} Insufficient cpu" in event["message"]
    assert event["type"] == "Warning"
    where = f"/api/v1/namespaces/{namespace}/pods/big"
    (condition,) = eventually("its status as well", lambda: api.get(where)["status"].get("conditions"))
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert "Insufficient cpu" in condition["message"]
    assert "Insufficient cpu" in kubectl(up, "describe", "pod", "-n", namespace, "big")


def test_a_drained_node_s_pods_move(up: Up, api: Client, namespace: str) -> None:
    api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 4))
    placed = eventually("they run", lambda: _as_many(running(api, namespace, "web"), 4))
    node = placed[0]["spec"]["nodeName"]
    kubectl(up, "cordon", node)
    try:
        eventually("the scheduler has heard of it", lambda: up.heard_of_cordon(node))
        assert "drained" in kubectl(up, "drain", node, "--ignore-daemonsets", "--force", BOUND)
        moved = eventually("they run elsewhere", lambda: _as_many(running(api, namespace, "web"), 4))
        assert node not in {entry["spec"]["nodeName"] for entry in moved}
    finally:
        kubectl(up, "uncordon", node)


def _as_many(found: list[Any], count: int) -> list[Any]:
    return found if len(found) == count else []


def test_nodes_report_to_scheduler_and_extender(up: Up, dead: Dead) -> None:
    def taken(what: str) -> bool:
        return metric(up.page(what), f'cotenant_{what}_reports_total{{outcome="taken"}}') >= NODES - 1

    for what in ("scheduler", "extender"):
        eventually(f"every working node has reported to the {what}", partial(taken, what))
        page = up.page(what)
        # "refused" is none of them: so are reports that come before the nodes are listed, and those that come slowly.
        for outcome in ("malformed", "invalid", "unauthorized", "full"):
            assert metric(page, f'cotenant_{what}_reports_total{{outcome="{outcome}"}}') == 0, page
    # Fresh reports, which on a busy machine may be late.
    fresh = lambda: metric(up.page("extender"), "cotenant_extender_nodes_reporting")  # noqa: E731
    eventually("every working node's report is fresh", lambda: fresh() >= NODES - 1)


def test_a_dead_node_s_pods_are_replaced_and_it_comes_back(api: Client, dead: Dead) -> None:
    where = f"/api/v1/nodes/{dead.node}"

    def unreachable() -> Any:
        node = api.get(where)
        taints = {(entry["key"], entry["effect"]) for entry in node["spec"].get("taints", ())}
        ready = _ready(node)["status"] == "Unknown"
        return node if ready and ("node.kubernetes.io/unreachable", "NoExecute") in taints else None

    node = eventually("the node counts as unreachable", unreachable, 75)
    assert _ready(node)["reason"] == "NodeStatusUnknown"
    victim = f"{dead.pods}/{dead.pod['metadata']['name']}"
    eventually("its pod is being deleted", lambda: "deletionTimestamp" in api.get(victim)["metadata"])
    (moved,) = eventually("a replacement runs", lambda: [p for p in api.items(dead.pods) if is_running(p)])
    assert moved["spec"]["nodeName"] != dead.node
    assert moved["metadata"]["uid"] != dead.pod["metadata"]["uid"]
    api.patch(where, {"metadata": {"annotations": {"cotenant.io/fail": None}}, "spec": {"unschedulable": None}})
    eventually("the node is ready again", lambda: _ready(api.get(where))["status"] == "True")
    eventually("without taints", lambda: not api.get(where)["spec"].get("taints"))
    eventually("the old pod is gone", lambda: api.exchange("GET", victim)[0] == 404)
    assert is_running(api.get(f"{dead.pods}/{moved['metadata']['name']}"))


def _ready(node: Any) -> Any:
    return next(entry for entry in node["status"]["conditions"] if entry["type"] == "Ready")
