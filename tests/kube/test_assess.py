"""`cotenant assess dump` against an API server: what it asks for is what its role grants, and nothing is written."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.servers.real_prometheus import filled
from tests.fakes.servers.simulated_exporter import Card, Container, Pod, SimulatedCluster, steady

from cotenant.cli.main import main
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.snapshot.archive import read_archive
from cotenant.drivers.kube.snapshot.kinds import COPIED
from cotenant.drivers.kube.snapshot.snapshot import KindReading
from cotenant.drivers.kube.snapshot.snapshot_reading import read_snapshot

pytestmark = pytest.mark.slow

ROLE = Path(__file__).parents[2] / "deploy" / "assess" / "rbac.yaml"
SECRET = "hunter2-of-a-test"


class Recording(Client):
    """Notes its requests."""

    sent: list[tuple[str, str]]

    async def request(
        self, method: str, path: str, *args: Any, query: Mapping[str, str] | None = None, **more: Any
    ) -> bytes:
        self.sent.append((method, path))
        return await super().request(method, path, *args, query=query, **more)


def granted() -> set[tuple[str, str, str]]:
    """Verb, group and resource of every rule."""
    role = yaml.safe_load(ROLE.read_text())
    assert role["kind"] == "ClusterRole"
    return {
        (verb, group, resource)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_role_grants_what_is_asked_for_and_nothing_else(kube: Any) -> None:
    async def read() -> list[tuple[str, str]]:
        client = Recording(load_access(kube.kubeconfig), qps=1000.0, burst=1, in_flight=1)
        client.sent = []
        async with client:
            await read_snapshot(client, 0.0)
        return client.sent

    sent = asyncio.run(read())
    assert {method for method, _ in sent} == {"GET"}
    by_path = {copied.kind.path(): copied.kind for copied in COPIED.values()}
    asked = {
        ("list", kind.group, kind.plural)
        for path in {path for _, path in sent} - {"/version"}
        for kind in [by_path[path]]
    }
    watched = {("list", "metrics.k8s.io", plural) for plural in ("nodes", "pods")}  # --watch
    assert asked | watched == granted()


def test_a_copy_of_a_server_has_its_objects_and_no_secret(
    kube: Any, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "args": [SECRET],
        "resources": {"requests": {"cpu": "100m"}},
    }
    meta = {"name": "app", "annotations": {"note": SECRET}}
    kube.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": meta, "spec": {"containers": [container]}})
    kube.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "c"}, "data": {"a": SECRET}})
    out = tmp_path / "copy.zip"
    assert main(["assess", "dump", str(out), "--kubeconfig", str(kube.kubeconfig), "--limit-qps", "1000"]) == 0
    snapshot, _ = read_archive(out)
    pods = [line for line in snapshot.objects["v1/pods"] if namespace.encode() in line]
    assert len(pods) == 1
    assert not any(SECRET.encode() in line for lines in snapshot.objects.values() for line in lines)
    assert {kind.reading for kind in snapshot.kinds} <= {KindReading.READ, KindReading.ABSENT}
    assert (
        main(["assess", "dump", str(out), "--anonymise", "--kubeconfig", str(kube.kubeconfig), "--limit-qps", "1000"])
        == 0
    )
    hidden, _ = read_archive(out)
    assert hidden.count("v1/pods") == snapshot.count("v1/pods")
    assert not any(namespace.encode() in line for lines in hidden.objects.values() for line in lines)
    assert "names replaced" in capsys.readouterr().out


def test_a_cluster_and_its_prometheus_end_to_end(
    kube: Any, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = {f"{namespace}-a": "10.9.0.1"}
    hours, pods = 6.0, ("web-7d4b9c6f5d-aaaaa", "web-7d4b9c6f5d-bbbbb")
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    for name in nodes:
        ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": amounts, "allocatable": amounts}
        kube.create("/api/v1/nodes", {"metadata": {"name": name}, "status": ready})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    made = kube.create(
        f"/apis/apps/v1/namespaces/{namespace}/replicasets",
        {
            "metadata": {"name": "web-7d4b9c6f5d", "ownerReferences": [owner]},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        },
    )
    owner = {**owner, "kind": "ReplicaSet", "name": "web-7d4b9c6f5d", "uid": made["metadata"]["uid"]}
    for name in pods:
        container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
        spec = {"nodeName": next(iter(nodes)), "containers": [container]}
        kube.create(
            f"/api/v1/namespaces/{namespace}/pods",
            {"metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]}, "spec": spec},
        )
    cluster = SimulatedCluster(
        (time.time() // 3600 - hours) * 3600,
        hours,
        60.0,
        tuple(Container(name, steady(0.5)) for name in pods),
        tuple(Pod(name, namespace, next(iter(nodes)), cpu_request=2.0) for name in pods),
        nodes=nodes,
        cards=(Card("GPU-1", next(iter(nodes)), steady(25.0)),),
        kepler="0.10",
    )
    page, copy, kept = tmp_path / "page.html", tmp_path / "copy.zip", tmp_path / "kept"
    with filled(cluster, tmp_path) as url:
        options = ["--kubeconfig", str(kube.kubeconfig), "--limit-qps", "1000", "--prometheus", url, "--days", "1"]
        options += ["--prometheus-header", "X-Scope-OrgID: team-1", "--resume", str(kept)]
        assert main(["assess", "dump", str(copy), *options]) == 0
        assert any(kept.iterdir())
        assert main(["assess", *options, "--html", str(page)]) == 0
    live = " ".join(capsys.readouterr().out.split())
    assert "Use by Prometheus (cAdvisor, scraped every 60 s)" in live, live
    assert f"{namespace}/Deployment/web" in live, live
    assert "kWh a day" in live
    assert main(["assess", "report", str(copy), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    figures = {figure["key"]: figure for figure in found["figures"]}
    assert figures["cpu_used_p50_day"]["value"] == pytest.approx(3.0, rel=0.02)  # of the node, as the exporter has it
    assert figures["energy_pods"]["value"] == pytest.approx(2 * 0.5 * 10.0 * hours / 1000, rel=0.03)
    workload = next(one for one in found["workloads"] if one["name"] == f"{namespace}/Deployment/web")
    assert (workload["cpu_p99_m"], workload["idle_cpu_m"]) == (
        pytest.approx(1000.0, rel=0.02),
        pytest.approx(3000.0, rel=0.02),
    )
