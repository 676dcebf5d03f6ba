"""Validation of pods: the classes, priorities and resources of the co-location protocol, as a webhook refuses them.

A pod that declares an impossible combination breaks what a node guarantees to others. The rules of
model/cluster/admission.py on what the pod declares, and those that need the document: an unknown QoS class, the
scheduler's own annotation. All broken rules are returned, each with the field that is at fault.
Limits: rules about quotas are in policy/quota/pods.py, rules about devices in devices.py.

Source: Koordinator, pkg/webhook/pod/validating. Upstream reads an unknown QoS class as none; it is refused here, with
the values that exist.
"""

from __future__ import annotations

from functools import lru_cache

from cotenant.model.cluster.admission import AdmissionOperation, Declared, admit
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY
from cotenant.model.cluster.qos import QoSClass, qos_of_label, raw_class
from cotenant.model.resources import PODS_NAME, Amounts, ContainerAmounts, pod_requests
from cotenant.policy.admission.documents import (
    AdmissionRefusal,
    Document,
    annotations_of,
    containers_of,
    labels_of,
    listed,
    mapping,
)

RESERVE_POD = "scheduling.koordinator.sh/reserve-pod"  # annotation of upstream's stand-in for a reservation
_FIELDS = {
    "qos-immutable": f"metadata.labels.{QOS_CLASS}",
    "priority-class-immutable": "spec.priorityClassName",
    "sub-priority-immutable": f"metadata.labels.{SUB_PRIORITY}",
    "unknown-qos": f"metadata.labels.{QOS_CLASS}",
    "batch-resources-need-BE": f"metadata.labels.{QOS_CLASS}",
    "LSR-LSE-need-integer-cpus": "spec.containers",
}


def check_pod(
    pod: Document, old: Document | None = None, *, may_change_sub_priority: bool = False
) -> list[AdmissionRefusal]:
    """Every rule that creating the pod, or changing `old` into it, breaks. Raises `InvalidInput` for a pod that
    cannot be read.
    """
    if old is not None and _declares_alike(pod, old):
        return []
    found = []
    if RESERVE_POD in annotations_of(pod):
        text = f"the annotation {RESERVE_POD} is for the scheduler alone"
        found.append(AdmissionRefusal("reserved-annotation", text, f"metadata.annotations.{RESERVE_POD}"))
    label = labels_of(pod).get(QOS_CLASS)
    if label and qos_of_label(label) is QoSClass.NONE and (old is None or labels_of(old).get(QOS_CLASS) != label):
        known = ", ".join(qos.value for qos in QoSClass if qos)
        text = f"there is no QoS class {label!r}: expected one of {known}"
        found.append(AdmissionRefusal("unknown-qos", text, _FIELDS["unknown-qos"]))
    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    before = declared(old) if old is not None else None
    broken = admit(operation, declared(pod), before, may_change_sub_priority)
    fields = (_FIELDS.get(violation.rule, f"metadata.labels.{QOS_CLASS}") for violation in broken)
    return [
        *found,
        *(
            AdmissionRefusal(violation.rule, violation.message, field)
            for violation, field in zip(broken, fields, strict=True)
        ),
    ]


def _declares_alike(pod: Document, old: Document) -> bool:
    """Whether an update leaves everything that the rules are about; then nothing is judged, so that a pod from
    before the webhook can still be changed and removed.
    """
    labels, before = labels_of(pod), labels_of(old)
    if any(labels.get(name) != before.get(name) for name in (QOS_CLASS, PRIORITY_CLASS, SUB_PRIORITY)):
        return False
    if (RESERVE_POD in annotations_of(pod)) != (RESERVE_POD in annotations_of(old)):
        return False
    spec, earlier = mapping(pod, "spec"), mapping(old, "spec")
    return spec.get("priority") == earlier.get("priority") and _resources(spec) == _resources(earlier)


def _resources(spec: Document) -> list[object]:
    return [spec.get("overhead"), spec.get("resources"), *(entry.get("resources") for _, entry in containers_of(spec))]


def declared(pod: Document) -> Declared:
    """What a pod declares. Raises `InvalidInput` for a quantity that cannot be read."""
    labels, spec = labels_of(pod), mapping(pod, "spec")
    priority = spec.get("priority")
    return Declared(
        qos=qos_of_label(labels.get(QOS_CLASS)),
        priority_class=raw_class(labels.get(PRIORITY_CLASS), priority if type(priority) is int else None),
        sub_priority=labels.get(SUB_PRIORITY),
        requests=requests_of(pod),
    )


def requests_of(pod: Document) -> Amounts:
    """The effective request of a pod, overhead included. Raises `InvalidInput` for a quantity that cannot be read."""
    spec = mapping(pod, "spec")
    whole = mapping(spec, "resources", "spec")
    return pod_requests(
        _containers(spec, "containers"),
        _containers(spec, "initContainers"),
        _parsed(mapping(spec, "overhead", "spec"), "spec.overhead"),
        _parsed(mapping(whole, "requests", "spec.resources"), "spec.resources.requests"),
    )


def _containers(spec: Document, key: str) -> list[ContainerAmounts]:
    found = []
    for index, container in enumerate(listed(spec, key, "spec")):
        where = f"spec.{key}[{index}].resources"
        resources = mapping(container, "resources", where)
        requests = _parsed(mapping(resources, "requests", where), f"{where}.requests")
        limits = _parsed(mapping(resources, "limits", where), f"{where}.limits")
        found.append(ContainerAmounts(requests, limits, is_sidecar=container.get("restartPolicy") == "Always"))
    return found


def _parsed(written: Document, where: str) -> Amounts:
    if not written:
        return Amounts()
    given = {name: amount for name, amount in written.items() if amount is not None and name != PODS_NAME}
    if all(type(amount) is str for amount in given.values()):
        return _known(tuple(given.items()), where)
    return Amounts.parse(given, where)


@lru_cache(maxsize=4096)
def _known(written: tuple[tuple[str, str], ...], where: str) -> Amounts:
    """Pods of one template ask for the same, again and again."""
    return Amounts.parse(dict(written), where)
