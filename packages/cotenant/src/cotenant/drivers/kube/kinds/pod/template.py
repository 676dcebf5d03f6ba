"""What equal pods share: their spec without the node, and their classes.

`PodReader` reads it once for all of them. What cannot be read or is not supported is a sentence in `unsupported`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.pod.affinity import (
    Affinity,
    read_node_affinity,
    read_pod_terms,
    read_spread_constraints,
)
from cotenant.drivers.kube.kinds.pod.claims import extended_requests
from cotenant.drivers.kube.kinds.pod.ports import host_ports
from cotenant.drivers.kube.kinds.pod.resources import has_whole_cpus, read_limits, read_requests
from cotenant.drivers.kube.kinds.pod.schema import PodSpec, PodStatus
from cotenant.drivers.kube.kinds.taints import read_tolerations
from cotenant.model.claims.needs import ContainerRequest
from cotenant.model.cluster.affinity import NodeAffinity, PodTerm, SpreadConstraint
from cotenant.model.cluster.labels import NO_LABELS, PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY, Labels
from cotenant.model.cluster.pod import HostPort
from cotenant.model.cluster.qos import PriorityClass, QoSClass, parse_sub_priority, qos_of_label, raw_class
from cotenant.model.cluster.taints import Toleration
from cotenant.model.devices.request import asks_lent_gpu
from cotenant.model.resources import Amounts


@dataclass(frozen=True, slots=True)
class EqualPods:
    """What equal pods share."""

    requests: Amounts
    limits: Amounts
    has_whole_cpus: bool
    qos: QoSClass
    priority_class: PriorityClass
    sub_priority: int
    node_selector: Labels
    node_affinity: NodeAffinity | None
    tolerations: tuple[Toleration, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    spread: tuple[SpreadConstraint, ...]
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    gates: tuple[str, ...]
    extended: tuple[ContainerRequest, ...]
    asks_lent_gpu: bool
    unsupported: tuple[str, ...]


def read_template(spec: PodSpec, status: PodStatus, labels: Mapping[str, str]) -> EqualPods:
    """What the pod shares with those of the same spec and the same labels of classes."""
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)

    affinity = spec.affinity or Affinity()
    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    if spec.workload_ref is not None:
        wrong.append("spec.workloadRef: gangs of the Workload API v1alpha1 are not supported, spec.schedulingGroup is")
    if spec.scheduling_group is not None and not spec.scheduling_group.pod_group_name:
        wrong.append("spec.schedulingGroup: podGroupName is missing")
    requests = read_requests(spec, status, attempt)
    no_terms: tuple[PodTerm, ...] = ()
    no_spread: tuple[SpreadConstraint, ...] = ()
    no_tolerations: tuple[Toleration, ...] = ()
    no_affinity: NodeAffinity | None = None
    node_affinity = affinity.node_affinity
    return EqualPods(
        requests=requests,
        limits=read_limits(spec),
        has_whole_cpus=has_whole_cpus(spec),
        qos=qos_of_label(labels.get(QOS_CLASS)),
        priority_class=raw_class(labels.get(PRIORITY_CLASS), spec.priority),
        sub_priority=attempt(0, lambda: parse_sub_priority(labels.get(SUB_PRIORITY), f"label {SUB_PRIORITY}")),
        node_selector=attempt(NO_LABELS, lambda: Labels.of(spec.node_selector or {})),
        node_affinity=attempt(no_affinity, lambda: read_node_affinity(node_affinity, "spec.affinity.nodeAffinity"))
        if node_affinity is not None
        else None,
        tolerations=attempt(no_tolerations, lambda: read_tolerations(spec.tolerations or (), "spec.tolerations")),
        affinity=attempt(no_terms, lambda: read_pod_terms(near, labels, "spec.affinity.podAffinity"))
        if near is not None
        else no_terms,
        anti_affinity=attempt(no_terms, lambda: read_pod_terms(away, labels, "spec.affinity.podAntiAffinity"))
        if away is not None
        else no_terms,
        spread=attempt(
            no_spread,
            lambda: read_spread_constraints(
                spec.topology_spread_constraints or (), labels, "spec.topologySpreadConstraints"
            ),
        ),
        host_ports=host_ports(spec, attempt),
        images=tuple(
            _with_tag(container.image or "") for container in (*(spec.init_containers or ()), *(spec.containers or ()))
        ),
        gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
        extended=extended_requests(spec) if any("/" in name for name in requests.names()) else (),
        asks_lent_gpu=asks_lent_gpu(requests),
        unsupported=tuple(wrong),
    )


def _with_tag(image: str) -> str:
    """The image's name as nodes report it: `latest` where it has neither tag nor digest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
