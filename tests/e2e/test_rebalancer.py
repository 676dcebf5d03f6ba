"""`cotenant up --rebalancer`: pods of an overloaded node move, also where the rebalancer is killed again and again;
nothing is left behind, and the moves are explained.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.running import Client, Up, eventually, run

pytestmark = pytest.mark.slow

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
KOORDINATOR = "/apis/scheduling.koordinator.sh/v1alpha1"
JOBS, RESERVATIONS = f"{KOORDINATOR}/podmigrationjobs", f"{KOORDINATOR}/reservations"
CONFIG = """
kind: DeschedulerConfiguration
deschedulingInterval: 2s
profiles:
- plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - name: LowNodeLoad
    args: {lowThresholds: {cpu: 10}, highThresholds: {cpu: 15}, anomalyCondition: {consecutiveAbnormalities: 1}}
  - name: MigrationController
    args:
      {defaultJobTTL: 60s, maxEvictionsPerMinute: 0, maxUnavailablePerWorkload: 3, maxMigratingPerWorkload: 3,
       objectLimiters: {workload: {duration: 0}}}
"""
REPLICAS = 6


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("moved")
    (folder / "config.yaml").write_text(CONFIG)
    options = ("--nodes", 4, "--ephemeral", "--rebalancer", "--rebalancer-config", folder / "config.yaml")
    with Up(folder / "up", *options) as running:
        running.ready()
        yield running


def _pods(api: Client) -> list[dict[str, Any]]:
    return [pod for pod in api.items(PODS) if not pod["metadata"].get("deletionTimestamp")]


def _is_settled(api: Client) -> bool:
    jobs = api.items(JOBS)
    return bool(jobs) and all(job.get("status", {}).get("phase") in ("Succeeded", "Failed") for job in jobs)


def _standing(api: Client) -> set[tuple[str, str]]:
    """Every move, and the version of what is known about it."""
    return {(job["metadata"]["name"], job["metadata"]["resourceVersion"]) for job in api.items(JOBS)}


def test_pods_move_while_the_rebalancer_is_killed_again_and_again(up: Up, tmp_path: Path) -> None:
    api = Client(up.kubeconfig)
    names = [node["metadata"]["name"] for node in api.items(NODES)]
    for name in names[1:]:
        api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": True}})
    eventually("the scheduler has heard of it", lambda: all(map(up.heard_of_cordon, names[1:])))
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}}
    labels = {"app": "web", "koordinator.sh/qosClass": "LS"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    api.create(SETS, {"metadata": {"name": "web"}, "spec": spec})
    eventually(
        "all are on one node", lambda: [pod["spec"].get("nodeName") for pod in _pods(api)] == [names[0]] * REPLICAS
    )
    for name in names[1:]:
        api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": False}})
    eventually("a move begins", lambda: api.items(JOBS), 90.0)
    rng = random.Random(4)
    for _ in range(3):
        pid = up.children().get("rebalancer")
        if pid:
            os.kill(pid, signal.SIGKILL)
        eventually("it runs again", lambda gone=pid: up.children().get("rebalancer") not in (None, gone), 30.0)  # type: ignore[misc]
        before = _standing(api)
        eventually("it goes on", lambda before=before: _standing(api) != before or _is_settled(api), 90.0)  # type: ignore[misc]
        end_s = time.monotonic() + rng.random()
        eventually("it works for a while", lambda until_s=end_s: time.monotonic() > until_s)  # type: ignore[misc]

    moved = list(eventually("moves end", lambda: _is_settled(api) and api.items(JOBS), 120.0))  # type: ignore[union-attr]
    assert any(job["status"]["phase"] == "Succeeded" for job in moved), moved
    eventually(
        "every replica runs",
        lambda: len(_pods(api)) == REPLICAS and all(pod["status"].get("phase") == "Running" for pod in _pods(api)),
    )
    assert len({pod["spec"]["nodeName"] for pod in _pods(api)}) > 1
    ended = ("Succeeded", "Failed")
    eventually(
        "no reservation is held",
        lambda: (
            _is_settled(api) and all(entry.get("status", {}).get("phase") in ended for entry in api.items(RESERVATIONS))
        ),
        90.0,
    )

    job = next(job for job in api.items(JOBS) if job["status"]["phase"] == "Succeeded")
    name = job["spec"]["podRef"]["name"]
    found = run("explain", "pod", f"default/{name}", "--kubeconfig", up.kubeconfig, "--json")
    assert found.returncode == 0, found.stderr
    # A move that was under way at a kill may have ended without one, and the pod was moved later.
    move = next(move for move in json.loads(found.stdout)["moves"] if move["phase"] == "Succeeded")
    assert (move["pod"], move["node"]) == (f"default/{name}", names[0])
    assert "cpu" in move["why"]

    request = {
        "metadata": {"name": "asked", "annotations": {"cotenant.io/what-if": "required"}},
        "spec": {"podRef": {"namespace": "default", "name": "none"}, "ttl": "60s"},
    }
    api.create(JOBS, {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob", **request})
    eventually(
        "a request without a pod is answered",
        lambda: (
            next(job for job in api.items(JOBS) if job["metadata"]["name"] == "asked").get("status", {}).get("reason")
            == "NoBetterPlace"
        ),
        60.0,
    )
