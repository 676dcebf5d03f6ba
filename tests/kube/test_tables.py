"""Tables, as printed by `kubectl get`."""

from __future__ import annotations

from typing import Any

import pytest

_ACCEPT = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}

# The column headers of every kind as in Kubernetes, wide ones in brackets.
_HEADS = {
    "/api/v1/pods": "Name,Ready,Status,Restarts,Age,[IP],[Node],[Nominated Node],[Readiness Gates]",
    "/api/v1/nodes": "Name,Status,Roles,Age,Version,[Internal-IP],[External-IP],[OS-Image],"
    "[Kernel-Version],[Container-Runtime]",
    "/api/v1/services": "Name,Type,Cluster-IP,External-IP,Port(s),Age,[Selector]",
    "/api/v1/events": "Last Seen,Type,Reason,Object,[Subobject],[Source],Message,[First Seen],[Count],[Name]",
    "/api/v1/namespaces": "Name,Status,Age",
    "/api/v1/configmaps": "Name,Data,Age",
    "/api/v1/secrets": "Name,Type,Data,Age",
    "/api/v1/endpoints": "Name,Endpoints,Age",
    "/api/v1/persistentvolumes": "Name,Capacity,Access Modes,Reclaim "
    "Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,[VolumeMode]",
    "/api/v1/persistentvolumeclaims": "Name,Status,Volume,Capacity,Access "
    "Modes,StorageClass,VolumeAttributesClass,Age,[VolumeMode]",
    "/apis/apps/v1/deployments": "Name,Ready,Up-to-date,Available,Age,[Containers],[Images],[Selector]",
    "/apis/apps/v1/replicasets": "Name,Desired,Current,Ready,Age,[Containers],[Images],[Selector]",
    "/apis/apps/v1/statefulsets": "Name,Ready,Age,[Containers],[Images]",
    "/apis/apps/v1/daemonsets": "Name,Desired,Current,Ready,Up-to-date,Available,Node "
    "Selector,Age,[Containers],[Images],[Selector]",
    "/apis/apps/v1/controllerrevisions": "Name,Controller,Revision,Age",
    "/apis/batch/v1/jobs": "Name,Status,Completions,Duration,Age,[Containers],[Images],[Selector]",
    "/apis/policy/v1/poddisruptionbudgets": "Name,Min Available,Max Unavailable,Allowed Disruptions,Age",
    "/apis/coordination.k8s.io/v1/leases": "Name,Holder,Age",
    "/apis/scheduling.k8s.io/v1/priorityclasses": "Name,Value,Global-Default,Age,PreemptionPolicy",
    "/apis/storage.k8s.io/v1/storageclasses": "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,"
    "AllowVolumeExpansion,Age",
    "/apis/storage.k8s.io/v1/csinodes": "Name,Drivers,Age",
    "/apis/storage.k8s.io/v1/volumeattachments": "Name,Attacher,PV,Node,Attached,Age",
    "/apis/discovery.k8s.io/v1/endpointslices": "Name,AddressType,Ports,Endpoints,Age",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": "Name,Created At",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": "Name,Webhooks,Age",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": "Name,Webhooks,Age",
    "/apis/events.k8s.io/v1/events": "Last Seen,Type,Reason,Object,[Subobject],[Source],Message,[First "
    "Seen],[Count],[Name]",
}


@pytest.mark.slow
def test_columns_of_every_kind(kube: Any) -> None:
    found = {}
    for path in _HEADS:
        table = kube.ok("GET", path, headers=_ACCEPT, limit="1")
        assert table["kind"] == "Table"
        heads = [f"[{one['name']}]" if one["priority"] else one["name"] for one in table["columnDefinitions"]]
        found[path] = ",".join(heads)
    assert found == _HEADS


def cells(kube: Any, path: str) -> list[Any]:
    table = kube.ok("GET", path, headers=_ACCEPT)
    (row,) = table["rows"]
    found: list[Any] = row["cells"]
    return found


def test_row_of_a_pod(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod())
    row = cells(kube, f"{pods}/p")
    assert row[:4] == ["p", "0/1", "Pending", "0"]
    assert row[5:] == ["<none>", "<none>", "<none>", "<none>"]
    state = {
        "name": "c",
        "ready": False,
        "restartCount": 3,
        "image": "i",
        "imageID": "",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    kube.patch(
        f"{pods}/p/status",
        {
            "status": {
                "phase": "Running",
                "podIP": "10.1.2.3",
                "podIPs": [{"ip": "10.1.2.3"}],
                "containerStatuses": [state],
            }
        },
    )
    row = cells(kube, f"{pods}/p")
    assert row[:4] == ["p", "0/1", "CrashLoopBackOff", "3"]
    assert row[5] == "10.1.2.3"


def test_row_of_a_gated_pod(kube: Any, pods: str, make_pod: Any) -> None:
    kube.create(pods, make_pod(schedulingGates=[{"name": "example.com/wait"}]))
    assert cells(kube, f"{pods}/p")[2] == "SchedulingGated"


def test_row_of_a_node(kube: Any, node: str) -> None:
    kube.patch(
        f"/api/v1/nodes/{node}",
        {"spec": {"unschedulable": True}, "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}},
    )
    assert cells(kube, f"/api/v1/nodes/{node}")[:3] == [node, "Ready,SchedulingDisabled", "worker"]


def test_rows_include_objects_as_requested(kube: Any, configs: str) -> None:
    kube.create(configs, {"metadata": {"name": "c"}, "data": {"a": "b"}})
    path = f"{configs}/c"
    metadata = kube.ok("GET", path, headers=_ACCEPT)["rows"][0]["object"]
    assert (metadata["kind"], metadata["metadata"]["name"]) == ("PartialObjectMetadata", "c")
    whole = kube.ok("GET", path, headers=_ACCEPT, includeObject="Object")["rows"][0]["object"]
    assert whole["data"] == {"a": "b"}
    assert not kube.ok("GET", path, headers=_ACCEPT, includeObject="None")["rows"][0].get("object")
