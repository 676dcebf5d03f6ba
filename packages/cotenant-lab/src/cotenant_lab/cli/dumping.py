"""`cotenant lab dump`: a trace as the copy of a cluster, for `cotenant assess report`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.kube.snapshot.archive import write_archive
from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.drivers.kube.snapshot.kinds import BY_OBJECT, COPIED
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading, ObjectCutter, unasked
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.counted import counted
from cotenant.services.assess.assess_arguments import check_output
from cotenant_lab.cli.naming import COMPARE, as_typed
from cotenant_lab.traces.clusters import TraceCluster, TraceNode, TracePod, trace_cluster

TAKEN_S = 1_767_225_600.0  # 2026-01-01: a trace has no date that a cluster's copy could have
_PODS_A_NODE = 1000
_CARD_MIB = 16 * 1024


def dump_trace(name: str, folder: Path, out: Path) -> int:
    """Write the copy, and say what it has."""
    check_output("OUT", out)
    with as_typed(COMPARE):
        found = trace_cluster(name, folder)
        snapshot, history = copy_of(name, found)
        size = write_archive(out, snapshot, history)
    print(f"{out}: {counted(len(found.nodes), 'node')}, {counted(len(found.pods), 'pod')}, {size / 1e6:.1f} MB")
    for note in found.notes:
        print(f"  {note}")
    return 0


def copy_of(name: str, found: TraceCluster) -> tuple[ClusterSnapshot, ClusterHistory | None]:
    """The trace's cluster as a copy: its history ends when the copy was taken."""
    cutters: dict[str, ObjectCutter] = {}
    objects: dict[str, list[bytes]] = {}
    for obj in _objects(found):
        kind = BY_OBJECT[str(obj["apiVersion"]), str(obj["kind"])]
        cutter = cutters.setdefault(kind.key, ObjectCutter(kind))
        line = cutter.cut(obj)
        assert line is not None
        objects.setdefault(kind.key, []).append(line)
    read = tuple(KindRead(key, KindReading.READ) for key in COPIED if key in cutters)
    snapshot = ClusterSnapshot(
        TAKEN_S,
        objects,
        (*read, *unasked(cutters)),
        source=f"the trace {name}, brought into the form of a cluster",
        notes=found.notes,
    )
    return snapshot, _ending_now(found.history)


def _ending_now(history: ClusterHistory | None) -> ClusterHistory | None:
    if history is None:
        return None
    start_s = TAKEN_S - history.nodes.steps * history.nodes.step_s
    pods = history.pods
    return replace(
        history,
        nodes=replace(history.nodes, start_s=start_s),
        pods=replace(pods, use=replace(pods.use, start_s=start_s if pods.use.steps else pods.use.start_s)),
    )


def _objects(found: TraceCluster) -> Iterator[dict[str, Json]]:
    for node in found.nodes:
        yield _node(node)
        if node.cards:
            yield _devices(node)
    applications: dict[str, int] = {}
    for pod in found.pods:
        if pod.application:
            applications[pod.application] = applications.get(pod.application, 0) + 1
        yield _pod(pod)
    for name, replicas in applications.items():
        yield {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default", "uid": f"rs-{name}"},
            "spec": {"replicas": replicas},
        }


def _node(node: TraceNode) -> dict[str, Json]:
    amounts: dict[str, Json] = {
        "cpu": f"{node.cpu_m}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": str(_PODS_A_NODE),
    }
    if node.cards:
        amounts |= {
            "koordinator.sh/gpu-core": str(100 * node.cards),
            "koordinator.sh/gpu-memory-ratio": str(100 * node.cards),
            "koordinator.sh/gpu-memory": f"{_CARD_MIB * node.cards}Mi",
        }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "uid": f"node-{node.name}", "labels": {"kubernetes.io/hostname": node.name}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _devices(node: TraceNode) -> dict[str, Json]:
    amounts: dict[str, Json] = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory-ratio": "100",
        "koordinator.sh/gpu-memory": f"{_CARD_MIB}Mi",
    }
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": node.name},
        "spec": {
            "devices": [{"type": "gpu", "minor": at, "health": True, "resources": amounts} for at in range(node.cards)]
        },
    }


def _pod(pod: TracePod) -> dict[str, Json]:
    requests: dict[str, Json] = {"cpu": f"{pod.cpu_m}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.cards:
        share = str(pod.card_percent * pod.cards)
        requests |= {"koordinator.sh/gpu-core": share, "koordinator.sh/gpu-memory-ratio": share}
    owners: list[Json] = []
    if pod.application:
        owner: dict[str, Json] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": pod.application}
        owners.append(owner | {"uid": f"rs-{pod.application}", "controller": True})
    spec: dict[str, Json] = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "main", "resources": {"requests": requests, "limits": dict(requests)}}],
    }
    if pod.node:
        spec["nodeName"] = pod.node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": "default",
            "uid": f"pod-{pod.name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": pod.application or pod.name},
            "ownerReferences": owners,
        },
        "spec": spec,
        "status": {"phase": "Running" if pod.node else "Pending", "qosClass": "Guaranteed"},
    }
