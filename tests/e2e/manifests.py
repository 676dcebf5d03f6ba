"""Small manifests for tests of whole clusters. The pods name the scheduler `cotenant`."""

from __future__ import annotations

from typing import Any


def pod_spec(cpu: str = "100m", **more: Any) -> dict[str, Any]:
    """A pod's spec."""
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    container = {"name": "c", "image": "registry.example/app:1", "resources": resources}
    return {"schedulerName": "cotenant", "containers": [container], **more}


def pod(name: str, cpu: str = "100m", **more: Any) -> dict[str, Any]:
    """A pod."""
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu, **more)}


def deployment(name: str, replicas: int, cpu: str = "100m", **more: Any) -> dict[str, Any]:
    """A deployment; `more` goes to its pods' spec."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(cpu, **more)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def job(name: str, completions: int, seconds: int, **more: Any) -> dict[str, Any]:
    """A job whose pods run for so many simulated seconds."""
    notes = {"cotenant.io/run-seconds": str(seconds)}
    template = {"metadata": {"annotations": notes}, "spec": pod_spec(restartPolicy="Never", **more)}
    spec = {"completions": completions, "parallelism": 2, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def node(name: str, cores: int = 4) -> dict[str, Any]:
    """A ready node without a simulated kubelet."""
    amounts = {"cpu": str(cores), "memory": "16Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def is_running(obj: Any) -> bool:
    """Whether a pod runs and is not being deleted."""
    return obj["status"].get("phase") == "Running" and "deletionTimestamp" not in obj["metadata"]


def bound_once(changes: list[Any]) -> dict[str, str]:
    """Node by uid, from watch events; fails where a pod changed its node or lost it."""
    where: dict[str, str] = {}
    for change in changes:
        if change["type"] not in ("ADDED", "MODIFIED"):
            continue
        uid, node_name = change["object"]["metadata"]["uid"], change["object"]["spec"].get("nodeName", "")
        assert where.get(uid, node_name) == node_name, f"{uid} moved from {where[uid]} to {node_name or 'nowhere'}"
        if node_name:
            where[uid] = node_name
    return where
