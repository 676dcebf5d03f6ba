"""A pod with claims starts on a simulated node when its claims are there, allocated and held for it."""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.model.cluster.annotations import FAIL_PREPARE
from cotenant_lab.world.config import WorldConfig
from cotenant_local.controllers.runtime.actions import EmitEvent, Patch
from cotenant_local.controllers.views.claims import ResourceClaimView
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.devices.preparing import Preparations
from cotenant_local.nodes.kubelets import Kubelets
from cotenant_local.nodes.world import LiveWorld

NOW = 1_800_000_000.0
ALLOCATION = {"devices": {"results": []}}


def claim(name: str = "c", **status: Any) -> ResourceClaimView:
    return msgspec.convert({"metadata": {"name": name, "namespace": "default"}, "status": status}, ResourceClaimView)


def holder(uid: str = "u") -> dict[str, str]:
    return {"resource": "pods", "name": "p", "uid": uid}


def pod(status: dict[str, Any] | None = None, **asked: str) -> PodObjectView:
    spec = {"nodeName": "n", "containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu", **asked}]}
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, PodObjectView)


def test_why_a_pod_waits() -> None:
    known = Preparations()
    asks = pod(resourceClaimName="c")
    assert known.problem(asks, {}) == "ResourceClaim c does not exist"
    known.observe(None, claim())
    assert known.problem(asks, {}) == "ResourceClaim c is not allocated"
    known.observe(None, claim(allocation=ALLOCATION, reservedFor=[holder("other")]))
    assert known.problem(asks, {}) == "ResourceClaim c is not reserved for the pod"
    held = claim(allocation=ALLOCATION, reservedFor=[holder()])
    known.observe(None, held)
    assert known.problem(asks, {}) == ""
    assert "broken" in known.problem(asks, {FAIL_PREPARE: "broken"})
    known.observe(held, None)
    assert known.problem(asks, {}) == "ResourceClaim c does not exist"


def test_claims_from_templates_and_for_extended_resources() -> None:
    known = Preparations()
    asks = pod(resourceClaimTemplateName="t")
    assert known.problem(asks, {}) == "the ResourceClaim for gpu has not been made yet"
    named = pod({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]}, resourceClaimTemplateName="t")
    assert known.problem(named, {}) == "ResourceClaim c does not exist"
    extended = msgspec.convert(
        {"metadata": {"namespace": "default"}, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "e"}}},
        PodObjectView,
    )
    assert known.problem(extended, {}) == "ResourceClaim e does not exist"
    unneeded = pod({"resourceClaimStatuses": [{"name": "gpu"}]}, resourceClaimTemplateName="t")
    assert known.problem(unneeded, {}) == ""


def test_a_kubelet_tries_again() -> None:
    kubelets = Kubelets(LiveWorld(WorldConfig(node_cores=4, node_memory_bytes=8 << 30, pair_cores=2.0), 1.0, NOW))
    kubelets.add_node("n")
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "5"}}}
    kubelets.observe_node(msgspec.convert(node, NodeObjectView))
    kubelets.observe_pod(pod(resourceClaimName="c"), NOW)
    kubelets.advance(NOW + 3)
    assert {write.reason for write in kubelets.writes if isinstance(write, EmitEvent)} >= {
        "FailedPrepareDynamicResources"
    }
    assert not any(isinstance(write, Patch) for write in kubelets.writes)
    kubelets.claims.observe(None, claim(allocation=ALLOCATION, reservedFor=[holder()]))
    kubelets.advance(NOW + 6)
    (patch,) = [write for write in kubelets.writes if isinstance(write, Patch)]
    assert patch.body["status"]["phase"] == "Running"
