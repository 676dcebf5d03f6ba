"""The simulated fleet: node names, sizes, topology labels, and the manifests that their kubelets would register.

Names carry the index, zones are assigned round-robin, racks are blocks of consecutive nodes. Labels are those that a
real kubelet and cloud provider set. Allocatable equals capacity: a simulated node reserves nothing for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.labels import HOSTNAME, REGION, ZONE
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import NVIDIA_GPU
from cotenant_local.controllers.views.core import micro_stamp, stamp

RACK = "topology.cotenant.io/rack"
SIMULATED_LABEL = "cotenant.io/simulated"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
LEASE_NAMESPACE = "kube-node-lease"
VERSION = "v1.34.0"  # the same as the API server's
LEASE_WRITES_PER_SECOND = 250.0
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class NodeSize:
    """The size of a node."""

    cores: int = 32
    memory_bytes: int = 128 * _GIB
    pods: int = 110
    gpus: int = 0

    @property
    def instance_type(self) -> str:
        """The instance type label of this size."""
        return f"sim.{self.cores}c-{self.memory_bytes // _GIB}g" + (f"-{self.gpus}gpu" if self.gpus else "")


@dataclass(frozen=True, slots=True)
class NodeFleet:
    """A number of identical nodes. Raises `InvalidInput`."""

    count: int
    shape: NodeSize = NodeSize()
    zones: int = 3
    rack_size: int = 20
    prefix: str = "node"
    grace_s: float = 40.0  # without a heartbeat until a node counts as dead

    def __post_init__(self) -> None:
        if not 0 <= self.count <= 100_000:
            raise InvalidInput("nodes", self.count, "0 to 100,000")
        if self.zones < 1 or self.rack_size < 1:
            raise InvalidInput("zones", self.zones, "at least one zone and one node per rack")

    def names(self) -> list[str]:
        """The nodes' names, in order."""
        width = max(4, len(str(max(0, self.count - 1))))
        return [f"{self.prefix}-{i:0{width}d}" for i in range(self.count)]

    @property
    def renew_every_s(self) -> float:
        """A node's Lease renewal period: a quarter of the grace (10 s, as a kubelet's), longer where that would
        exceed 250 writes per second in total.
        """
        return max(self.grace_s / 4, self.count / LEASE_WRITES_PER_SECOND)

    @property
    def lease_duration_s(self) -> int:
        """The Lease duration: four renewal periods, at least the grace."""
        return ceil(max(self.grace_s, 4.0 * self.renew_every_s))


def address(index: int) -> str:
    """A node's internal address."""
    return f"10.{64 + (index >> 16 & 63)}.{index >> 8 & 255}.{index & 255}"


def pod_address(serial: int) -> str:
    """A pod's address."""
    return f"10.{128 + (serial >> 16 & 127)}.{serial >> 8 & 255}.{serial & 255}"


def node_manifest(fleet: NodeFleet, index: int, name: str, now_s: float) -> Manifest:
    """The Node object that a kubelet registers."""
    shape = fleet.shape
    zone = f"zone-{'abcdefghijklmnopqrstuvwxyz'[index % min(fleet.zones, 26)]}"
    amounts = {
        "cpu": str(shape.cores),
        "memory": f"{shape.memory_bytes // 1024}Ki",
        "pods": str(shape.pods),
        "ephemeral-storage": "500Gi",
    }
    if shape.gpus:
        amounts[NVIDIA_GPU] = str(shape.gpus)  # as a device plugin reports; the details are in the Device object
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                HOSTNAME: name,
                ZONE: zone,
                REGION: "local",
                RACK: f"rack-{index // fleet.rack_size:03d}",
                INSTANCE_TYPE: shape.instance_type,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                SIMULATED_LABEL: "true",
            },
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": ready_conditions(now_s),
            "addresses": [
                {"type": "InternalIP", "address": address(index)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "simulated by cotenant",
                "kernelVersion": "simulated",
                "containerRuntimeVersion": "simulated://1",
                "kubeletVersion": VERSION,
                "kubeProxyVersion": "",
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
            },
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }


def ready_conditions(now_s: float) -> list[Manifest]:
    """A healthy node's conditions."""
    now = stamp(now_s)
    table = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in table
    ]


def lease_manifest(fleet: NodeFleet, name: str, uid: str, now_s: float) -> Manifest:
    """A node's Lease, renewed at `now_s`."""
    metadata: Manifest = {"name": name, "namespace": LEASE_NAMESPACE}
    if uid:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata,
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": fleet.lease_duration_s,
            "renewTime": micro_stamp(now_s),
        },
    }
