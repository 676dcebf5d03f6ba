"""What worlds, pods and rules of random cases draw from, and the objects that are the same for all worlds."""

from __future__ import annotations

import random
from typing import Any

Manifest = dict[str, Any]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APPS, TIERS, REVISIONS = ("web", "api", "db"), ("front", "back"), ("1", "2")
ADDRESSES = ("", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::")
PORTS = (8080, 8081)
NOW, LATER, LATER_MADE = "feasible-now", "feasible-later", "feasible-made"
HEAVY, FAST = "feasible-heavy", "feasible-fast"
_STORAGE = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "reclaimPolicy": "Retain"}
_RUNTIME = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h"}

PER_SERVER: tuple[tuple[str, Manifest], ...] = (
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        {**_STORAGE, "metadata": {"name": NOW}, "provisioner": "made.example.com", "volumeBindingMode": "Immediate"},
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            **_STORAGE,
            "metadata": {"name": LATER},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            **_STORAGE,
            "metadata": {"name": LATER_MADE},
            "provisioner": "made.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z0", "z1"]}]}],
        },
    ),
    (
        "/apis/node.k8s.io/v1/runtimeclasses",
        {**_RUNTIME, "metadata": {"name": HEAVY}, "overhead": {"podFixed": {"cpu": "750m", "memory": "512Mi"}}},
    ),
    (
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            **_RUNTIME,
            "metadata": {"name": FAST},
            "scheduling": {
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    ),
)


class Draw(random.Random):
    """Random choices."""

    def chance(self, share: float) -> bool:
        return self.random() < share


def taint(draw: Draw) -> Manifest:
    """A taint of a node; some values are numbers."""
    return {
        "key": draw.choice(("dedicated", "level")),
        "value": draw.choice(("", "db", "5", "10", "05")),
        "effect": draw.choice(("NoSchedule", "NoExecute", "PreferNoSchedule")),
    }


def labels_of_pod(draw: Draw) -> dict[str, str]:
    """Labels of a pod, any of them absent sometimes."""
    found = {"app": draw.choice(APPS), "tier": draw.choice(TIERS), "revision": draw.choice(REVISIONS)}
    return {name: value for name, value in found.items() if draw.chance(0.85)}


def port(draw: Draw) -> Manifest:
    """A port of a container that is one of the host too."""
    found: Manifest = {"containerPort": 80, "hostPort": draw.choice(PORTS), "protocol": draw.choice(("TCP", "UDP"))}
    if address := draw.choice(ADDRESSES):
        found["hostIP"] = address
    return found
