"""A rollout in place of an eviction, written to a server and taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.model.groups.migration import SURGED, MigrationJob, PodRef
from cotenant.services.rebalancer.surging import BEFORE, start_surge, undo_surge

POD = {"containers": [{"name": "c", "image": "image:1"}]}


def reference(obj: dict[str, Any]) -> list[dict[str, Any]]:
    meta = obj["metadata"]
    one = {"apiVersion": "apps/v1", "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"], "controller": True}
    return [one]


def test_a_rollout_is_begun_and_undone(kube: Any, namespace: str, pods: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": POD}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    apps = f"/apis/apps/v1/namespaces/{namespace}"
    deployment = kube.create(f"{apps}/deployments", {"metadata": {"name": "web"}, "spec": spec})
    owned = {"name": "web-abc", "ownerReferences": reference(deployment)}
    replica_set = kube.create(f"{apps}/replicasets", {"metadata": owned, "spec": {**spec, "replicas": 0}})
    meta = {"name": "web-1", "labels": labels, "ownerReferences": reference(replica_set)}
    # no controller of this server, if it has any, takes the pod for one of its set
    meta["ownerReferences"][0]["name"] = "web-abc"
    made = kube.create(pods, {"metadata": meta, "spec": POD})
    job = MigrationJob("job", "job-uid", PodRef(namespace, "web-1", made["metadata"]["uid"]))

    async def both() -> tuple[Any, Any]:
        client = Client(load_access(Path(kube.kubeconfig)), qps=100.0, burst=10, in_flight=2)
        try:
            await start_surge(client, job)
            await start_surge(client, job)
            begun = kube.get(f"{apps}/deployments/web")
            await undo_surge(client, job)
            await undo_surge(client, job)
            return begun, kube.get(f"{apps}/deployments/web")
        finally:
            await client.close()

    begun, undone = asyncio.run(both())
    assert begun["spec"]["template"]["metadata"]["labels"] == {**labels, SURGED: "job-uid"}
    assert begun["metadata"]["annotations"][BEFORE] == ""
    assert begun["metadata"]["generation"] == 2
    assert undone["spec"]["template"]["metadata"]["labels"] == labels
    assert BEFORE not in undone["metadata"].get("annotations", {})
    assert undone["metadata"]["generation"] == 3
