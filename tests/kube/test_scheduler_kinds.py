"""`cotenant scheduler` and its custom kinds on an API server: gangs, quotas, reservations, CPUs and GPUs, requested and
reported through objects.

The cases create their own nodes and select them by label, so they can run in any cluster. No kubelet runs the pods.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.fakes.cluster.cpu_cluster import cpus
from tests.fakes.waiting import patience
from tests.kube.definitions import collection, installed

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.kinds.custom.device import written_devices
from cotenant.drivers.kube.kinds.custom.node_resource_topology import topology_text
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.policy.placement.profiles import profile
from cotenant.services.kube_process.leadership import Alone
from cotenant.services.scheduler.scheduler_process import SchedulerProcess
from cotenant.services.scheduling.options import Options
from cotenant_local.nodes.accelerators import devices_of

pytestmark = pytest.mark.slow  # a scheduler, and definitions

RBAC = Path(__file__).parents[2] / "deploy/scheduler/rbac.yaml"
QUOTA = "quota.scheduling.koordinator.sh/"
KOORDINATOR = "scheduling.koordinator.sh/"
Asked = tuple[str, str, str]  # verb, group, resource with its subresource


def asked_by(method: str, path: str, query: Any) -> Asked:
    """The attributes of a request, as an authorizer sees them."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join((rest[0], *rest[2:3]))
    named = len(rest) > 1
    reading = "get" if named else "watch" if (query or {}).get("watch") == "true" else "list"
    verb = {"GET": reading, "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
    return verb, group, resource


def is_resource(path: str) -> bool:
    """Whether it is one of a resource: everybody may read discovery and OpenAPI."""
    parts = path.strip("/").split("/")
    return parts[0] == "api" or (parts[0] == "apis" and len(parts) > 3)


def granted() -> set[Asked]:
    """The permissions granted by the manifest of the scheduler's roles."""
    return {
        (verb, group, resource)
        for document in yaml.safe_load_all(RBAC.read_text())
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class Scheduler:
    """A scheduler in a thread with its own event loop that records its requests to the server."""

    def __init__(self, kube: Any, workload_kinds: tuple[WorkloadKind, ...] = ()) -> None:
        self._workload_kinds = workload_kinds
        self.name = f"cases-{uuid.uuid4().hex[:8]}"
        self.asked: set[Asked] = set()
        self._kube = kube
        self._loop = asyncio.new_event_loop()
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Scheduler:
        self._thread.start()
        assert self._ready.wait(patience(60)), "the scheduler does not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(patience(30))
        assert self._failure is None

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        options = Options(
            (self.name,),
            listen=Address("127.0.0.1", 0),
            load_aware=LoadAwareSettings(),
            quotas=QuotaSettings(revoke_after_s=1.0, status_every_s=0.2),
            workload_kinds=self._workload_kinds,
        )
        process = SchedulerProcess(
            load_access(self._kube.kubeconfig), profile("cotenant-requests"), options, "cases", lambda client: Alone()
        )
        request, stream = process.client.request, process.client.stream

        def noted(method: str, path: str, *arguments: Any, **more: Any) -> Any:
            if is_resource(path):
                self.asked.add(asked_by(method, path, more.get("query")))
            return request(method, path, *arguments, **more)

        def followed(path: str, query: Any = None, **more: Any) -> Any:
            self.asked.add(asked_by("GET", path, query))
            return stream(path, query, **more)

        process.client.request, process.client.stream = noted, followed  # type: ignore[method-assign, assignment]
        running = asyncio.create_task(process.run(self._stop))
        await process.kube.watches.wait_synced()
        self._ready.set()
        await running


@pytest.fixture(scope="module")
def kinds(kube: Any) -> Iterator[None]:
    with installed(kube):
        yield


@pytest.fixture(scope="module")
def scheduler(kube: Any, kinds: None) -> Iterator[Scheduler]:
    with Scheduler(kube) as running:
        yield running
    assert running.asked - granted() == set()


@pytest.fixture
def here(scheduler: Scheduler, node: str) -> dict[str, Any]:
    """Common fields of a pod spec: this scheduler, this 4-CPU node, and no grace period, since no kubelet runs it."""
    return {
        "schedulerName": scheduler.name,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
    }


def pod(name: str, here: dict[str, Any], cpu: str = "1", **more: Any) -> dict[str, Any]:
    """A pod; `more` has resource amounts, labels and annotations."""
    amounts = more.get("amounts", {})
    resources = {"requests": {"cpu": cpu, "memory": "64Mi", **amounts}, "limits": amounts}
    container = {"name": "c", "image": "registry.example/app:1", "resources": resources}
    metadata = {"name": name, "labels": more.get("labels", {}), "annotations": more.get("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **here}}


def annotation(kube: Any, path: str, name: str) -> Any:
    """A decoded JSON annotation of a bound pod."""
    found = kube.eventually(path, lambda obj: obj["spec"].get("nodeName"))
    return json.loads(found["metadata"]["annotations"][KOORDINATOR + name])


def waits(obj: Any) -> str:
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"), "")


@pytest.mark.parametrize(
    ("plural", "api_group", "label"),
    [
        ("podgroups", "scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io"),
        ("podgroups.scheduling.x-k8s.io", "scheduling.x-k8s.io", "scheduling.x-k8s.io/pod-group"),
    ],
)
def test_a_gang_is_bound_when_all_members_exist(
    kube: Any, pods: str, namespace: str, here: dict[str, Any], plural: str, api_group: str, label: str
) -> None:
    groups = collection(plural, namespace)
    head = {"apiVersion": f"{api_group}/v1alpha1", "kind": "PodGroup"}
    kube.create(groups, {**head, "metadata": {"name": "train"}, "spec": {"minMember": 3}})
    labels = {label: "train"}
    for i in range(2):
        kube.create(pods, pod(f"w{i}", here, labels=labels))
    words = f"gang {namespace}/train has 2 of 3 members; waits for 1 more"
    kube.eventually(f"{pods}/w0", lambda obj: waits(obj) == words)
    kube.eventually(f"{groups}/train", lambda obj: obj.get("status", {}).get("phase") == "Pending")
    kube.create(pods, pod("w2", here, labels=labels))
    for i in range(3):
        kube.eventually(f"{pods}/w{i}", lambda obj: obj["spec"].get("nodeName"))
    counted = (
        {"scheduled": 3} if plural == "podgroups" else {"phase": "Scheduling"}
    )  # the newer group has no such count
    kube.eventually(f"{groups}/train", lambda obj: obj["status"].items() >= counted.items())
    for i in range(3):
        kube.patch(f"{pods}/w{i}/status", {"status": {"phase": "Running"}})
    kube.eventually(f"{groups}/train", lambda obj: (obj["status"]["phase"], obj["status"]["running"]) == ("Running", 3))


def quota(name: str, least: int, labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    notes = {QUOTA + key.replace("_", "-"): text for key, text in annotations.items()}
    meta = {"name": name, "labels": {QUOTA + key: text for key, text in labels.items()}, "annotations": notes}
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
    return {**head, "metadata": meta, "spec": {"min": {"cpu": str(least)}, "max": {"cpu": "4"}}}


def test_borrowed_quota_is_reclaimed(kube: Any, pods: str, namespace: str, here: dict[str, Any]) -> None:
    path = collection("elasticquotas", namespace)
    tree, one, two = (f"{namespace}-{name}" for name in ("tree", "one", "two"))
    root = {"is-parent": "true", "is-root": "true", "tree-id": namespace}
    kube.create(path, quota(tree, 4, root, total_resource='{"cpu":"4"}'))
    for name in (one, two):
        kube.create(path, quota(name, 2, {"parent": tree}))
    bad = quota(f"{namespace}-bad", 9, {"parent": tree})
    kube.create(path, bad)
    for i in range(4):
        kube.create(pods, pod(f"one-{i}", here, labels={QUOTA + "name": one, "of": "one"}))
    kube.eventually(f"{path}/{one}", lambda obj: obj.get("status", {}).get("used") == {"cpu": "4"})
    told = kube.eventually(
        f"{path}/{one}", lambda obj: '"4"' in obj["metadata"]["annotations"].get(QUOTA + "runtime", "")
    )
    assert set(told["metadata"]["annotations"]) >= {QUOTA + "request", QUOTA + "child-request"}
    problem = "cotenant.io/quota-problem"
    kube.eventually(f"{path}/{namespace}-bad", lambda obj: problem in obj["metadata"].get("annotations", {}))
    for i in range(2):
        kube.create(pods, pod(f"two-{i}", here, labels={QUOTA + "name": two, "of": "two"}))
    for i in range(2):
        kube.eventually(f"{pods}/two-{i}", lambda obj: obj.get("spec", {}).get("nodeName"), 40.0)
    assert len(kube.get(pods, labelSelector="of=one")["items"]) == 2
    kube.eventually(f"{path}/{one}", lambda obj: obj["status"]["used"] == {"cpu": "2"})
    events = f"/api/v1/namespaces/{namespace}/events"
    page = kube.eventually(events, lambda page: sum(e["reason"] == "QuotaOverused" for e in page["items"]) == 2)
    # Of the one that went first, which need not be the first in the list, where the other went a round later.
    assert any(f"quota {one} has used 4 cpu" in e["message"] for e in page["items"] if e["reason"] == "QuotaOverused")


def test_a_quota_of_scheduler_plugins_limits_its_namespace(
    kube: Any, pods: str, namespace: str, here: dict[str, Any]
) -> None:
    path = collection("elasticquotas.scheduling.x-k8s.io", namespace)
    head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": "any"}}
    kube.create(path, {**head, "spec": {"min": {"cpu": "2"}, "max": {"cpu": "2"}}})
    kube.eventually(f"{path}/any", lambda obj: obj.get("status", {}).get("used") == {"cpu": "0"})
    for i in range(3):
        kube.create(pods, pod(f"p{i}", here))
    kube.eventually(f"{path}/any", lambda obj: obj["status"]["used"] == {"cpu": "2"})
    kube.eventually(f"{pods}/p2", lambda obj: f"quota {namespace}" in waits(obj))


def test_a_reservation_holds_capacity_for_its_owner(
    kube: Any, pods: str, namespace: str, node: str, here: dict[str, Any]
) -> None:
    path = f"{collection('reservations')}/{namespace}"
    template = pod("t", here, "3")
    made = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": namespace},
        "spec": {
            "template": {"metadata": {"namespace": namespace}, "spec": template["spec"]},
            "owners": [{"labelSelector": {"matchLabels": {"owner": namespace}}}],
        },
    }
    try:
        assert kube.create(collection("reservations"), made)["spec"]["ttl"] == "24h"
        kept = kube.eventually(path, lambda obj: obj.get("status", {}).get("phase") == "Available")["status"]
        assert (kept["nodeName"], kept["allocatable"]["cpu"]) == (node, "3")
        kube.create(pods, pod("stranger", here, "2"))
        kube.eventually(f"{pods}/stranger", lambda obj: "Insufficient cpu" in waits(obj))
        kube.create(pods, pod("owner", here, "3", labels={"owner": namespace}))
        assert annotation(kube, f"{pods}/owner", "reservation-allocated")["name"] == namespace
        done = kube.eventually(path, lambda obj: obj["status"]["phase"] == "Succeeded")["status"]
        assert [(entry["kind"], entry["name"]) for entry in done["currentOwners"]] == [("Pod", "owner")]
        assert done["allocated"]["cpu"] == "3"
        assert {entry["type"]: entry["status"] for entry in done["conditions"]}["Scheduled"] == "True"
    finally:
        kube.request("DELETE", path)


def test_a_reservation_takes_a_running_pod_of_a_full_node(
    kube: Any, pods: str, namespace: str, node: str, here: dict[str, Any]
) -> None:
    path = f"{collection('reservations')}/{namespace}"
    kube.create(pods, pod("runs", here, "3", labels={"owner": namespace}))
    kube.eventually(f"{pods}/runs", lambda obj: obj["spec"].get("nodeName"))
    made = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": namespace},
        "spec": {
            "template": {"metadata": {"namespace": namespace}, "spec": pod("t", here, "4")["spec"]},
            "owners": [{"labelSelector": {"matchLabels": {"owner": namespace}}}],
            "preAllocation": True,
            "preAllocationPolicy": {"mode": "Default", "enableMultiple": True},
            "allocateOnce": False,
        },
    }
    try:
        kube.create(collection("reservations"), made)
        kept = kube.eventually(path, lambda obj: (obj.get("status") or {}).get("currentOwners") and obj)["status"]
        assert (kept["phase"], kept["nodeName"], kept["allocated"]["cpu"]) == ("Available", node, "3")
        assert [entry["name"] for entry in kept["currentOwners"]] == ["runs"]
        assert annotation(kube, f"{pods}/runs", "reservation-allocated")["name"] == namespace
        kube.request("DELETE", f"{pods}/runs")
        kube.eventually(path, lambda obj: not obj["status"].get("currentOwners"))
        kube.create(pods, pod("stranger", here, "1"))
        kube.eventually(f"{pods}/stranger", lambda obj: "Insufficient cpu" in waits(obj))
    finally:
        kube.request("DELETE", path)


def test_a_pod_gets_cpus_published_by_the_node(kube: Any, pods: str, node: str, here: dict[str, Any]) -> None:
    told = collection("noderesourcetopologies")
    kube.create(
        told,
        {
            "apiVersion": "topology.node.k8s.io/v1alpha1",
            "kind": "NodeResourceTopology",
            "metadata": {"name": node, "annotations": {"node.koordinator.sh/cpu-topology": topology_text(cpus())}},
            "topologyPolicies": ["None"],
            "zones": [],
        },
    )
    try:
        kube.create(pods, pod("own", here, "2", labels={"koordinator.sh/qosClass": "LSR"}))
        assert annotation(kube, f"{pods}/own", "resource-status")["cpuset"] in ("0-1", "2-3", "4-5", "6-7")
    finally:
        kube.request("DELETE", f"{told}/{node}")


def test_a_pod_gets_gpu_shares_published_by_the_node(kube: Any, pods: str, node: str, here: dict[str, Any]) -> None:
    body = msgspec.json.decode(msgspec.json.encode(written_devices(devices_of(node, 2))))
    kube.create(collection("devices"), body)
    extended = {"koordinator.sh/gpu-core": "200", "koordinator.sh/gpu-memory-ratio": "200", "koordinator.sh/gpu": "200"}
    kube.patch(f"/api/v1/nodes/{node}/status", {"status": {"capacity": extended, "allocatable": extended}})
    try:
        for i in range(4):
            kube.create(pods, pod(f"half-{i}", here, "100m", amounts={"koordinator.sh/gpu": "50"}))
        given = [annotation(kube, f"{pods}/half-{i}", "device-allocated")["gpu"][0] for i in range(4)]
        assert sorted(entry["minor"] for entry in given) == [0, 0, 1, 1]
        assert {entry["resources"]["koordinator.sh/gpu-core"] for entry in given} == {"50"}
        kube.create(pods, pod("odd", here, "100m", amounts={"koordinator.sh/gpu": "150"}))
        kube.eventually(f"{pods}/odd", lambda obj: "whole devices" in waits(obj))
    finally:
        kube.request("DELETE", f"{collection('devices')}/{node}")
