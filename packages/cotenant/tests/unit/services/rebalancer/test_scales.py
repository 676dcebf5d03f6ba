"""The replicas of custom workloads: read by the scale subresource, once a minute, and unknown where it is missing."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.engine.cluster import Cluster
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.cluster.eviction import EvictionNotes
from cotenant.model.cluster.observed import ObservedPod, OwnedBy
from cotenant.model.cluster.pod import Pod
from cotenant.policy.placement.profiles import profile
from cotenant.services.rebalancer.scales import Scales

KRUISE = "apps.kruise.io/v1alpha1"
PAGES = {
    f"/apis/{KRUISE}": b'{"resources": [{"name": "clonesets", "kind": "CloneSet"}, {"name": "clonesets/scale", '
    b'"kind": "Scale"}, {"name": "lists", "kind": "List"}]}',
    f"/apis/{KRUISE}/namespaces/default/clonesets/web/scale": b'{"spec": {"replicas": 5}}',
}


class Pages(Client):
    """Answers from `PAGES`."""

    def __init__(self) -> None:
        super().__init__(Access("http://127.0.0.1:1", FixedCredential(Credential(""))), qps=10.0, burst=1, in_flight=1)
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *args: Any, **more: Any) -> bytes:
        self.asked.append(path)
        if path not in PAGES:
            raise NotFound(path)
        return PAGES[path]


def test_scales_are_read_once_a_minute_and_only_where_no_watch_has_them() -> None:
    cluster = Cluster(profile("kube-default"), np.random.default_rng(0))
    owners = [
        (KRUISE, "CloneSet", "web"),
        (KRUISE, "List", "l"),
        ("apps/v1", "ReplicaSet", "rs"),
        ("x.io/v1", "Odd", "o"),
    ]
    for version, kind, name in owners:
        owned = (OwnedBy(version, kind, name, f"uid-{name}", True),)
        cluster.pod_seen(ObservedPod(Pod(f"p-{name}"), f"u-{name}", "cotenant", 0.0, owned_by=owned), 0.0)
    planner = Planner(cluster, RebalancerSettings(()), lambda key: EvictionNotes())
    client, now_s = Pages(), [0.0]

    async def scenario() -> None:
        scales = Scales(client, lambda: now_s[0])
        await scales.read(cluster, planner)
        assert dict(planner.replicas) == {"uid-web": 5}
        assert not any("replicasets" in path for path in client.asked)
        client.asked.clear()
        now_s[0] = 30.0
        await scales.read(cluster, planner)
        assert client.asked == []
        now_s[0] = 61.0
        await scales.read(cluster, planner)
        assert client.asked == [f"/apis/{KRUISE}/namespaces/default/clonesets/web/scale"]
        await client.close()

    asyncio.run(scenario())
