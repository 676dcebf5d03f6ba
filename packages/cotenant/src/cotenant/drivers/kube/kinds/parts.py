"""Structs that several kinds have in common: metadata, references, requested resources, conditions, a phase.

Source: Kubernetes API reference (ObjectMeta, OwnerReference, ObjectReference, ResourceRequirements), v1.36.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Quantities, Strings, Text, Time


class Something(ApiStruct, frozen=True):
    """An object of which only the presence matters."""


class NamedPart(ApiStruct, frozen=True):
    """Something with a name: a scheduling gate, a resource claim."""

    name: str = ""


class OwnerReference(ApiStruct, frozen=True):
    """The object that this one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class ObjectMeta(ApiStruct, frozen=True):
    """The metadata of any object. `resource_version` is opaque by the API conventions; versions are compared only
    where both are numbers.
    """

    name: Text = None
    generate_name: Text = None
    namespace: Text = None
    uid: Text = None
    resource_version: Text = None
    generation: int | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Strings = None
    annotations: Strings = None
    owner_references: tuple[OwnerReference, ...] | None = None


class ObjectReference(ApiStruct, frozen=True):
    """A reference to another object."""

    api_version: Text = None
    kind: Text = None
    namespace: Text = None
    name: Text = None
    uid: Text = None
    resource_version: Text = None


class Resources(ApiStruct, frozen=True):
    """ResourceRequirements."""

    requests: Quantities = None
    limits: Quantities = None
    claims: tuple[Something, ...] | None = None


class Condition(ApiStruct, frozen=True):
    """A condition of a pod or a node."""

    type: str = ""
    status: str = ""
    reason: Text = None


class DatedCondition(ApiStruct, frozen=True):
    """A condition with what it says and since when."""

    type: str = ""
    status: str = ""
    reason: Text = None
    message: Text = None
    last_transition_time: Text = None


class PhaseStatus(ApiStruct, frozen=True):
    """A status of which only the phase is used."""

    phase: Text = None
