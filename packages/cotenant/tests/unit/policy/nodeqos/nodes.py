"""Nodes and pods for the tests of node policies, with defaults that do no harm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.counters import LogicalCpu
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse, ServiceHealth

SECOND_US = 1_000_000
GIB = 1 << 30


def pod(name: str, qos: QoSClass = QoSClass.LS, **fields: Any) -> NodePod:
    return NodePod(
        **{"uid": f"uid-{name}", "namespace": "ns", "name": name, "group": f"pods/{name}", "qos": qos} | fields
    )


def in_use(
    name: str,
    cpu_m: int | None,
    qos: QoSClass = QoSClass.LS,
    health: ServiceHealth | None = None,
    signals: dict[str, int] | None = None,
    **fields: Any,
) -> PodUse:
    told = pod(name, qos, **fields)
    return PodUse(told, GroupUse(told.group, cpu_m=cpu_m, **(signals or {})), health=health)


def health(p99_us: int, requests: int = 1000, over: int = 0, age_us: int = 0) -> ServiceHealth:
    return ServiceHealth(window_us=SECOND_US, requests=requests, p99_us=p99_us, over_objective=over, age_us=age_us)


def container(name: str, limit_m: int = 0, group: str = "") -> NodeContainer:
    return NodeContainer(name, group or f"pods/p/{name}", container_id=name, cpu_limit_m=limit_m)


def topology(cpus: int, per_socket: int | None = None) -> tuple[LogicalCpu, ...]:
    """Two threads a core; sockets are NUMA nodes."""
    per_socket = per_socket or cpus
    return tuple(LogicalCpu(cpu, cpu // 2, cpu // per_socket, cpu // per_socket) for cpu in range(cpus))


def node(
    pods: Sequence[PodUse] = (), cpus: int = 16, used_m: int | None = None, at_s: float = 0.0, **fields: Any
) -> NodeState:
    """`used_m`: of the whole node; without it, what the pods use."""
    if used_m is None:
        used_m = sum(entry.use.cpu_m or 0 for entry in pods)
    host = HostUse(cpus=cpus, cpu_m=used_m, memory_total_bytes=64 * GIB, memory_used_bytes=GIB)
    defaults = {"cpus": topology(cpus), "interval_us": SECOND_US}
    return NodeState(**defaults | {"at_us": round(at_s * SECOND_US), "host": host, "pods": tuple(pods)} | fields)
