"""Admission rules for pods: QoS class, priority and co-location resources, on create and update.

The API server would accept an illegal combination (a best-effort pod at production priority, a pinned pod with half a
CPU), which breaks the node's guarantees later. One pure function that returns every violated rule, so the user sees all
of them at once.
Limits: it checks what was *declared*, before defaults; pods without any class pass, as they do upstream. Upstream lets
LSE below production priority pass; here the rule of LSR is that of LSE too.

Source: Koordinator's validating webhook for co-location profiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.resources import BATCH_CPU, BATCH_MEMORY, CPU_NAME, NOTHING, Amounts


class AdmissionOperation(StrEnum):
    """The operation under review."""

    CREATE = "create"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Declared:
    """What a pod declares: labels as written, the raw priority class, and its requests without any default."""

    qos: QoSClass = QoSClass.NONE
    priority_class: PriorityClass = PriorityClass.NONE
    sub_priority: str | None = None
    requests: Amounts = NOTHING


@dataclass(frozen=True, slots=True)
class AdmissionViolation:
    """A violated rule, and a message for the user."""

    rule: str
    message: str


def admit(
    operation: AdmissionOperation, new: Declared, old: Declared | None = None, skip_sub_priority_check: bool = False
) -> tuple[AdmissionViolation, ...]:
    """Every rule that creating `new`, or changing `old` into `new`, violates; empty = allowed.

    Raises ValueError when an update comes without the old pod.
    """
    found: list[AdmissionViolation] = []
    if operation is AdmissionOperation.UPDATE:
        if old is None:
            raise ValueError("an update needs the old pod")
        if new.qos is not old.qos:
            found.append(_changed("qos-immutable", "the QoS class", old.qos, new.qos))
        if new.priority_class is not old.priority_class:
            found.append(
                _changed("priority-class-immutable", "the priority class", old.priority_class, new.priority_class)
            )
        if not skip_sub_priority_check and (new.sub_priority or "") != (old.sub_priority or ""):
            found.append(
                _changed("sub-priority-immutable", "the priority within the class", old.sub_priority, new.sub_priority)
            )

    shown = new.priority_class or "none"
    if (new.requests.get(BATCH_CPU) or new.requests.get(BATCH_MEMORY)) and new.qos is not QoSClass.BE:
        found.append(
            AdmissionViolation(
                "batch-resources-need-BE", f"batch resources are for QoS class BE only, not for {new.qos or 'none'}"
            )
        )
    if new.qos is QoSClass.BE and new.priority_class in (PriorityClass.NONE, PriorityClass.PROD):
        found.append(
            AdmissionViolation(
                "BE-requires-mid-batch-or-free", f"QoS class BE needs priority mid, batch or free, not {shown}"
            )
        )
    if new.qos in (QoSClass.LSR, QoSClass.LSE) and new.priority_class is not PriorityClass.PROD:
        found.append(
            AdmissionViolation(f"{new.qos}-requires-prod", f"QoS class {new.qos} needs priority prod, not {shown}")
        )
    if new.qos in (QoSClass.LSR, QoSClass.LSE):
        cpu_milli = new.requests.get(CPU_NAME)
        if cpu_milli == 0 or cpu_milli % 1000:
            found.append(
                AdmissionViolation(
                    "LSR-LSE-need-integer-cpus",
                    f"QoS class {new.qos} pins whole CPUs: request at least one and no fraction, not {cpu_milli}m",
                )
            )
    return tuple(found)


def _changed(rule: str, what: str, old: str | None, new: str | None) -> AdmissionViolation:
    return AdmissionViolation(rule, f"{what} cannot change after creation ({old or 'none'} -> {new or 'none'})")
