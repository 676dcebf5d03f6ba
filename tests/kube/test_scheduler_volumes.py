"""`cotenant scheduler` on the local API server: zones of volumes and the limits of CSINode objects, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kube.test_scheduler import Cluster, run

pytestmark = pytest.mark.slow  # a server and a scheduler each

ZONE = "topology.kubernetes.io/zone"


async def bound_claim(cluster: Cluster, name: str, **labels: str) -> dict[str, Any]:
    """A claim that is bound to a CSI volume with these labels, and the volume of a pod that uses it."""
    modes, storage = ["ReadWriteOnce"], {"storage": "1Gi"}
    client = cluster.client
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": modes, "resources": {"requests": storage}, "volumeName": name, "storageClassName": ""},
    }
    await client.request("POST", "/api/v1/namespaces/default/persistentvolumeclaims", claim)
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "capacity": storage,
            "accessModes": modes,
            "csi": {"driver": "csi.example", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": name},
        },
    }
    await client.request("POST", "/api/v1/persistentvolumes", volume)
    await client.request(
        "PATCH",
        f"/api/v1/namespaces/default/persistentvolumeclaims/{name}/status",
        {"status": {"phase": "Bound"}},
        content_type="application/merge-patch+json",
    )
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def test_a_pod_goes_to_the_zone_of_its_volume() -> None:
    async def scenario(cluster: Cluster) -> None:
        for name in ("a", "b"):
            await cluster.node(name, **{ZONE: name})
        for zone in ("a", "b", "a__b"):
            name = f"in-{zone.replace('__', '-or-')}"
            await cluster.pod(name, volumes=[await bound_claim(cluster, name, **{ZONE: zone})])
        assert await cluster.placed("in-a") == "a"
        assert await cluster.placed("in-b") == "b"
        assert await cluster.placed("in-a-or-b") in ("a", "b")
        await cluster.pod("in-c", volumes=[await bound_claim(cluster, "in-c", **{ZONE: "c"})])
        assert "2 node(s) had no available volume zone" in await cluster.refused("in-c")

    run(scenario)


def test_a_node_attaches_no_more_volumes_than_its_csi_node_allows() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.node("n")
        driver = {"name": "csi.example", "nodeID": "n", "allocatable": {"count": 1}}
        csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"}}
        await cluster.client.request(
            "POST", "/apis/storage.k8s.io/v1/csinodes", csi_node | {"spec": {"drivers": [driver]}}
        )
        for name in ("first", "second"):
            await cluster.pod(name, volumes=[await bound_claim(cluster, name)])
            if name == "first":
                await cluster.placed("first")
        assert "1 node(s) exceed max volume count" in await cluster.refused("second")
        await cluster.client.request("DELETE", "/api/v1/namespaces/default/pods/first?gracePeriodSeconds=0")
        assert await cluster.placed("second") == "n"

    run(scenario)
