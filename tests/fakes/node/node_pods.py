"""Pods of a node and the states that hold them, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.machine.knob import KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod, NodePodPhase
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse

SECOND = 1_000_000
GB = 10**9


def pod(
    name: str,
    qos: QoSClass = QoSClass.BE,
    *,
    priority: int = 0,
    priority_class: PriorityClass = PriorityClass.NONE,
    cpu_m: int = 0,
    memory_bytes: int = 0,
    memory_limit_bytes: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: NodePodPhase = NodePodPhase.RUNNING,
    host_application: bool = False,
    group: str | None = None,
) -> NodePod:
    place = f"pods/{name}" if group is None else group
    container = NodeContainer(
        "main",
        f"{place}/main",
        cpu_request_m=cpu_m,
        memory_request_bytes=memory_bytes,
        memory_limit_bytes=memory_limit_bytes,
    )
    return NodePod(
        uid=f"uid-{name}",
        namespace="test",
        name=name,
        group=place,
        qos=qos,
        priority_class=priority_class,
        priority=priority,
        containers=(container,),
        labels=Labels.of(labels or {}),
        annotations=Labels.of(annotations or {}),
        phase=phase,
        host_application=host_application,
    )


def using(one: NodePod, **use: int | None) -> PodUse:
    return PodUse(one, GroupUse(one.group, **use))


def node(
    pods: Sequence[PodUse] = (),
    *,
    at_us: int = 100 * SECOND,
    interval_us: int = SECOND,
    cpus: int = 100,
    cpu_m: int | None = None,
    memory_total_bytes: int = 100 * GB,
    memory_used_bytes: int = 0,
    best_effort: GroupUse | None = None,
    best_effort_group: str | None = None,
    knobs: Mapping[KnobTarget, str] | None = None,
    network_sent_bps: int | None = None,
) -> NodeState:
    return NodeState(
        at_us,
        interval_us,
        HostUse(cpus, cpu_m, memory_total_bytes, memory_used_bytes, network_sent_bps=network_sent_bps),
        tuple(pods),
        best_effort,
        best_effort_group,
        knobs=dict(knobs or {}),
    )
