"""Warnings for pods that Koordinator's webhook would refuse: classes, priorities and resources that do not go together.

A pod such as a best-effort one at production priority runs on the local cluster and is refused on a cluster with
Koordinator. The rules of `model/cluster/admission.py` as warnings of the API server, one for each broken rule; the pod
is stored, because clusters without the webhook accept it.
Limits: an update warns only of what it changes.
Source: Koordinator's validating webhook for pods.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.cluster.admission import AdmissionOperation, Declared, admit
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS, SUB_PRIORITY
from cotenant.model.cluster.qos import qos_of_label, raw_class
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, PODS_NAME, Amounts, ContainerAmounts, pod_requests

_LABELS = (QOS_CLASS, PRIORITY_CLASS, SUB_PRIORITY)
_BATCH = (BATCH_CPU, BATCH_MEMORY)


def warnings(new: Manifest, old: Manifest | None) -> list[str]:
    """A sentence for each rule that creating `new`, or changing `old` into it, breaks. Both are complete, valid
    pods.
    """
    labels = _labels(new)
    if old is None:
        if QOS_CLASS not in labels and not any(name in requests for requests in _all_requests(new) for name in _BATCH):
            return []  # nearly all pods: no rule is about them
        return [
            f"Koordinator refuses this pod: {broken.message}"
            for broken in admit(AdmissionOperation.CREATE, _declared(new))
        ]
    before = _labels(old)
    if all(labels.get(name) == before.get(name) for name in _LABELS):
        return []
    declared = _declared(new)
    found = admit(AdmissionOperation.UPDATE, declared, _declared(old))
    return [f"Koordinator refuses this update: {broken.message}" for broken in found]


def _labels(pod: Manifest) -> dict[str, str]:
    return pod["metadata"].get("labels") or {}


def _containers(pod: Manifest, group: str) -> Iterable[Manifest]:
    return pod["spec"].get(group) or ()


def _all_requests(pod: Manifest) -> Iterable[Manifest]:
    for group in ("containers", "initContainers"):
        for container in _containers(pod, group):
            yield (container.get("resources") or {}).get("requests") or {}


def _declared(pod: Manifest) -> Declared:
    labels, spec = _labels(pod), pod["spec"]
    return Declared(
        qos=qos_of_label(labels.get(QOS_CLASS)),
        priority_class=raw_class(labels.get(PRIORITY_CLASS), spec.get("priority")),
        sub_priority=labels.get(SUB_PRIORITY),
        requests=pod_requests(
            [_amounts(container) for container in _containers(pod, "containers")],
            [_amounts(container) for container in _containers(pod, "initContainers")],
            _parsed(spec.get("overhead")),
        ),
    )


def _amounts(container: Manifest) -> ContainerAmounts:
    requests = (container.get("resources") or {}).get("requests")
    return ContainerAmounts(_parsed(requests), is_sidecar=container.get("restartPolicy") == "Always")


def _parsed(written: Manifest | None) -> Amounts:
    try:
        return Amounts.parse({name: amount for name, amount in (written or {}).items() if name != PODS_NAME})
    except InvalidInput:
        return Amounts.parse({})  # beyond what any machine has
