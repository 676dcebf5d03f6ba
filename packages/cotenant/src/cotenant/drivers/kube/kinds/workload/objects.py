"""Objects of declared workload kinds, and of the kinds between them and their pods: decoded as far as a declaration
reads them.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta, OwnerReference
from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.workload_kind import WorkloadKind, WorkloadState


class DeclaredObject(ApiStruct, frozen=True):
    """Metadata, and the rest undecoded. An expression reads the annotations, spec and status."""

    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class OwnedObject(ApiStruct, frozen=True):
    """Something that has an owner and owns pods."""

    metadata: ObjectMeta = ObjectMeta()


def kind_of(declared: WorkloadKind) -> Kind[DeclaredObject]:
    """The kind to watch."""
    return Kind(declared.kind, declared.group, declared.version, declared.plural, True, DeclaredObject)


def read_declared(declared: WorkloadKind, obj: DeclaredObject) -> WorkloadState:
    """What an object says, by its kind's declaration. Raises `InvalidInput` for one without a name."""
    meta = obj.metadata
    if not meta.name or not meta.uid:
        raise InvalidInput(declared.kind, f"{meta.namespace}/{meta.name}", "a name and a UID")
    metadata = {"annotations": meta.annotations or {}}
    whole = {"metadata": metadata, "spec": _decoded(obj.spec), "status": _decoded(obj.status)}
    minimum = declared.minimum.of(whole) if declared.minimum is not None else None
    return WorkloadState(
        declared,
        f"{meta.namespace or 'default'}/{meta.name}",
        meta.uid,
        declared.replicas.of(whole),
        minimum or 0,
        bool(declared.paused is not None and declared.paused.of(whole)),
        declared.ready.of(whole) if declared.ready is not None else None,
        meta.labels,
    )


def controller_of(meta: ObjectMeta) -> OwnedBy | None:
    """The controller of an object; None without one."""
    found: tuple[OwnerReference, ...] = meta.owner_references or ()
    return next(
        (
            OwnedBy(reference.api_version, reference.kind, reference.name, reference.uid, True)
            for reference in found
            if reference.controller
        ),
        None,
    )


def _decoded(raw: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
