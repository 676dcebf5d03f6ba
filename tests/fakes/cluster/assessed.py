"""Small clusters as objects, for tests of what is said of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from cotenant.drivers.kube.snapshot.declared import PACKAGED, as_copied
from cotenant.drivers.kube.snapshot.kinds import BY_OBJECT, COPIED, copied_workloads
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading, ObjectCutter
from cotenant.model.groups.workload_kind import WorkloadKind

Obj = dict[str, Any]
NOW_S = 1_767_225_600.0
NOW = "2026-01-01T00:00:00Z"


def node(name: str, cpu: str = "8", memory: str = "16Gi", **labels: str) -> Obj:
    amounts = {"cpu": cpu, "memory": memory, "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"u-{name}", "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, on: str = "", cpu: str = "1", memory: str = "1Gi", **more: Any) -> Obj:
    """A pod of the ReplicaSet web-rs of the namespace shop."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-rs", "uid": "rs", "controller": True}
    spec = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
        **({"nodeName": on} if on else {}),
        **more,
    }
    status: Obj = {"phase": "Running" if on else "Pending", "qosClass": "Burstable"}
    if on:
        status |= {"conditions": [{"type": "Ready", "status": "True"}], "startTime": NOW}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"u-{name}",
            "creationTimestamp": NOW,
            "labels": {"app": "web"},
            "ownerReferences": [owner],
        },
        "spec": spec,
        "status": status,
    }


def replica_set(replicas: int) -> Obj:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    meta = {"name": "web-rs", "namespace": "shop", "uid": "rs", "ownerReferences": [owner]}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {"replicas": replicas}}


def budget(allowed: int) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }


def node_metric(name: str, pods: dict[str, int], cpu_m: int, **pod_more: Any) -> Obj:
    """`pods`: milli-CPU of each pod of shop."""
    measured = [
        {
            "namespace": "shop",
            "name": key,
            "podUsage": {"resources": {"cpu": f"{used}m", "memory": "512Mi"}},
            **pod_more,
        }
        for key, used in pods.items()
    ]
    usage = {"nodeUsage": {"resources": {"cpu": f"{cpu_m}m", "memory": "2Gi"}}}
    usage |= {"systemUsage": {"resources": {"cpu": "100m", "memory": "128Mi"}}}
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name},
        "spec": {},
        "status": {"updateTime": NOW, "nodeMetric": usage, "podsMetric": measured},
    }


def snapshot(objects: Iterable[Any], own: Iterable[WorkloadKind] = ()) -> ClusterSnapshot:
    """A copy with these objects, cut down as a reader does. `own`: declared kinds beside those of the package."""
    declared = copied_workloads(own)
    every = COPIED | declared
    by_object = BY_OBJECT | {(copied.kind.api_version, copied.kind.name): copied for copied in declared.values()}
    cutters = {key: ObjectCutter(copied) for key, copied in every.items()}
    found: dict[str, list[bytes]] = {key: [] for key in every}
    for obj in objects:
        key = by_object[obj["apiVersion"], obj["kind"]].key
        line = cutters[key].cut(json.loads(json.dumps(obj)))
        if line is not None:
            found[key].append(line)
    kinds = tuple(KindRead(key, KindReading.READ) for key in every)
    workloads = (*PACKAGED, *(as_copied(copied.declared) for copied in declared.values() if copied.declared))
    return ClusterSnapshot(NOW_S, found, kinds, "v1.36.2", "a test", workloads=workloads)


def resource_quota(hard: dict[str, str], used: dict[str, str], **spec: Any) -> Obj:
    """The quota team of the namespace shop."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "shop"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }
