"""Translation of a pod's CPU and memory into the resources of its class, and the record of them that a node's agent
reads.

Batch and mid pods use what is lent to them, which a kubelet counts apart from CPU and memory. In every container, init
container and in the overhead, `cpu` becomes batch-cpu or mid-cpu in whole milli-CPU (rounded up) and `memory` becomes
batch-memory or mid-memory as it was written; the native names are removed, so the pod is BestEffort to Kubernetes. A
limit without a request becomes the request. Prod, free and pods without a class keep their resources.
Limits: resources of the pod as a whole (`spec.resources`) may only be native ones, so a batch or mid pod that has them
is refused. A RuntimeClass with overhead does not accept a translated overhead.

Source: Koordinator, apis/extension/resource.go,
pkg/webhook/pod/mutating/{cluster_colocation_profile,extended_resource_spec}.go. Upstream records batch amounts only;
mid amounts are recorded here too, since the agent must enforce them as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from cotenant.model.cluster.annotations import EXTENDED_SPEC
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.qos import (
    PriorityClass,
    QoSClass,
    effective_class,
    effective_qos,
    kubernetes_qos,
    qos_of_label,
    raw_class,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.quantities import Quantity, parse_quantity
from cotenant.model.resources import (
    BATCH_CPU,
    BATCH_MEMORY,
    CPU_NAME,
    MEMORY_NAME,
    MID_CPU,
    MID_MEMORY,
    Amounts,
    ContainerAmounts,
)
from cotenant.policy.admission.documents import (
    AdmissionRefusal,
    Document,
    annotations_of,
    containers_of,
    labels_of,
    listed,
    mapping,
    section,
)

NAMES = {
    PriorityClass.BATCH: (BATCH_CPU, BATCH_MEMORY),
    PriorityClass.MID: (MID_CPU, MID_MEMORY),
}
_RECORDED = (BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY)
_NATIVE = (CPU_NAME, MEMORY_NAME)


def class_of(pod: Document) -> PriorityClass:
    """The pod's class: its label, else the band of its priority, else that of its QoS (the label, else Kubernetes'
    own class).
    """
    labels, spec = labels_of(pod), mapping(pod, "spec")
    priority = spec.get("priority")
    raw = raw_class(labels.get(PRIORITY_CLASS), priority if type(priority) is int else None)
    if raw is not PriorityClass.NONE:
        return raw
    declared = qos_of_label(labels.get(QOS_CLASS))
    if declared is QoSClass.NONE:
        declared = effective_qos(declared, kubernetes_qos(list(_native_amounts(spec))))
    return effective_class(raw, declared)


def translate(pod: Document) -> tuple[bool, AdmissionRefusal | None]:
    """Translate the resources of a batch or mid pod in place; (whether any was there, refusal). Raises
    `InvalidInput` for a quantity that cannot be read.
    """
    names = NAMES.get(class_of(pod))
    if names is None:
        return False, None
    spec = mapping(pod, "spec")
    whole = mapping(spec, "resources", "spec")
    for kind in ("requests", "limits"):
        if any(name in mapping(whole, kind, "spec.resources") for name in _NATIVE):
            text = (
                "the cpu and memory of a pod as a whole cannot be translated to those of its class; set them by "
                "container"
            )
            return False, AdmissionRefusal("pod-level-resources", text, f"spec.resources.{kind}")
    changed = False
    for where, container in containers_of(spec):
        resources = mapping(container, "resources", where)
        requests = mapping(resources, "requests", f"{where}.resources")
        limits = mapping(resources, "limits", f"{where}.resources")
        changed |= _renamed(requests, names, f"{where}.resources.requests")
        changed |= _renamed(limits, names, f"{where}.resources.limits")
        missing = {name: limits[name] for name in names if name in limits and name not in requests}
        if missing:
            section(resources, "requests").update(missing)
            changed = True
    changed |= _renamed(mapping(spec, "overhead", "spec"), names, "spec.overhead")
    return changed, None


def left_native(pod: Document) -> list[str]:
    """The containers that ask for native CPU or memory in a pod whose others ask for lent ones: Kubernetes does not
    count it as BestEffort.
    """
    native, lent = [], False
    for where, container in containers_of(mapping(pod, "spec")):
        resources = mapping(container, "resources", where)
        asked = {**mapping(resources, "requests", where), **mapping(resources, "limits", where)}
        lent |= any(name in asked for name in _RECORDED)
        if any(name in asked for name in _NATIVE):
            native.append(str(container.get("name", "")))
    return native if lent else []


def record(pod: Document) -> AdmissionRefusal | None:
    """Write the containers' batch and mid amounts into the pod's annotation, where it has any."""
    containers: Document = {}
    for index, container in enumerate(listed(mapping(pod, "spec"), "containers", "spec")):
        where = f"spec.containers[{index}]"
        resources = mapping(container, "resources", where)
        amounts = {
            kind: found
            for kind in ("requests", "limits")
            if (found := _recorded(mapping(resources, kind, f"{where}.resources"), f"{where}.resources.{kind}"))
        }
        if amounts:
            containers[str(container.get("name", ""))] = amounts
    if not containers:
        return None
    written = annotations_of(pod).get(EXTENDED_SPEC)
    made = {"containers": containers}
    if written:
        try:
            if json_object(f"annotation {EXTENDED_SPEC}", written) == made:
                return None
        except InvalidInput as error:
            return AdmissionRefusal("extended-resource-spec", str(error), f"metadata.annotations.{EXTENDED_SPEC}", 400)
    section(section(pod, "metadata"), "annotations")[EXTENDED_SPEC] = msgspec.json.encode(made, order="sorted").decode()
    return None


def _recorded(amounts: Document, where: str) -> dict[str, str]:
    return {name: _canonical(amounts[name], f"{where}.{name}") for name in _RECORDED if amounts.get(name) is not None}


def _renamed(amounts: Document, names: tuple[str, str], where: str) -> bool:
    cpu, memory = amounts.get(CPU_NAME), amounts.get(MEMORY_NAME)
    if cpu is not None:
        amounts[names[0]] = _milli(cpu, f"{where}.cpu")
        del amounts[CPU_NAME]
    if memory is not None:
        amounts[names[1]] = memory
        del amounts[MEMORY_NAME]
    return cpu is not None or memory is not None


def _canonical(text: object, where: str) -> str:
    return str(_quantity(_scalar(text, where), where))


def _milli(text: object, where: str) -> str:
    return str(_quantity(_scalar(text, where), where).milli(where))


def _scalar(value: object, where: str) -> str | int | float:
    """What may be looked up; a map or a list has no hash. Raises `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(where, value, "a quantity")
    return value


@lru_cache(maxsize=4096, typed=True)
def _quantity(text: str | int | float, where: str) -> Quantity:
    """Pods of one template ask for the same, again and again."""
    return parse_quantity(text, where)


def _native_amounts(spec: Document) -> Iterator[ContainerAmounts]:
    for where, container in containers_of(spec):
        resources = mapping(container, "resources", where)
        requests, limits = (_natives(mapping(resources, kind, where), where) for kind in ("requests", "limits"))
        yield ContainerAmounts(requests, limits)


def _natives(amounts: Document, where: str) -> Amounts:
    found = {name: amounts[name] for name in _NATIVE if amounts.get(name) is not None}
    return Amounts.parse(found, f"{where}.resources")
