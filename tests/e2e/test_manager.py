"""`cotenant up --manager`: what simulated services leave idle is lent, a batch pod takes it, and `cotenant explain node` has the sum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.running import Client, Up, eventually, run

pytestmark = pytest.mark.slow

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CONFIG = "/api/v1/namespaces/koordinator-system/configmaps"
BATCH = "kubernetes.io/batch-cpu"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("managed") / "up", "--nodes", 2, "--ephemeral", "--manager") as running:
        running.ready()
        yield running


def test_a_workload_is_lent_from_the_start(tmp_path: Path) -> None:
    options = ("--nodes", 5, "--ephemeral", "--manager", "--lend", "peak", "--workload", "founding", "--speed", 600)
    with Up(tmp_path / "up", *options) as running:
        running.ready()
        api = Client(running.kubeconfig)

        def lent() -> list[str]:
            pods = api.items("/api/v1/namespaces/founding/pods")
            batch = [each for each in pods if BATCH in each["spec"]["containers"][0]["resources"]["requests"]]
            return [each["spec"]["nodeName"] for each in batch if each["spec"].get("nodeName")]

        eventually("batch pods take what is lent", lent, 60.0)


def _offers(api: Client, node: str) -> int:
    return int(api.get(f"{NODES}/{node}")["status"]["allocatable"].get(BATCH, 0))


def _pod(name: str, resources: dict[str, Any], **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def test_what_services_leave_idle_is_lent_used_and_explained(up: Up) -> None:
    api = Client(up.kubeconfig)
    nodes = [each["metadata"]["name"] for each in api.items(NODES)]
    service = {"requests": {"cpu": "8", "memory": "1Gi"}}
    api.create(PODS, _pod("service", service, **{"koordinator.sh/qosClass": "LS"}))
    assert all(_offers(api, node) == 0 for node in nodes)
    api.create("/api/v1/namespaces", {"metadata": {"name": "koordinator-system"}})
    data = {"colocation-config": json.dumps({"enable": True})}
    api.create(CONFIG, {"metadata": {"name": "slo-controller-config"}, "data": data})
    eventually("both nodes lend", lambda: all(_offers(api, node) > 10_000 for node in nodes), 60.0)

    amount = {BATCH: "5000", "kubernetes.io/batch-memory": "1Gi"}
    labels = {"koordinator.sh/qosClass": "BE", "koordinator.sh/priority-class": "koord-batch"}
    api.create(PODS, _pod("batch", {"requests": amount, "limits": amount}, **labels))
    eventually("a batch pod takes it", lambda: api.get(f"{PODS}/batch")["spec"].get("nodeName"))

    found = run("explain", "node", nodes[0], "--kubeconfig", up.kubeconfig, "--json")
    assert found.returncode == 0, found.stderr
    amounts = {each["resource"]: each for each in json.loads(found.stdout)["amounts"]}
    assert sum(term["amount"] for term in amounts["batch-cpu"]["terms"]) == amounts["batch-cpu"]["written"]

    api.patch(f"{CONFIG}/slo-controller-config", {"data": {"colocation-config": json.dumps({"enable": False})}})
    eventually("nothing is lent any more", lambda: all(_offers(api, node) == 0 for node in nodes))
