"""Merges declared attributes of pods into the pods found in the cgroup tree.

The tree knows groups and limits, the container runtime names and labels, the API server requests and priorities; none
knows all, and any may be unavailable. Each source gives what it knows as a `DeclaredPod`; `join` merges those into pods
found in the tree, by UID, and later ones win. Class, priority, tenant and objective follow from labels and annotations
by the same rules everywhere.
Limits: a pod without a group cannot be measured or throttled and is left out. A malformed label or annotation counts as
absent, as it does upstream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import nan

import msgspec

from cotenant.drivers.kubelet.extended import PodInfoAmounts, pod_amounts, read_annotation
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.cluster.annotations import EXTENDED_SPEC, MIRROR, OBJECTIVE_P99_MS, TENANT
from cotenant.model.cluster.entitlement import gets_own_cpus
from cotenant.model.cluster.labels import NO_LABELS, PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY, Labels
from cotenant.model.cluster.qos import (
    BANDS,
    KubernetesQoS,
    PriorityClass,
    QoSClass,
    effective_class,
    effective_qos,
    parse_sub_priority,
    qos_of_label,
    raw_class,
)
from cotenant.model.cluster.seal import (
    SETTLED,
    SETTLED_ANNOTATIONS,
    SETTLED_LABELS,
    SealStanding,
    Values,
    settled_values,
)
from cotenant.model.cpus.cpulist import format_cpus, parse_cpus
from cotenant.model.cpus.spec import RESOURCE_SPEC, RESOURCE_STATUS, ResourceSpec
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import ExtendedAmounts, NodeContainer, NodePod, NodePodPhase

_CRITICAL = 2_000_000_000  # the value of system-cluster-critical; system-node-critical is above
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class DeclaredContainer:
    """Declared attributes of a container; None = not declared."""

    name: str
    container_id: str = ""  # without the runtime's prefix
    cpu_request_m: int | None = None
    cpu_limit_m: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None
    extended_cpu: bool = False
    extended_memory: bool = False


@dataclass(frozen=True, slots=True)
class DeclaredPod:
    """Declared attributes of a pod; None and "" = not declared."""

    uid: str
    namespace: str = ""
    name: str = ""
    labels: Labels = NO_LABELS
    annotations: Labels = NO_LABELS
    priority: int | None = None
    qos: QoSClass = QoSClass.NONE  # where declared other than by label
    tenant: str = ""  # where declared other than by annotation
    kubernetes_qos: KubernetesQoS | None = None
    containers: tuple[DeclaredContainer, ...] = ()
    phase: NodePodPhase | None = None
    has_started: bool = False  # each of its containers was started
    addresses: tuple[str, ...] = ()  # its own IPs
    owner: str = ""  # kind and name of its controller, "Job hogs"
    extended: ExtendedAmounts | None = None  # None: where there is an annotation with batch amounts, those apply
    cpu_request_m: int | None = None  # of the whole pod; None: that of the containers that are found
    created_s: float = nan  # Unix time; NaN = not known
    scheduler: str = ""  # spec.schedulerName; "" = not known
    grace_s: int | None = None  # that it may take to end


@dataclass(frozen=True, slots=True)
class Belief:
    """By what annotations about holdings, class and quota are believed."""

    seals: Seals = NO_SEALS
    node: str = ""  # this node's name, which is sealed
    checks_requests: bool = (
        True  # without a seal: only CPUs that the pod is entitled to. False: requests are not known, the caller judges
    )


NO_SEAL = Belief()


def join(found: Iterable[NodePod], declared: Sequence[DeclaredPod], belief: Belief = NO_SEAL) -> tuple[NodePod, ...]:
    """The found pods, each merged with its declarations."""
    by_uid: dict[str, list[DeclaredPod]] = {}
    for one in declared:
        by_uid.setdefault(one.uid, []).append(one)
    joined = []
    for pod in found:
        for one in by_uid.get(pod.uid, ()):
            pod = merged(pod, one, belief)
        joined.append(pod)
    return tuple(joined)


def _is_confirmed(declared: DeclaredPod) -> bool:
    """Whether more than a label makes it a service: admission, which writes spec.priority by the priority class."""
    by_priority = declared.priority is not None and declared.priority >= BANDS[PriorityClass.PROD][0]
    return by_priority or declared.qos not in (QoSClass.NONE, QoSClass.BE)


def merged(pod: NodePod, declared: DeclaredPod, belief: Belief = NO_SEAL) -> NodePod:
    """One pod merged with one declaration."""
    labels = declared.labels or pod.labels
    annotations = declared.annotations or pod.annotations
    relabelled: tuple[str, ...] = ()
    if belief.seals.checks:
        labels, annotations, relabelled = _settled(pod.uid, labels, annotations, declared, belief)
    namespace = declared.namespace or pod.namespace
    kubernetes = declared.kubernetes_qos or pod.kubernetes_qos
    declared_qos = qos_of_label(labels.get(QOS_CLASS))
    if declared_qos is QoSClass.NONE:
        declared_qos = declared.qos
    of_the_node = _is_of_the_node(annotations, declared.priority)
    unbelieved = ""
    if declared_qos is QoSClass.SYSTEM and not of_the_node:
        # Such a pod keeps all CPUs, those of others among them: its owner's label alone does not make it one.
        declared_qos, unbelieved = QoSClass.LS, _NOT_OF_THE_NODE
    qos = effective_qos(declared_qos, kubernetes)
    if declared_qos is QoSClass.NONE and qos is QoSClass.BE and of_the_node:
        qos = QoSClass.SYSTEM
    priority = declared.priority if declared.priority is not None else (pod.priority or None)
    band = effective_class(raw_class(labels.get(PRIORITY_CLASS), priority), qos)
    containers = _containers(pod.containers, declared.containers)
    extended = declared.extended
    if extended is None:
        annotated = read_annotation(annotations.get(EXTENDED_SPEC))
        containers = tuple(_annotated(one, annotated.get(one.name)) for one in containers)
        extended = pod_amounts(annotated.values()) if annotated else pod.extended
    standing = belief.seals.standing(pod.uid, belief.node, declared.created_s, dict(annotations.items))
    own_cpus = _own_cpus(annotations.get(RESOURCE_STATUS)) if qos is not QoSClass.BE else ()
    if own_cpus and belief.checks_requests and standing is not SealStanding.SEALED:
        request_m = declared.cpu_request_m
        if request_m is None:
            request_m = sum(container.cpu_request_m for container in containers)
        raw = raw_class(labels.get(PRIORITY_CLASS), priority)
        may_own = gets_own_cpus(declared_qos, raw, _resource_spec(annotations.get(RESOURCE_SPEC)))
        forged = _unbelieved(standing, own_cpus, request_m if may_own else 0)
        own_cpus, unbelieved = () if forged else own_cpus, unbelieved or forged
    return replace(
        pod,
        namespace=namespace,
        name=declared.name or pod.name,
        qos=qos,
        kubernetes_qos=kubernetes,
        priority_class=band,
        priority=priority if priority is not None else band.default_priority,
        is_confirmed_service=pod.is_confirmed_service or _is_confirmed(declared),
        sub_priority=_sub_priority(labels.get(SUB_PRIORITY)),
        tenant=annotations.get(TENANT) or declared.tenant or pod.tenant or namespace,
        objective_p99_us=objective_us(annotations.get(OBJECTIVE_P99_MS)),
        containers=containers,
        labels=labels,
        annotations=annotations,
        phase=declared.phase or pod.phase,
        has_started=declared.has_started or pod.has_started,
        grace_s=pod.grace_s if declared.grace_s is None else declared.grace_s,
        addresses=declared.addresses or pod.addresses,
        own_cpus=own_cpus,
        has_outgrown_own_cpus=_has_outgrown(pod, own_cpus, declared),
        holdings=standing,
        unbelieved=unbelieved,
        relabelled=relabelled,
        extended=extended,
        workload=_workload(declared.owner, namespace) or pod.workload,
        is_named=pod.is_named or bool(declared.namespace and declared.name),
    )


def _has_outgrown(pod: NodePod, own_cpus: tuple[int, ...], declared: DeclaredPod) -> bool:
    """By declared requests alone: those of groups are rounded."""
    if declared.cpu_request_m is None:
        return bool(own_cpus) and pod.has_outgrown_own_cpus
    return bool(own_cpus) and declared.cpu_request_m > 1000 * len(own_cpus)


def _settled(
    uid: str, labels: Labels, annotations: Labels, declared: DeclaredPod, belief: Belief
) -> tuple[Labels, Labels, tuple[str, ...]]:
    """Labels and annotations with the class, quota and tenant of the bind, and the names of those that were changed
    since.
    """
    notes = dict(annotations.items)
    written = settled_values(dict(labels.items), notes)
    counts = belief.seals.settled(
        uid, belief.node, declared.scheduler, declared.created_s, written, notes.get(SETTLED) or ""
    )
    if counts is None:
        return labels, annotations, ()
    changed = tuple(sorted(dict(written.items() ^ counts.items())))
    return _with(labels, SETTLED_LABELS, counts), _with(annotations, SETTLED_ANNOTATIONS, counts), changed


def _with(found: Labels, names: tuple[str, ...], counts: Values) -> Labels:
    others = {name: value for name, value in found.items if name not in names}
    return Labels.of(others | {name: counts[name] for name in names if name in counts})


def objective_us(text: str | None) -> int | None:
    """The objective of `cotenant.io/objective-p99-ms` in microseconds; None where there is none or it is not a
    decimal above 0.
    """
    if text is None or not _DECIMAL.fullmatch(text):
        return None
    whole, _, part = text.partition(".")
    microseconds = int(whole) * 1000 + int(f"{part:0<3}"[:3] or 0)
    return microseconds or None


def _containers(found: tuple[NodeContainer, ...], declared: tuple[DeclaredContainer, ...]) -> tuple[NodeContainer, ...]:
    """The found containers merged by ID; where only names are declared, by name."""
    by_id = {one.container_id: one for one in declared if one.container_id}
    by_name = {one.name: one for one in declared}
    return tuple(_container(one, by_id.get(one.container_id) or by_name.get(one.name)) for one in found)


def _container(found: NodeContainer, declared: DeclaredContainer | None) -> NodeContainer:
    if declared is None:
        return found

    def chosen(value: int | None, default: int) -> int:
        return default if value is None else value

    return replace(
        found,
        name=declared.name or found.name,
        cpu_request_m=chosen(declared.cpu_request_m, found.cpu_request_m),
        cpu_limit_m=chosen(declared.cpu_limit_m, found.cpu_limit_m),
        memory_request_bytes=chosen(declared.memory_request_bytes, found.memory_request_bytes),
        memory_limit_bytes=chosen(declared.memory_limit_bytes, found.memory_limit_bytes),
        extended_cpu=declared.extended_cpu,
        extended_memory=declared.extended_memory,
    )


def _annotated(found: NodeContainer, amounts: PodInfoAmounts | None) -> NodeContainer:
    """The container with the batch amounts of the pod's annotation."""
    if amounts is None:
        return found
    if amounts.extended_cpu:
        found = replace(found, cpu_request_m=amounts.cpu_request_m, cpu_limit_m=amounts.cpu_limit_m, extended_cpu=True)
    if amounts.extended_memory:
        found = replace(found, memory_limit_bytes=amounts.memory_limit_bytes, extended_memory=True)
    return found


def _is_of_the_node(annotations: Labels, priority: int | None) -> bool:
    """Whether the node itself needs the pod, as kube-proxy: of a critical priority class, or from the kubelet's own
    manifests. It may well request nothing.

    A kubelet never runs what another marks as a mirror pod, so an owner gains nothing by the mark; its other
    annotations an owner can write.
    """
    return (priority or 0) >= _CRITICAL or annotations.get(MIRROR) is not None


def _workload(owner: str, namespace: str) -> str:
    """Kind and namespace/name. A Job's label of its name proves nothing: any pod may carry it, and be judged as one
    of the Job's.
    """
    kind, _, name = owner.partition(" ")
    return f"{kind} {namespace}/{name}" if name else ""


def _sub_priority(text: str | None) -> int:
    try:
        return parse_sub_priority(text)
    except InvalidInput:
        return 0


_NOT_OF_THE_NODE = (
    "the class SYSTEM is for pods that the node needs (of a critical priority class, or static), so LS counts"
)


class _Status(msgspec.Struct, frozen=True):
    cpuset: str = ""


def _unbelieved(standing: SealStanding, cpus: tuple[int, ...], max_m: int) -> str:
    """Why the CPUs of an annotation without a seal do not count; "" where they do. `max_m`: of what it may have as
    CPUs of its own.
    """
    written = f"the CPUs {format_cpus(cpus)} of its annotation"
    if standing is SealStanding.REFUSED:
        return f"{written} were not given by the scheduler: there is no seal of it, or it is of something else"
    if 1000 * len(cpus) > max_m:
        return f"{written} are more than it can have been given: its class and its requests allow {max_m // 1000}"
    return ""


def _resource_spec(text: str | None) -> ResourceSpec | None:
    try:
        return None if text is None else ResourceSpec.parse(text)
    except InvalidInput:
        return None


def _own_cpus(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    try:
        return tuple(parse_cpus(msgspec.json.decode(text, type=_Status).cpuset, RESOURCE_STATUS))
    except (msgspec.DecodeError, UnicodeError, RecursionError, InvalidInput):
        return ()
