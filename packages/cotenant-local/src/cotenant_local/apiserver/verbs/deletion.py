"""The effect of a delete request on an object: remove it, mark it, or keep it because it is marked already.

Grace, finalizers and propagation interact. A pure function from the object and the request to the next step.
Sources: Kubernetes documentation "Finalizers", "Garbage Collection", "Pod Lifecycle: termination".
"""

from __future__ import annotations

import calendar
import time
from dataclasses import dataclass
from enum import StrEnum

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.contract import DeletionOptions
from cotenant_local.apiserver.verbs.context import timestamp

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class DeletionStep(StrEnum):
    """The effect of a deletion."""

    REMOVE = "remove"  # remove the object now
    MARK = "mark"  # store the changed object
    KEEP = "keep"  # being deleted already: nothing to write


@dataclass(frozen=True, slots=True)
class DeletionDecision:
    """The step, with the resulting object."""

    step: DeletionStep
    obj: Manifest


def _finalizers(present: list[str], propagation: str, default: str) -> list[str]:
    if not propagation:
        if default != "Orphan" or ORPHAN in present or FOREGROUND in present:
            return present
        propagation = default
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    if propagation == "Orphan":
        kept.append(ORPHAN)
    elif propagation == "Foreground":
        kept.append(FOREGROUND)
    return kept


def check_options(options: DeletionOptions) -> None:
    """Raises ApiError 422 for an unknown policy."""
    if options.propagation not in ("", "Orphan", "Background", "Foreground"):
        known = '"Foreground", "Background", "Orphan", "nil"'
        why = f'Unsupported value: "{options.propagation}": supported values: {known}'
        raise ApiError(
            422,
            "Invalid",
            f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: {why}',
            group="meta.k8s.io",
            kind="DeleteOptions",
            causes=(FieldError("FieldValueNotSupported", why, "propagationPolicy"),),
        )


def _seconds(stamp: str) -> int:
    return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))


def decide(
    obj: Manifest,
    options: DeletionOptions,
    grace_s: int | None,
    now: float,
    *,
    is_removable: bool = True,
    default_propagation: str = "Background",
) -> DeletionDecision:
    """The next step. `grace_s` is the grace period that the kind allows (None: no graceful deletion). Changes `obj` in
    place.

    `default_propagation` applies if neither the request nor the object sets one. `is_removable` False: the kind waits
    for something else (a namespace's content).

    A running grace period may only be shortened; the deletion timestamp moves with it, but not into the past.
    """
    metadata = obj["metadata"]
    before = list(metadata.get("finalizers") or ())
    finalizers = _finalizers(before, options.propagation, default_propagation)
    changed = finalizers != before
    if changed:
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
    is_marked = bool(metadata.get("deletionTimestamp"))
    grace = max(1, grace_s) if grace_s is not None and grace_s < 0 else (grace_s or 0)
    if is_marked:
        running = int(metadata.get("deletionGracePeriodSeconds") or 0)
        if running > 0:
            if options.grace_s is None or grace >= running:
                return DeletionDecision(DeletionStep.MARK if changed else DeletionStep.KEEP, obj)
            due = _seconds(metadata["deletionTimestamp"]) - running + grace
            if due < int(now):
                due = int(now)
                grace = min(grace, 1)
            metadata["deletionTimestamp"] = timestamp(due)
            metadata["deletionGracePeriodSeconds"] = grace
            if grace > 0 or finalizers or not is_removable:
                return DeletionDecision(DeletionStep.MARK, obj)
            return DeletionDecision(DeletionStep.REMOVE, obj)
        if not finalizers and is_removable:
            return DeletionDecision(DeletionStep.REMOVE, obj)
        return DeletionDecision(DeletionStep.MARK if changed else DeletionStep.KEEP, obj)
    if grace > 0 or finalizers or not is_removable:
        metadata["deletionTimestamp"] = timestamp(now + grace)
        if grace > 0 or is_removable:
            metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
        return DeletionDecision(DeletionStep.MARK, obj)
    if grace_s is not None:  # with graceful deletion the last state also carries a deletion timestamp
        metadata["deletionTimestamp"] = timestamp(now)
        metadata["deletionGracePeriodSeconds"] = 0
        if metadata.get("generation"):
            metadata["generation"] += 1
    return DeletionDecision(DeletionStep.REMOVE, obj)
