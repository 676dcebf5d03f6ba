"""Arrays of a copy: nodes with what they have and what is requested of them, running pods with what they request."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.arrays import Int
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory, no_history
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, PODS_NAME
from cotenant.policy.assess.shapes import Rooms
from cotenant.policy.assess.workloads import WorkloadRequests
from cotenant.policy.overcommit.predicted_use import requested_use
from cotenant.services.assess.copying import ClusterCopy

MIB = 1 << 20
MAX_AGE_S = 900.0  # of a NodeMetric: Koordinator's degradeTimeMinutes


class NodeColumns(NamedTuple):
    """Nodes, aligned; `rooms` of those that take pods, in their order."""

    names: tuple[str, ...]
    cpu_m: Int  # allocatable
    memory_mib: Int
    cpu_requested_m: Int
    memory_requested_mib: Int
    rooms: Rooms


class RunningColumns(NamedTuple):
    """Running pods, aligned."""

    entries: tuple[PodInfo, ...]
    cpu_m: Int  # requested, of any class
    memory_mib: Int
    workload: tuple[str, ...]


def node_columns(copy: ClusterCopy) -> NodeColumns:
    """Every node that the engine uses."""
    names, resources, capacity, requested = copy.engine.requested()
    at = {name: column for column, name in enumerate(resources)}
    zeros = np.zeros(len(names), np.int64)

    def column(of: Int, name: str) -> Int:
        return of[:, at[name]] if name in at and len(names) else zeros

    takes = np.array([bool(node and node.takes_pods) for node in map(copy.engine.node, names)], np.bool_)
    free = [column(capacity, name) - column(requested, name) for name in (CPU_NAME, MEMORY_NAME, PODS_NAME)]
    rooms = Rooms(free[0][takes], free[1][takes] // MIB, free[2][takes])
    return NodeColumns(
        names,
        column(capacity, CPU_NAME),
        column(capacity, MEMORY_NAME) // MIB,
        column(requested, CPU_NAME),
        column(requested, MEMORY_NAME) // MIB,
        rooms,
    )


def pod_columns(copy: ClusterCopy) -> RunningColumns:
    """Every pod that uses resources of a node, by name."""
    found = [info for info in copy.engine.every_pod() if info.seen.occupies and not info.seen.reservation]
    found.sort(key=lambda info: info.seen.pod.key)
    uses = [requested_use(info.seen.pod.requests) for info in found]
    return RunningColumns(
        tuple(found),
        np.array([use.cpu_m for use in uses], np.int64),
        np.array([use.memory_bytes // MIB for use in uses], np.int64),
        tuple(workload_of(copy, info) for info in found),
    )


def workload_of(copy: ClusterCopy, info: PodInfo) -> str:
    """namespace/kind/name of what controls the pod, by the highest controller that the copy knows."""
    pod, workload = info.seen.pod, info.seen.workload
    if workload is not None:
        return f"{pod.namespace}/{workload.owner.kind}/{workload.owner.name}"
    for owner in info.seen.owned_by:
        if owner.controller:
            above = copy.owners.get(owner.uid)
            if above is not None:
                return f"{pod.namespace}/{above.kind}/{above.name}"
            return f"{pod.namespace}/{owner.kind}/{owner.name}"
    return f"{pod.namespace}/Pod/{pod.name}"


def by_workload(pods: RunningColumns) -> WorkloadRequests:
    """Sums of requests."""
    if not pods.workload:
        none = np.zeros(0, np.int64)
        return WorkloadRequests((), none, none, none)
    names, at = np.unique(np.array(pods.workload, np.str_), return_inverse=True)
    sums = [
        np.bincount(at, weights=column, minlength=len(names)).astype(np.int64)
        for column in (np.ones(len(at)), pods.cpu_m, pods.memory_mib)
    ]
    return WorkloadRequests(tuple(str(name) for name in names), sums[0], sums[1], sums[2])


def joined(history: ClusterHistory, pods: RunningColumns) -> ClusterHistory:
    """With the node and the workload of running pods where the history does not know them."""
    at = {info.seen.pod.key: number for number, info in enumerate(pods.entries)}
    of = history.pods
    rows = [at.get(name) for name in of.use.names]
    node = [
        known or (pods.entries[row].node if row is not None else "") for known, row in zip(of.node, rows, strict=True)
    ]
    workload = [
        known or (pods.workload[row] if row is not None else "") for known, row in zip(of.workload, rows, strict=True)
    ]
    return replace(history, pods=replace(of, node=tuple(node), workload=tuple(workload)))


def moment(copy: ClusterCopy, pods: RunningColumns) -> ClusterHistory:
    """What NodeMetrics say, as a history of one step."""
    fresh = {
        name: metric for name, metric in copy.metrics.items() if metric.use is not None and metric.age_s <= MAX_AGE_S
    }
    if not fresh:
        old = len(copy.metrics)
        why = f"the {old} NodeMetrics are older than {MAX_AGE_S / 60:g} min" if old else "no source of use was given"
        return no_history(f"{why}: only requests are known, and nothing is said of what is used", copy.now_s)
    names = tuple(sorted(fresh))
    uses = [fresh[name].use for name in names]
    whole = np.array([(use.cpu_m, use.memory_bytes / MIB) for use in uses if use is not None], np.float32)
    source = (
        f"one measurement, of {len(names):,} NodeMetrics: it says nothing of other times of the day, so quantiles "
        "and peak hours are not given"
    )
    nodes = AssessedHistory(copy.now_s, 60.0, names, whole[:, :1].copy(), whole[:, 1:].copy(), source)
    measured = {
        key: pod.use for metric in fresh.values() if metric.pods is not None for key, pod in metric.pods.items()
    }
    rows = [at for at, info in enumerate(pods.entries) if info.seen.pod.key in measured]
    keys = tuple(pods.entries[at].seen.pod.key for at in rows)
    used = np.array([(measured[key].cpu_m, measured[key].memory_bytes / MIB) for key in keys], np.float32)
    used = used.reshape(len(keys), 2)
    of_pods = AssessedHistory(copy.now_s, 60.0, keys, used[:, :1].copy(), used[:, 1:].copy(), source)
    return ClusterHistory(
        PodHistory(
            of_pods,
            tuple(pods.entries[at].node for at in rows),
            tuple(pods.workload[at] for at in rows),
            pods.cpu_m[rows].astype(np.float32),
            pods.memory_mib[rows].astype(np.float32),
        ),
        nodes,
    )
