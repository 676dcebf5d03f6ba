"""QoS classes and priority bands of the co-location protocol.

A pod's class decides which resources it may borrow, how it may be throttled, and its order; users declare it with
labels, with `spec.priority`, or not at all. Two enumerations and pure defaulting functions.
Limits: a label with an unknown value counts as absent, as it does upstream, so that foreign manifests keep working.

Source: Koordinator's protocol (QoS classes, priority bands, their defaults and legal pairs); Kubernetes' QoS classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, ContainerAmounts

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class QoSClass(StrEnum):
    """How a pod is treated on its node. The value is that of the label."""

    LSE = "LSE"  # latency-sensitive, exclusive: own CPUs, never lent
    LSR = "LSR"  # latency-sensitive, reserved: own CPUs, lent while idle
    LS = "LS"  # latency-sensitive, on the shared pool
    BE = "BE"  # best effort
    SYSTEM = "SYSTEM"  # node agents
    NONE = ""


class PriorityClass(StrEnum):
    """A band of `spec.priority`. The value is the short name; `label` gives the label's value."""

    PROD = "prod"
    MID = "mid"
    BATCH = "batch"
    FREE = "free"
    NONE = ""

    @property
    def label(self) -> str:
        """The value of the priority-class label and the name of the PriorityClass object, e.g. `koord-prod`."""
        return f"koord-{self.value}" if self.value else ""

    @property
    def default_priority(self) -> int:
        """The middle of the band, 0 outside all bands."""
        return _DEFAULT_PRIORITY[self]


class KubernetesQoS(StrEnum):
    """The class that Kubernetes derives from requests and limits."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


# Both ends are inclusive. Other values, including the gaps and the system's 2e9, are in no band.
BANDS: dict[PriorityClass, tuple[int, int]] = {
    PriorityClass.PROD: (9000, 9999),
    PriorityClass.MID: (7000, 7999),
    PriorityClass.BATCH: (5000, 5999),
    PriorityClass.FREE: (3000, 3999),
}
_DEFAULT_PRIORITY = {
    PriorityClass.PROD: 9500,
    PriorityClass.MID: 7500,
    PriorityClass.BATCH: 5500,
    PriorityClass.FREE: 3500,
    PriorityClass.NONE: 0,
}
_QOS_BY_LABEL = {qos.value: qos for qos in QoSClass}
_CLASS_BY_LABEL = {cls.label: cls for cls in PriorityClass}
_CLASS_BY_QOS = {
    QoSClass.SYSTEM: PriorityClass.PROD,
    QoSClass.LSE: PriorityClass.PROD,
    QoSClass.LSR: PriorityClass.PROD,
    QoSClass.LS: PriorityClass.PROD,
    QoSClass.BE: PriorityClass.BATCH,
    QoSClass.NONE: PriorityClass.NONE,
}
_QOS_BY_KUBERNETES = {
    KubernetesQoS.GUARANTEED: QoSClass.LSR,
    KubernetesQoS.BURSTABLE: QoSClass.LS,
    KubernetesQoS.BEST_EFFORT: QoSClass.BE,
}


def qos_of_label(label: str | None) -> QoSClass:
    """The class that a QoS label names; NONE where it is absent or unknown."""
    return _QOS_BY_LABEL.get(label or "", QoSClass.NONE)


def class_of_label(label: str | None) -> PriorityClass:
    """The class that a priority-class label names (`koord-prod`); NONE where it is absent or unknown."""
    return _CLASS_BY_LABEL.get(label or "", PriorityClass.NONE)


def class_of_priority(priority: int | None) -> PriorityClass:
    """The band that contains `spec.priority`."""
    if priority is not None:
        for band, (low, high) in BANDS.items():
            if low <= priority <= high:
                return band
    return PriorityClass.NONE


def raw_class(label: str | None, priority: int | None) -> PriorityClass:
    """The declared class: the label if it is set (even to an unknown name), else the band of the priority."""
    return class_of_label(label) if label else class_of_priority(priority)


def effective_class(raw: PriorityClass, qos: QoSClass) -> PriorityClass:
    """The declared class, or else the default of the QoS class."""
    return raw if raw is not PriorityClass.NONE else _CLASS_BY_QOS[qos]


def kubernetes_qos(containers: Sequence[ContainerAmounts]) -> KubernetesQoS:
    """Guaranteed: every container limits CPU and memory and requests no less; BestEffort: no container mentions
    either; else Burstable.
    """
    mentioned = False
    guaranteed = bool(containers)
    for container in containers:
        for name in (CPU_NAME, MEMORY_NAME):
            request, limit = container.effective().get(name), container.limits.get(name)
            mentioned = mentioned or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    if not mentioned:
        return KubernetesQoS.BEST_EFFORT
    return KubernetesQoS.GUARANTEED if guaranteed else KubernetesQoS.BURSTABLE


def effective_qos(declared: QoSClass, kubernetes: KubernetesQoS) -> QoSClass:
    """The declared class, or else the default of Kubernetes' own class."""
    return declared if declared is not QoSClass.NONE else _QOS_BY_KUBERNETES[kubernetes]


def parse_sub_priority(label: str | None, field: str = "koordinator.sh/priority") -> int:
    """Order within a band: the label's integer, 0 where it is absent; raises `InvalidInput` where it is not an
    integer.
    """
    if label is None or label == "":
        return 0
    if not _INTEGER.fullmatch(label) or abs(int(label)) >= 2**63:
        raise InvalidInput(field, label, "an integer, as text")
    return int(label)
