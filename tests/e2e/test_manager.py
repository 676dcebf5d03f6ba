"""`cotenant up --manager`: what simulated services leave idle is lent, a batch pod takes it, and `cotenant explain
node` has the sum.
"""

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
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
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
            batch = [pod for pod in pods if BATCH in pod["spec"]["containers"][0]["resources"]["requests"]]
            return [entry["spec"]["nodeName"] for entry in batch if entry["spec"].get("nodeName")]

        eventually("batch pods take what is lent", lent, 60.0)


def _offers(api: Client, node: str) -> int:
    return int(api.get(f"{NODES}/{node}")["status"]["allocatable"].get(BATCH, 0))


def _pod(name: str, resources: dict[str, Any], **labels: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": resources}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def test_what_services_leave_idle_is_lent_used_and_explained(up: Up) -> None:
    api = Client(up.kubeconfig)
    nodes = [entry["metadata"]["name"] for entry in api.items(NODES)]
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
    amounts = {load["resource"]: load for load in json.loads(found.stdout)["amounts"]}
    assert sum(term["amount"] for term in amounts["batch-cpu"]["terms"]) == amounts["batch-cpu"]["written"]

    api.patch(f"{CONFIG}/slo-controller-config", {"data": {"colocation-config": json.dumps({"enable": False})}})
    eventually("nothing is lent any more", lambda: all(_offers(api, node) == 0 for node in nodes))


def test_withdrawing_before_an_uninstallation_leaves_neither_webhooks_nor_amounts(up: Up) -> None:
    """The webhook's process is gone already, and refuses every pod by its absence; the manager still runs."""
    api = Client(up.kubeconfig)
    nodes = [entry["metadata"]["name"] for entry in api.items(NODES)]
    for path, document in (
        ("/api/v1/namespaces", {"metadata": {"name": "koordinator-system"}}),
        (CONFIG, {"metadata": {"name": "slo-controller-config"}}),
    ):
        api.exchange("POST", path, document)  # another case may have made it
    api.patch(f"{CONFIG}/slo-controller-config", {"data": {"colocation-config": json.dumps({"enable": True})}})
    webhook = {
        "name": "pods.cotenant.io",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate-pod"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    }
    api.create(
        f"{WEBHOOKS}/mutatingwebhookconfigurations", {"metadata": {"name": "cotenant-webhook"}, "webhooks": [webhook]}
    )
    eventually("nodes lend", lambda: all(_offers(api, node) > 0 for node in nodes), 60.0)
    late = _pod("late", {"requests": {"cpu": "1"}})
    eventually("pods are refused", lambda: api.exchange("POST", f"{PODS}?dryRun=All", late)[0] >= 400)

    done = run("withdraw", "--kubeconfig", up.kubeconfig)
    assert done.returncode == 0, done.stderr
    assert (
        '"enable": true'
        in json.loads(done.stdout.partition("wanted again: ")[2].partition("\n")[0])["data"]["colocation-config"]
    )
    assert "deleted MutatingWebhookConfiguration cotenant-webhook" in done.stdout
    assert "there is no ValidatingWebhookConfiguration" in done.stdout
    assert all(_offers(api, node) == 0 for node in nodes)
    eventually("pods are created", lambda: api.exchange("POST", f"{PODS}?dryRun=All", late)[0] == 201)
    assert api.exchange("GET", f"{CONFIG}/slo-controller-config")[0] == 404
    again = run("withdraw", "--kubeconfig", up.kubeconfig)
    assert again.returncode == 0, again.stderr


def test_gpus_and_numa_zones_have_totals_and_terms(tmp_path: Path) -> None:
    options = (
        "--nodes",
        1,
        "--ephemeral",
        "--manager",
        "--lend",
        "usage",
        "--gpus-per-node",
        2,
        "--cpu-topology",
        "2x8x2",
    )
    with Up(tmp_path / "up", *options) as running:
        running.ready()
        api = Client(running.kubeconfig)
        node = api.items(NODES)[0]["metadata"]["name"]
        device = f"/apis/scheduling.koordinator.sh/v1alpha1/devices/{node}"

        def gpus() -> dict[str, Any]:
            found: dict[str, Any] = api.get(f"{NODES}/{node}")["status"]["allocatable"]
            return {name: amount for name, amount in found.items() if name.startswith("koordinator.sh/")}

        wanted = {"gpu": "200", "gpu-core": "200", "gpu-memory": "160Gi", "gpu-memory-ratio": "200"}
        eventually("GPU totals", lambda: gpus() == {f"koordinator.sh/{name}": text for name, text in wanted.items()})

        def zones() -> list[int]:
            found = api.get(f"/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies/{node}")["zones"]
            amounts = [{entry["name"]: entry["available"] for entry in zone["resources"]} for zone in found]
            assert all(amount["cpu"] == "16" for amount in amounts)  # what the agent reported stays
            return [int(amount[BATCH]) for amount in amounts if BATCH in amount]

        eventually("both zones lend", lambda: len(zones()) == 2 and sum(zones()) == _offers(api, node), 60.0)
        found = run("explain", "node", node, "--kubeconfig", running.kubeconfig)
        assert found.returncode == 0, found.stderr
        assert "2 GPUs of 100" in found.stdout
        assert "in NUMA zone node-1" in found.stdout

        devices = api.get(device)["spec"]["devices"]
        changed = [{**entry, "health": entry["minor"] != 0} for entry in devices]
        api.patch(device, {"spec": {"devices": changed}})
        eventually("a failed GPU leaves the totals", lambda: gpus().get("koordinator.sh/gpu-core") == "100")
