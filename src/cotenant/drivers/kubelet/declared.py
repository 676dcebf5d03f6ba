"""What somebody says of a pod, laid over the groups that are there.

Problem: the tree knows groups and limits, the container runtime names and labels, the API server requests and priorities; none knows all, and any may be
away. Choice: whoever knows something says it as a `DeclaredPod`; `join` lays those over pods found in the tree, by UID, and later ones
win. Class, priority, tenant and objective follow from labels and annotations by the same rules everywhere. Limits: a pod without a group cannot
be judged or squeezed and is left out. A label or annotation that cannot be read counts as absent, as it does upstream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from cotenant.model.cluster.annotations import OBJECTIVE_P99_MS, TENANT
from cotenant.model.cluster.labels import NO_LABELS, PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY, Labels
from cotenant.model.cluster.qos import (
    KubernetesQoS,
    QoSClass,
    effective_class,
    effective_qos,
    parse_sub_priority,
    qos_of_label,
    raw_class,
)
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodeContainer, NodePod, Phase

RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"  # annotation: JSON, the CPUs that a pod was given
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class DeclaredContainer:
    """What is said of a container; None = nothing."""

    name: str
    container_id: str = ""  # without the runtime's prefix
    cpu_request_m: int | None = None
    cpu_limit_m: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeclaredPod:
    """What is said of a pod; None and "" = nothing."""

    uid: str
    namespace: str = ""
    name: str = ""
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    priority: int | None = None
    qos: QoSClass = QoSClass.NONE  # where it is said otherwise than by label
    tenant: str = ""  # where it is said otherwise than by annotation
    kubernetes_qos: KubernetesQoS | None = None
    containers: tuple[DeclaredContainer, ...] = ()
    phase: Phase | None = None
    addresses: tuple[str, ...] = ()  # IPs of its own


def join(found: Iterable[NodePod], declared: Sequence[DeclaredPod]) -> tuple[NodePod, ...]:
    """The pods that were found, each with all that is said of it."""
    said: dict[str, list[DeclaredPod]] = {}
    for one in declared:
        said.setdefault(one.uid, []).append(one)
    joined = []
    for pod in found:
        for one in said.get(pod.uid, ()):
            pod = laid_over(pod, one)
        joined.append(pod)
    return tuple(joined)


def laid_over(pod: NodePod, said: DeclaredPod) -> NodePod:
    """One pod with what is said of it."""
    labels = said.labels or pod.labels
    annotations = said.annotations or pod.annotations
    namespace = said.namespace or pod.namespace
    kubernetes = said.kubernetes_qos or pod.kubernetes_qos
    declared_qos = qos_of_label(labels.get(QOS_CLASS))
    if declared_qos is QoSClass.NONE:
        declared_qos = said.qos
    qos = effective_qos(declared_qos, kubernetes)
    priority = said.priority if said.priority is not None else (pod.priority or None)
    band = effective_class(raw_class(labels.get(PRIORITY_CLASS), priority), qos)
    return replace(
        pod,
        namespace=namespace,
        name=said.name or pod.name,
        qos=qos,
        kubernetes_qos=kubernetes,
        priority_class=band,
        priority=priority if priority is not None else band.default_priority,
        sub_priority=_sub_priority(labels.get(SUB_PRIORITY)),
        tenant=annotations.get(TENANT) or said.tenant or pod.tenant or namespace,
        objective_p99_us=objective_us(annotations.get(OBJECTIVE_P99_MS)),
        containers=_containers(pod.containers, said.containers),
        labels=labels,
        annotations=annotations,
        phase=said.phase or pod.phase,
        addresses=said.addresses or pod.addresses,
        own_cpus=_own_cpus(annotations.get(RESOURCE_STATUS)) if qos is not QoSClass.BE else (),
    )


def objective_us(text: str | None) -> int | None:
    """The objective of `cotenant.io/objective-p99-ms` in microseconds; None where there is none or it is no decimal above 0."""
    if text is None or not _DECIMAL.fullmatch(text):
        return None
    whole, _, part = text.partition(".")
    microseconds = int(whole) * 1000 + int(f"{part:0<3}"[:3] or 0)
    return microseconds or None


def _containers(found: tuple[NodeContainer, ...], said: tuple[DeclaredContainer, ...]) -> tuple[NodeContainer, ...]:
    """The containers that were found, by their IDs; where only names are said, by those."""
    by_id = {one.container_id: one for one in said if one.container_id}
    by_name = {one.name: one for one in said}
    return tuple(_container(one, by_id.get(one.container_id) or by_name.get(one.name)) for one in found)


def _container(found: NodeContainer, said: DeclaredContainer | None) -> NodeContainer:
    if said is None:
        return found

    def told(value: int | None, stands: int) -> int:
        return stands if value is None else value

    return replace(
        found,
        name=said.name or found.name,
        cpu_request_m=told(said.cpu_request_m, found.cpu_request_m),
        cpu_limit_m=told(said.cpu_limit_m, found.cpu_limit_m),
        memory_request_bytes=told(said.memory_request_bytes, found.memory_request_bytes),
        memory_limit_bytes=told(said.memory_limit_bytes, found.memory_limit_bytes),
    )


def _sub_priority(text: str | None) -> int:
    try:
        return parse_sub_priority(text)
    except InvalidInput:
        return 0


class _Status(msgspec.Struct, frozen=True):
    cpuset: str = ""


def _own_cpus(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(parse_cpus(msgspec.json.decode(text, type=_Status).cpuset, RESOURCE_STATUS))
    except (msgspec.DecodeError, UnicodeError, InvalidInput):
        return ()
