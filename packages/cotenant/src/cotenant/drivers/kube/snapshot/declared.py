"""Workloads of declared kinds in a copy: of an object its metadata and the numbers that its declaration reads, worked
out when the copy is made. Nothing else of its spec is kept.

The numbers stand in the copied object's status. A copy is read by the declaration that says so (`as_copied`), on any
machine, without the file that declared the kind.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.drivers.kube.kinds.kind import ApiStruct
from cotenant.drivers.kube.kinds.workload.declarations import packaged
from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.model.groups.object_number import ObjectNumber
from cotenant.model.groups.workload_kind import WorkloadKind


class CopiedNumbers(ApiStruct, frozen=True):
    """The status of a copied object."""

    replicas: int | None = None
    minimum: int | None = None
    paused: int | None = None
    ready: int | None = None


def as_copied(kind: WorkloadKind) -> WorkloadKind:
    """The declaration of the objects of a copy."""
    return replace(
        kind,
        replicas=ObjectNumber("status.replicas"),
        minimum=kind.minimum and ObjectNumber("status.minimum"),
        paused=kind.paused and ObjectNumber("status.paused"),
        ready=kind.ready and ObjectNumber("status.ready"),
    )


def numbered(kind: WorkloadKind, obj: dict[str, Json]) -> dict[str, Json]:
    """The object as a copy has it."""
    numbers = {"replicas": kind.replicas, "minimum": kind.minimum, "paused": kind.paused, "ready": kind.ready}
    found: dict[str, Json] = {
        name: value for name, number in numbers.items() if number is not None and (value := number.of(obj)) is not None
    }
    return {"metadata": obj.get("metadata"), "status": found}


PACKAGED = tuple(as_copied(kind) for kind in packaged())
