"""The kinds of `cotenant crds` on an API server: definitions accepted, no field pruned, statuses written by their
writers.

No scheduler may run there, since it would update the status of these objects.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import yaml
from tests.kube.definitions import CRDS, PLURALS, collection, installed

from cotenant.cli.cluster.crds import crds
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict
from cotenant.drivers.kube.kinds.custom.definitions import manifests
from cotenant.drivers.kube.kinds.custom.device import DEVICES, DeviceObject, read_devices
from cotenant.drivers.kube.kinds.custom.pod_group import write_pod_group
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus
from cotenant.engine.workloads.profiles import WorkloadProfileStatus
from cotenant.model.cluster.workload_profile import NO_OVERALL
from cotenant.model.groups.gang import GangPhase, PodGroupStatus
from cotenant.model.groups.reservation import CurrentOwner, ReservationCondition, ReservationPhase
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.resources import Amounts
from cotenant.policy.interference.axes import AxisMoments
from cotenant.services.agent.reports.devices import DeviceWriter
from cotenant.services.scheduler.actions.object_status import write_profile_status
from cotenant.services.scheduler.actions.quota_status import write_quota_status
from cotenant.services.scheduler.actions.reservations import delete, write_status

pytestmark = pytest.mark.slow  # definitions take a moment to be served


@pytest.fixture(scope="module")
def kinds(kube: Any) -> Iterator[None]:
    with installed(kube):
        yield


@pytest.fixture
def name(kube: Any, kinds: None) -> Iterator[str]:
    """A name for this case; objects of these kinds with the name are deleted at the end."""
    found = f"case-{uuid.uuid4().hex[:8]}"
    yield found
    for plural in PLURALS:
        kube.request("DELETE", f"{collection(plural, 'default')}/{found}")


def with_client(kube: Any, scenario: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(load_access(kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            await scenario(client)

    asyncio.run(run())


def test_groups_of_custom_kinds_come_by_version_and_name_after_the_built_in_ones(kube: Any, kinds: None) -> None:
    """So `kubectl get podgroups` means scheduling.sigs.k8s.io, not scheduling.x-k8s.io, which has the kind too."""
    names = [group["name"] for group in kube.get("/apis")["groups"]]
    assert names.index("storage.k8s.io") < names.index("scheduling.sigs.k8s.io") < names.index("scheduling.x-k8s.io")


TEMPLATE = {
    "metadata": {"namespace": "default", "labels": {"app": "w"}, "annotations": {"a": "b"}},
    "spec": {
        "priority": 5000,
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": 2, "memory": "1Gi"}}}],
    },
}
AMOUNTS = {"cpu": "2", "memory": "1Gi", "kubernetes.io/batch-cpu": 500}
USE = {"resources": AMOUNTS}
AGGREGATED = [{"duration": "5m0s", "usage": {"avg": USE, "p99": USE}}]
LISTED = {"priority": "koord-prod", "qos": "LS"}
LAYERS = [
    {"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]
OBJECTIVE = {
    "service": {"namespace": "shop", "name": "cart", "operation": "GET /cart"},
    "indicator": {"latency": {"below": "200ms"}},
    "target": "99.9",
    "window": "28d",
    "alerting": {"severities": {"fast": "critical", "slow": "warning"}, "minEvents": 50, "disabled": False},
    "protect": {"guard": True, "maxAction": "cap"},
}
SPECS: dict[str, dict[str, Any]] = {
    "controlzones": {
        "nodes": ["n1"],
        "applications": [{"namespace": "shop", "labels": {"app": "web"}}],
        "rules": [{"labels": {"tier": "front"}, "kind": "service", "lateMs": 2.5, "sliceUs": 4000, "weight": 300}],
        "groups": [{"group": "kubepods", "kind": "batch", "lateMs": 0, "sliceUs": 0, "weight": 0}],
        "backend": "auto",
        "start": "latency",
        "modes": ["latency", "weighted"],
        "periodMs": 500,
        "policy": {"latePerS": 2.5, "burn": 1, "calmS": 30, "batchCpus": 0.2, "heaviest": 1600},
        "limits": {"canaryS": 5, "dwellS": 15.5, "banS": 300},
    },
    "serviceobjectives": OBJECTIVE,
    "workloadprofiles": {
        "workload": {"kind": "Deployment", "name": "cart"},
        "declared": {
            "overall": {"sensitivity": 800, "pressure": 100, "tolerates": 400},
            "axes": {"cpu": {"tendency": 300, "sensitivity": 700}},
        },
    },
    "autonomies": {
        "namespaces": ["shop"],
        "actions": ["sizes", "lending", "moves"],
        "ceiling": "approve",
        "windows": [{"days": ["mon", "fri"], "from": "22:00", "to": "6:00", "timeZone": "Europe/Berlin"}],
        "blackouts": [{"from": "2026-12-24", "to": "2026-12-27", "why": "holidays"}],
        "freeze": {"why": "w", "by": "ada"},
    },
    "poollendings": {"approved": "0a1b2c3d-0", "approvedBy": "ada", "undo": "2026-11-29"},
    "rightsizings": {
        "workload": {"kind": "Deployment", "name": "cart"},
        "mode": "approve",
        "objective": "cart",
        "riskPercent": 0.5,
        "minHistory": "7d",
        "proof": "10m",
        "patience": "10m",
        "approved": "abcdef12",
        "approvedBy": "ada",
        "undo": "12abcdef",
    },
    "clustercolocationprofiles": {
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "selector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
        "probability": "50%",
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "koordinatorPriority": 1000,
        "labels": {"a": "b"},
        "annotations": {"a": "b"},
        "labelKeysMapping": {"a": "c"},
        "annotationKeysMapping": {"a": "c"},
        "labelSuffixes": {"a": "-x"},
        "schedulerName": "cotenant",
        "patch": {"spec": {"terminationGracePeriodSeconds": 30}},
    },
    "clusternetworktopologies": {"networkTopologySpec": LAYERS},
    "devices": {
        "devices": [
            {
                "type": "gpu",
                "id": "GPU-1",
                "minor": 0,
                "moduleID": 1,
                "health": True,
                "labels": {"a": "b"},
                "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"},
                "topology": {"socketID": -1, "nodeID": 1, "pcieID": "pci0000:16", "busID": "0000:17:00.0"},
                "vfGroups": [{"labels": {"a": "b"}, "vfs": [{"minor": 1, "busID": "0000:17:00.1"}]}],
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        ]
    },
    "elasticquotaprofiles": {
        "quotaName": "pool-a",
        "quotaLabels": {"quota.scheduling.koordinator.sh/is-parent": "true"},
        "resourceRatio": "0.9",
        "nodeSelector": {
            "matchLabels": {"pool": "a"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
        },
    },
    "elasticquotas": {"min": AMOUNTS, "max": AMOUNTS},
    "nodemetrics": {
        "metricCollectPolicy": {
            "aggregateDurationSeconds": 300,
            "reportIntervalSeconds": 60,
            "nodeAggregatePolicy": {"durations": ["5m0s"]},
        }
    },
    "nodeslos": {
        "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 65},
        "cpuBurstStrategy": {"policy": "auto", "cpuBurstPercent": 1000},
    },
    "podmigrationjobs": {
        "paused": True,
        "ttl": "5m0s",
        "mode": "ReservationFirst",
        "podRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"},
        "reservationOptions": {"reservationRef": {"name": "r"}, "template": TEMPLATE},
        "deleteOptions": {"gracePeriodSeconds": 5, "preconditions": {"uid": "u"}},
    },
    "podgroups": {"minMember": 3, "minResources": AMOUNTS, "scheduleTimeoutSeconds": 10},
    "podgroups.scheduling.x-k8s.io": {"minMember": 3, "minResources": AMOUNTS, "scheduleTimeoutSeconds": 10},
    "elasticquotas.scheduling.x-k8s.io": {"min": AMOUNTS, "max": AMOUNTS},
    "reservations": {
        "template": TEMPLATE,
        "owners": [
            {"object": {"kind": "Pod", "apiVersion": "v1", "namespace": "default", "name": "p", "uid": "u"}},
            {"controller": {"kind": "Job", "apiVersion": "batch/v1", "name": "j", "uid": "u", "controller": True}},
            {
                "labelSelector": {
                    "matchLabels": {"app": "w"},
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
                }
            },
        ],
        "ttl": "1h",
        "expires": "2126-01-01T00:00:00Z",
        "preAllocation": False,
        "allocateOnce": False,
        "allocatePolicy": "Restricted",
        "unschedulable": True,
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
    },
}
FIGURE = {"value": 812, "low": 640, "high": 980, "samples": 420, "source": "learned"}
AXIS = {"name": "cache", "tendency": FIGURE, "sensitivity": {"cannotTell": "no node has a PMU"}}
SIZE = {"cpuRequestM": 1000, "memoryRequestBytes": 1 << 30}
STATUSES: dict[str, dict[str, Any]] = {
    "controlzones": {
        "nodes": {
            "n1": {
                "observedGeneration": 1,
                "state": "active",
                "setting": "weights",
                "groups": 2,
                "lastChange": "setting weights: started",
                "message": "m",
            }
        }
    },
    "workloadprofiles": {
        "observedGeneration": 1,
        "updatedAt": "2026-01-01T00:00:00Z",
        "pods": 3,
        "message": "m",
        "overall": {"sensitivity": FIGURE, "pressure": FIGURE, "tolerates": FIGURE},
        "axes": [AXIS],
        "measured": {"at": "2026-01-01T00:00:00Z", "node": "n", "signal": "latency", "axes": [AXIS]},
    },
    "poollendings": {
        "state": "lent",
        "message": "m",
        "mode": "earned",
        "rung": "approve",
        "suggestion": {"id": "0a1b2c3d-0", "rules": "r", "nodes": 2, "cpuM": 4000, "memoryMib": 1024},
        "receipts": [{"id": "2026-11-28", "outcome": "held", "day": {"day": 20785, "hours": 48}, "why": "w"}],
        "open": [{"day": 20786, "hours": 3}],
        "term": 1,
    },
    "rightsizings": {
        "state": "done",
        "message": "m",
        "observedGeneration": 2,
        "applied": {"id": "a", "before": SIZE, "after": SIZE, "why": ["w"]},
        "receipts": [{"id": "a", "outcome": "done", "before": SIZE, "after": SIZE, "pods": 3}],
        "history": {"firstHour": 1, "cpuM": [1, -1], "memoryMib": [1, -1], "sinceS": 1.5},
    },
    "serviceobjectives": {
        "observedGeneration": 1,
        "state": "burning",
        "ratio": "0.99",
        "budgetLeft": "-1.5",
        "requests": 1000,
        "bad": 10,
        "since": "2026-01-01T00:00:00Z",
        "burn": {"1h": "20"},
        "alerts": [{"severity": "critical", "window": "1h", "shortWindow": "5m", "factor": "13.44"}],
        "worstReplica": {"pod": "shop/cart-1", "node": "n", "burn": "30", "p99Ms": "312.5"},
        "lastAction": {"time": "2026-01-01T00:00:00Z", "node": "n", "pod": "shop/cart-1", "action": "cap", "text": "t"},
        "conditions": [{"type": "Valid", "status": "True", "reason": "Valid", "message": ""}],
    },
    "elasticquotas": {"used": AMOUNTS},
    "nodemetrics": {
        "updateTime": "2026-01-01T00:00:00Z",
        "nodeMetric": {
            "nodeUsage": USE,
            "systemUsage": USE,
            "aggregatedNodeUsages": AGGREGATED,
            "aggregatedSystemUsages": AGGREGATED,
        },
        "podsMetric": [{"namespace": "n", "name": "p", "podUsage": USE, **LISTED}],
        "hostApplicationMetric": [{"name": "n/p", "usage": USE, **LISTED}],
    },
    "podmigrationjobs": {
        "phase": "Running",
        "status": "ReservationCreated",
        "reason": "r",
        "message": "m",
        "nodeName": "n",
        "podRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"},
        "preemptedPodRef": {"namespace": "n", "name": "q"},
        "conditions": [
            {
                "type": "ReservationCreated",
                "status": "True",
                "reason": "r",
                "message": "m",
                "lastProbeTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    },
    "podgroups": {"phase": "Running", "scheduled": 3, "running": 1, "succeeded": 1, "failed": 1, "occupiedBy": "j"},
    "podgroups.scheduling.x-k8s.io": {"phase": "Running", "running": 1, "succeeded": 1, "failed": 1, "occupiedBy": "j"},
    "elasticquotas.scheduling.x-k8s.io": {"used": AMOUNTS},
    "reservations": {
        "phase": "Available",
        "nodeName": "n",
        "allocatable": AMOUNTS,
        "allocated": AMOUNTS,
        "currentOwners": [{"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"}],
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Available",
                "message": "m",
                "lastProbeTime": "2026-01-01T00:00:00Z",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    },
}
ZONES = [
    {
        "name": "node-0",
        "type": "Node",
        "parent": "p",
        "costs": [{"name": "node-0", "value": 10}],
        "attributes": [{"name": "a", "value": "b"}],
        "resources": [{"name": "cpu", "capacity": "4", "allocatable": 4, "available": "3500m"}],
    }
]


def definition(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(dict(manifests())[plural])
    return found


def made(plural: str, name: str) -> dict[str, Any]:
    """An object without its status."""
    spec = definition(plural)["spec"]
    head = {
        "apiVersion": f"{spec['group']}/{spec['versions'][0]['name']}",
        "kind": spec["names"]["kind"],
        "metadata": {"name": name, "annotations": {"cotenant.io/note": "n"}},
    }
    if plural == "noderesourcetopologies":
        return {**head, "topologyPolicies": ["None"], "zones": ZONES}
    return {**head, "spec": SPECS[plural]}


@pytest.mark.parametrize("plural", PLURALS)
def test_a_definition_is_accepted_without_warnings(kube: Any, kinds: None, plural: str) -> None:
    found = kube.get(f"{CRDS}/{definition(plural)['metadata']['name']}")
    conditions = {entry["type"]: entry for entry in found["status"]["conditions"]}
    assert {kind: conditions[kind]["status"] for kind in ("NamesAccepted", "Established")} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert "NonStructuralSchema" not in conditions
    assert conditions.get("KubernetesAPIApprovalPolicyConformant", {"status": "True"})["status"] == "True"


@pytest.mark.parametrize("plural", PLURALS)
def test_no_field_is_pruned(kube: Any, name: str, plural: str) -> None:
    path = collection(plural, "default")
    wanted = made(plural, name)
    answer = kube.create(path, wanted, fieldValidation="Strict")
    for part in ("spec", "zones", "topologyPolicies"):
        assert answer.get(part) == wanted.get(part)
    assert "status" not in answer
    if (status := STATUSES.get(plural)) is not None:
        kube.patch(f"{path}/{name}/status", {"status": status}, fieldValidation="Strict")
        assert kube.get(f"{path}/{name}")["status"] == status
        kube.patch(f"{path}/{name}", {"status": {"phase": "Other"}, "metadata": {"annotations": {"x": "y"}}})
        assert kube.get(f"{path}/{name}")["status"] == status


@pytest.mark.parametrize("plural", PLURALS)
def test_an_object_must_have_api_version_and_kind(kube: Any, name: str, plural: str) -> None:
    wanted = made(plural, name)
    for missing in ("kind", "apiVersion"):
        answer = kube.request("POST", collection(plural, "default"), {k: v for k, v in wanted.items() if k != missing})
        assert (answer.code, answer.reason) == (400, "BadRequest")


def status_writes(uid: str, name: str) -> dict[str, tuple[Callable[[Client, Any], Awaitable[None]], Any]]:
    ready = ReservationCondition("Ready", True, "Available", "m", 1_700_000_000.0)
    amounts = Amounts.of({"cpu": 2000})
    return {
        "podgroups": (write_pod_group, PodGroupStatus(f"default/{name}", uid, GangPhase.RUNNING, 3, 2, 1, 0)),
        "elasticquotas": (
            write_quota_status,
            QuotaStatus(f"default/{name}", uid, used=(("cpu", 2000),), runtime=(("cpu", 4000),), problem="odd"),
        ),
        "workloadprofiles": (
            write_profile_status,
            WorkloadProfileStatus(
                f"default/{name}",
                uid,
                1,
                2,
                AxisMoments().readings(),
                NO_OVERALL,
                AxisMoments().bounds(),
                1_700_000_000.0,
                "odd",
            ),
        ),
        "reservations": (
            write_status,
            ReservationStatus(
                name, uid, ReservationPhase.AVAILABLE, "n", amounts, amounts, (CurrentOwner("d", "p", "u"),), (ready,)
            ),
        ),
    }


@pytest.mark.parametrize("plural", ["podgroups", "elasticquotas", "reservations", "workloadprofiles"])
def test_a_status_is_written_only_to_the_object_with_its_uid(kube: Any, name: str, plural: str) -> None:
    path = f"{collection(plural, 'default')}/{name}"
    uid = kube.create(collection(plural, "default"), made(plural, name))["metadata"]["uid"]

    async def of_another(client: Client) -> None:
        write, status = status_writes("00000000-0000-0000-0000-000000000000", name)[plural]
        with pytest.raises(Conflict):
            await write(client, status)

    async def of_this(client: Client) -> None:
        write, status = status_writes(uid, name)[plural]
        await write(client, status)

    with_client(kube, of_another)
    before = kube.get(path)
    assert "status" not in before
    assert before["metadata"]["annotations"] == {"cotenant.io/note": "n"}
    with_client(kube, of_this)
    after = kube.get(path)
    assert after["status"]
    with_client(kube, of_this)
    assert kube.get(path)["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]  # unchanged: no write


def test_only_the_reservation_with_its_uid_is_deleted(kube: Any, name: str) -> None:
    path = collection("reservations", "")
    uid = kube.create(path, made("reservations", name))["metadata"]["uid"]

    async def scenario(client: Client) -> None:
        with pytest.raises(Conflict):
            await delete(client, DeleteReservation(name, "00000000-0000-0000-0000-000000000000"))
        await asyncio.to_thread(kube.get, f"{path}/{name}")
        await delete(client, DeleteReservation(name, uid))

    with_client(kube, scenario)
    assert kube.request("GET", f"{path}/{name}").code == 404


def test_an_agents_gpus_are_published_and_updated(kube: Any, name: str) -> None:
    gpus = [GpuCounters(0, "GPU-a", "NVIDIA H100 80GB HBM3", True, 0, 80 << 30, 0)]
    told: list[bool] = []
    seen: list[DeviceObject] = []

    async def scenario(client: Client) -> None:
        writer = DeviceWriter(client, name, lambda: gpus, lambda bus: (1, "pci0000:16"))
        told.append(await writer.write())
        told.append(await writer.write())
        gpus[0] = GpuCounters(0, "GPU-a", "NVIDIA H100 80GB HBM3", False, 0, 80 << 30, 0)
        told.append(await writer.write())
        assert (writer.problem, writer.failures, writer.written) == ("", 0, 2)
        seen.append(await client.get(DEVICES, "", name))

    with_client(kube, scenario)
    assert told == [True, False, True]
    (device,) = read_devices(seen[0]).devices
    assert (device.id, device.healthy, device.numa, device.pcie) == ("GPU-a", False, 1, "pci0000:16")


def test_kubectl_applies_what_the_command_prints(
    kube: Any, kinds: None, kubectl: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shutil.which("kubectl")
    assert crds() == 0
    said = kubectl("apply", "--dry-run=server", "-f", "-", text=capsys.readouterr().out)
    assert len(said.splitlines()) == len(PLURALS)


def test_printer_columns(kube: Any, name: str, kubectl: Any) -> None:
    for plural in PLURALS:
        kube.create(collection(plural, "default"), made(plural, name))
        if (status := STATUSES.get(plural)) is not None:
            kube.patch(f"{collection(plural, 'default')}/{name}/status", {"status": status})
    assert "Running" in kubectl("-n", "default", "get", "pg", name)
    assert "Available" in kubectl("get", "reservations", name)
    assert "koordinator.sh" not in kubectl("get", "devices", name)
    assert kubectl("-n", "default", "get", "wprof", name).splitlines()[1].split()[1:5] == [
        "Deployment",
        "cart",
        "812",
        "812",
    ]
    assert kubectl("-n", "default", "get", "so", name).split()[-5:-1] == ["cart", "99.9", "burning", "-1.5"]
    assert '"cpu":"2"' in kubectl("-n", "default", "get", "eq", name)
    assert kubectl("get", "nodemetrics", name).split()[:4] == ["NAME", "CPU", "MEMORY", "UPDATED"]


def test_other_writers_fields_of_a_pod_groups_status_are_kept(kube: Any, name: str) -> None:
    path = f"{collection('podgroups', 'default')}/{name}"
    uid = kube.create(collection("podgroups", "default"), made("podgroups", name))["metadata"]["uid"]
    kube.patch(f"{path}/status", {"status": {"occupiedBy": "job", "phase": "Pending"}})

    async def scenario(client: Client) -> None:
        write, status = status_writes(uid, name)["podgroups"]
        await write(client, status)

    with_client(kube, scenario)
    status = kube.get(path)["status"]
    assert (status["occupiedBy"], status["phase"], status["running"]) == ("job", "Running", 2)


def test_a_pods_status_is_written_only_to_the_pod_with_its_uid(
    kube: Any, pods: str, namespace: str, make_pod: Any
) -> None:
    kube.create(pods, make_pod())

    async def scenario(client: Client) -> None:
        body = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"message": "m"}}
        with pytest.raises(Conflict):
            await client.patch_status(PODS, namespace, "p", body)

    with_client(kube, scenario)
    assert "message" not in kube.get(f"{pods}/p")["status"]
