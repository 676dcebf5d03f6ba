"""Pods whose devices get a NoExecute taint, on the server and controllers of a local cluster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fault.local_controllers.test_device_claims import REQUESTS, a_pod
from tests.fault.local_controllers.test_running import Cluster, serve

from cotenant_local.controllers.runtime.actions import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, TAINT_RULES

RESULT = {"request": "r", "driver": "d.example", "pool": "n", "device": "g"}
LONG_AGO, NOW = "2020-01-01T00:00:00Z", "2027-01-15T08:00:00Z"  # the clock of `serve` begins at the latter


def a_taint(effect: str = "NoExecute", added: str = LONG_AGO) -> dict[str, str]:
    return {"key": "broken", "value": "yes", "effect": effect, "timeAdded": added}


async def use(cluster: Cluster, *tolerations: dict[str, Any]) -> None:
    """A pod that holds device g of node n."""
    pod = await cluster.make(PODS, a_pod(resourceClaimName="c"))
    await cluster.make(RESOURCE_CLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "spec": dict(REQUESTS)})
    result = {**RESULT, "tolerations": list(tolerations)}
    held = [{"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": held}
    await cluster.patch(RESOURCE_CLAIMS, "c", {"status": status}, "status")


async def taint_in_slice(cluster: Cluster, taint: dict[str, str], device: str = "g") -> None:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "n", "pool": pool, "devices": [{"name": device, "taints": [taint]}]}
    body = {"metadata": {"name": "s"}, "spec": spec}
    await cluster.api.create(cluster.api.target(*RESOURCE_SLICES), body)


async def is_kept(cluster: Cluster) -> bool:
    await cluster.settle()
    return bool(await cluster.all(PODS))


def test_a_pod_is_deleted_when_its_device_is_tainted() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await use(cluster)
        await taint_in_slice(cluster, a_taint(), device="other")
        assert await is_kept(cluster)
        rule = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"device": "g"}, "taint": a_taint()}}
        await cluster.api.create(cluster.api.target(*TAINT_RULES), rule)
        assert not await is_kept(cluster)

    serve(case)


@pytest.mark.parametrize(
    ("taint", "toleration", "kept"),
    [
        (a_taint("NoSchedule"), None, True),
        (a_taint(), None, False),
        (a_taint(), {"operator": "Exists"}, True),
        (a_taint(), {"key": "broken", "operator": "Equal", "value": "yes", "effect": "NoExecute"}, True),
        (a_taint(), {"key": "broken", "operator": "Equal", "value": "no"}, False),
        (a_taint(), {"key": "slow", "operator": "Exists"}, False),
        (a_taint(), {"operator": "Exists", "effect": "NoSchedule"}, False),
    ],
)
def test_which_taints_end_a_pod(taint: dict[str, str], toleration: dict[str, Any] | None, kept: bool) -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await use(cluster, *([toleration] if toleration else []))
        await taint_in_slice(cluster, taint)
        assert await is_kept(cluster) is kept

    serve(case)


def test_a_toleration_ends() -> None:
    async def case(cluster: Cluster) -> None:
        await cluster.run()
        await use(cluster, {"operator": "Exists", "tolerationSeconds": 5})
        await taint_in_slice(cluster, a_taint(added=NOW))
        assert await is_kept(cluster)
        await cluster.later(6)
        assert not await is_kept(cluster)

    serve(case)
