"""The scheduler extender protocol in its documented wire form, and an extender that knows some nodes."""

import json
from collections.abc import Sequence
from typing import Any

from cotenant.model.cluster.report import NodeReport
from cotenant.services.extender.founding_judge import FoundingJudge
from cotenant.services.extender.mirror import Mirror
from cotenant.services.extender.protocol import ExtenderProtocol

NOW = 1_760_000_000.0
GIB = 2**30


def pod(cpu: str | None = "2", memory: str | None = "4Gi", name: str = "web", **more: Any) -> dict[str, Any]:
    """A pod as kube-scheduler sends it, after defaulting."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "711",
            "creationTimestamp": "2025-10-09T08:53:17Z",
            "labels": {"app": name},
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:x": {}}}
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "main:1",
                    "resources": {"requests": requests},
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            **more,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def node(name: str, cpu: str = "8", memory: str = "32Gi", version: str = "5") -> dict[str, Any]:
    """A node as kube-scheduler sends it in full-node mode."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": {"zone": "a"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": "110"},
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def by_name(names: Sequence[str], asked: dict[str, Any] | None = None) -> bytes:
    """ExtenderArgs with nodeCacheCapable: true."""
    return written({"Pod": asked or pod(), "Nodes": None, "NodeNames": list(names)})


def by_object(nodes: Sequence[dict[str, Any]], asked: dict[str, Any] | None = None) -> bytes:
    """ExtenderArgs with nodeCacheCapable: false."""
    return written({"Pod": asked or pod(), "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None})


def written(value: object) -> bytes:
    """As Go writes it: no spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def report(
    name: str, cpu_used: float = 1.0, memory_used: float = GIB, at_s: float = NOW - 12, **more: float
) -> NodeReport:
    """Of a node with 8 cores and 32 GiB."""
    values = {"latency_p99_ms": 30.0, "violation": 0.0, "dominant_share": 0.5, "fairness": 1.0, **more}
    return NodeReport(name, 8.0, cpu_used, 32.0 * GIB, memory_used, at_s=at_s, **values)


class Known:
    """An extender and what it knows."""

    def __init__(self, *reports: NodeReport, **settings: Any) -> None:
        self.mirror = Mirror()
        for report in reports:
            self.mirror.report_received(report)
        self.extender = ExtenderProtocol(self.mirror, FoundingJudge(self.mirror), **settings)

    def filter(self, body: bytes, now_s: float = NOW) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.extender.filter(body, now_s))
        assert set(answer) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
        return answer

    def prioritize(self, body: bytes, now_s: float = NOW) -> list[tuple[str, int]]:
        return [(load["Host"], load["Score"]) for load in json.loads(self.extender.prioritize(body, now_s))]
