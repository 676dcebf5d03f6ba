"""The behaviour of a kind on writes: the interface between the verbs and each kind.

A pod's spec is nearly immutable, a Job's status belongs to its controller, a namespace is deleted in stages. One class
whose defaults suit most kinds and custom resources, overridden per kind; it sees plain documents and a `ObjectLookup`
for looking up other objects.
Sources: the strategies of each kind as the Kubernetes API reference and API conventions describe them (status is
written through the status subresource only; generation counts changes of the desired state; metadata of the status
subresource of custom resources is ignored).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant_local.apiserver.storage.stored import StoredObject
from cotenant_local.apiserver.storage.table import ObjectTable
from cotenant_local.apiserver.verbs import object_meta


class ObjectLookup(Protocol):
    """What a behaviour may look up during a write."""

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Manifest | None:
        """One stored object, as a new document."""

    def scan(self, group: str, plural: str, namespace: str = "") -> Iterator[Manifest]:
        """All stored objects of a kind, as new documents."""

    def version(self, group: str, plural: str) -> int:
        """A counter that changes whenever an object of a kind does."""

    def now(self) -> float:
        """Unix seconds."""


class KindBehaviour:
    """The default: no generation, no status of its own, immediate deletion."""

    has_generation = False  # metadata.generation is maintained
    has_status = False  # the status is written through the status subresource only
    keeps_first_status = False  # a create may set the status
    is_status_metadata_kept = (
        True  # labels, annotations, finalizers may be written through status (not for custom resources)
    )
    may_create_on_update = False  # PUT of an unknown name creates
    needs_version = False  # PUT requires a resourceVersion
    default_propagation = "Background"  # of a delete without a propagation policy

    def __init__(
        self,
        *,
        has_generation: bool | None = None,
        has_status: bool | None = None,
        may_create_on_update: bool | None = None,
        needs_version: bool | None = None,
    ) -> None:
        """Options not given keep the class's value."""
        if has_generation is not None:
            self.has_generation = has_generation
        if has_status is not None:
            self.has_status = has_status
        if may_create_on_update is not None:
            self.may_create_on_update = may_create_on_update
        if needs_version is not None:
            self.needs_version = needs_version

    def admit(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Built-in mutating admission, in place, before webhooks. `old` is None on create. Raises ApiError to
        refuse.
        """

    def admit_last(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> None:
        """Built-in validating admission. Raises ApiError to refuse."""

    def warnings(self, obj: Manifest, old: Manifest | None) -> list[str]:
        """Warnings for the client about a valid write of the object. `old` is None on create."""
        return []

    def check_delete(self, obj: Manifest) -> None:
        """Check whether an object may be deleted. Raises ApiError 403."""

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Set system fields of a new object, in place, after admission."""

    def prepare_update(self, obj: Manifest, old: Manifest, world: ObjectLookup) -> None:
        """Adjust an update before validation, in place. The status has already been reset to the old one."""

    def prepare_status(self, obj: Manifest, old: Manifest) -> None:
        """Adjust a status update before validation, in place. Everything but the status has already been reset."""

    def merge(self, subresource: str, new: Manifest, base: Manifest) -> Manifest:
        """Apply a write through another subresource: `base` (a copy of the stored object) with the parts of `new`
        it covers. Raises ApiError 405.
        """
        raise ApiError(
            405, "MethodNotAllowed", f"the server does not allow this method on the requested resource ({subresource})"
        )

    def check_create(self, obj: Manifest) -> list[FieldError]:
        """Validation errors of a new object beyond its schema."""
        return []

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
        """Validation errors for changes that are not allowed."""
        return []

    def check_related(self, obj: Manifest, old: Manifest | None, world: ObjectLookup) -> list[FieldError]:
        """Validation errors that other objects decide, of any write but a scale. `old` is None on create."""
        return []

    def grace_s(self, obj: Manifest, requested: int | None) -> int | None:
        """The grace period of a deletion in seconds; None for kinds without graceful deletion."""
        return None

    def prepare_delete(self, obj: Manifest) -> None:
        """Adjust an object when its deletion begins, in place."""

    def is_removable(self, obj: Manifest) -> bool:
        """Whether an object without finalizers and grace may be removed (a namespace also has finalizers in its
        spec).
        """
        return True

    def is_done(self, obj: Manifest) -> bool:
        """Whether an object being deleted can be removed now."""
        return object_meta.is_done(obj) and self.is_removable(obj)

    def expired(self, table: ObjectTable, written: StoredObject, now: float) -> list[StoredObject]:
        """Expired objects of the kind, found when another one is written."""
        return []

    def desired_state(self, obj: Manifest) -> object:
        """The part of an object whose changes increment the generation."""
        return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}


class SpecBehaviour(KindBehaviour):
    """A kind with a spec, a generation, and a status that controllers write."""

    has_generation = True
    has_status = True

    def __init__(self, first_status: Manifest | None = None, **options: bool) -> None:
        """`first_status`: the status of a new object."""
        super().__init__(**options)
        self._first_status = first_status

    def prepare_create(self, obj: Manifest, world: ObjectLookup) -> None:
        """Set the first status, if the kind has one."""
        if self._first_status is not None:
            obj["status"] = dict(self._first_status)

    def desired_state(self, obj: Manifest) -> object:
        """The spec."""
        return obj.get("spec")


class CustomBehaviour(KindBehaviour):
    """A custom resource."""

    has_generation = True
    is_status_metadata_kept = False
    needs_version = True

    def desired_state(self, obj: Manifest) -> object:
        """Everything but metadata, and except the status if it is a subresource."""
        left_out = (
            ("metadata", "apiVersion", "kind", "status") if self.has_status else ("metadata", "apiVersion", "kind")
        )
        return {key: value for key, value in obj.items() if key not in left_out}
