"""What is read of a cluster for sizes: from a server in pages, or from a copy, with a sentence for what is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cotenant.drivers.kube.kinds.kind import AnyKind
from cotenant.drivers.kube.kinds.node import NODES as NODE_KIND
from cotenant.drivers.kube.kinds.pod.sized import SIZED_PODS
from cotenant.drivers.kube.kinds.workloads import REPLICA_SETS
from cotenant.drivers.kube.snapshot.kinds import key_of
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.sizes.size_facts import SizedCluster, read_sized_cluster, sized_copy

GIB = 1 << 30


def pod(name: str, owner: tuple[str, str] | None = None, cpu: str = "500m") -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"uid-{name}"}
    if owner is not None:
        kind, of = owner
        meta["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
        ]
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": meta, "spec": {"nodeName": "n1", "containers": [container]}, "status": status}


def replica_set(name: str, deployment: str, controls: bool = True) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": "u", "controller": controls}
    return {"metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner]}}


def node(name: str, status: dict[str, Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"name": name, "labels": {"zone": "z"}}}
    return found if status is None else {**found, "status": status}


PODS = [pod("web-1", ("ReplicaSet", "web-abc")), pod("own"), pod("of-set", ("StatefulSet", "db"))]
SETS = [replica_set("web-abc", "web"), replica_set("other", "adopted", controls=False)]
NODES = [
    node("n1", {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3", "memory": "7Gi"}}),
    node("n2", {"allocatable": {"cpu": "1500m", "memory": "1Gi"}}),
    node("n3", None),
]


def copy(**objects: list[Any]) -> SizedCluster:
    kinds: dict[str, AnyKind] = {"pods": SIZED_PODS, "nodes": NODE_KIND, "replicasets": REPLICA_SETS}
    given = {key_of(kinds[name]): [json.dumps(one).encode() for one in lines] for name, lines in objects.items()}
    return sized_copy(ClusterSnapshot(0.0, given, ()))


def whole() -> SizedCluster:
    return copy(pods=PODS, replicasets=SETS, nodes=NODES)


def test_a_pod_belongs_to_the_highest_controller_that_is_known() -> None:
    found = whole()
    workloads = {one.name: found.workload_of(one) for one in found.pods}
    assert workloads == {
        "web-1": "shop/Deployment/web", "own": "shop/Pod/own", "of-set": "shop/StatefulSet/db",
    }  # fmt: skip
    assert found.above == {("shop", "ReplicaSet", "web-abc"): ("Deployment", "web")}


def test_a_node_has_its_capacity_else_what_is_allocatable_else_nothing() -> None:
    found = whole().nodes
    sizes = {name: (one.cpu_m, one.memory_mib) for name, one in found.items()}
    assert sizes == {"n1": (4000, 8192), "n2": (1500, 1024), "n3": (0, 0)}
    assert found["n1"].labels == {"zone": "z"}


def test_a_copy_says_what_it_has_not() -> None:
    (said,) = whole().faults
    assert "no LimitRanges, ResourceQuotas and autoscalers" in said
    assert copy().pods == ()


def test_what_cannot_be_read_is_said_and_left_out() -> None:
    wrong = pod("wrong", cpu="much")
    bad_node = node("bad", {"capacity": {"cpu": "many", "memory": "1Gi"}})
    found = copy(pods=[wrong, *PODS, [], 3], nodes=[bad_node, *NODES, []], replicasets=[*SETS, []])
    assert [one.name for one in found.pods] == ["web-1", "own", "of-set"]
    assert set(found.nodes) == {"n1", "n2", "n3"}
    said = found.faults[1:]
    assert any(line.startswith("pod shop/wrong is left out: ") for line in said)
    assert "2 pods could not be read" in said
    assert "1 nodes could not be read" in said
    assert "1 objects of ReplicaSet could not be read" in said
    assert any("node bad: cpu" in line for line in said)


# ---- a server


@asynccontextmanager
async def server(lists: dict[str, list[Any]], forbidden: set[str], pages: list[str]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        plural = request.path.rpartition("/")[2]
        if plural in forbidden:
            return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden"}, status=403)
        if plural not in lists:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        pages.append(f"{plural} {request.query.get('limit')} {request.query.get('continue', '')}".strip())
        start = int(request.query.get("continue") or 0)
        rest = len(lists[plural]) - start - 2
        meta = {"continue": str(start + 2)} if rest > 0 else {}
        return web.json_response({"metadata": meta, "items": lists[plural][start : start + 2]})

    application = web.Application()
    application.add_routes([web.get("/{path:.*}", answer)])
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def read(folder: Path, lists: dict[str, list[Any]], forbidden: set[str], pages: list[str]) -> SizedCluster:
    async def scenario() -> SizedCluster:
        async with server(lists, forbidden, pages) as url:
            path = kubeconfig(folder, url)
            return await asyncio.to_thread(read_sized_cluster, path, "", 1000.0, 20.0)

    return asyncio.run(scenario())


def kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    cluster = {"clusters": [{"name": "c", "cluster": {"server": url}}], "current-context": "c"}
    users = {"users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}]}
    path.write_text(json.dumps({**cluster, **users}))
    return path


def test_every_page_of_a_server_is_read_and_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    pages: list[str] = []
    lists = {"pods": PODS, "nodes": NODES, "replicasets": SETS, "limitranges": [{"metadata": {"name": "l"}}]}
    found = read(tmp_path, lists, {"resourcequotas"}, pages)
    assert [one.name for one in found.pods] == ["web-1", "own", "of-set"]
    assert set(found.nodes) == {"n1", "n2", "n3"}
    assert found.workload_of(found.pods[0]) == "shop/Deployment/web"
    assert len(found.limit_ranges) == 1
    assert (found.quotas, found.autoscalers) == ((), ())
    assert found.faults == ("resourcequotas may not be read here, so they were not considered",)
    assert [page for page in pages if page.startswith("pods")] == ["pods 500", "pods 500 2"]


def test_without_pods_there_is_nothing_to_say(tmp_path: Path) -> None:
    with pytest.raises(CotenantError):
        read(tmp_path, {"nodes": NODES}, {"pods"}, [])


def test_a_server_that_is_away_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(Transient, match=r"the API server http://127\.0\.0\.1:1 does not answer: ."):
        read_sized_cluster(path, "", 1000.0, 20.0)
