"""How the objects of a kind behave when they are written: the seam between the verbs and each kind.

Problem: a pod's spec is nearly immutable, a Job's status is the controller's, a namespace dies slowly. Choice: one class whose defaults
suit most kinds and custom resources, overridden where a kind differs; it sees plain documents and a `World` to look other objects up in.
Sources: the strategies of each kind as the Kubernetes API reference and API conventions describe them (status is written through the
status subresource only; generation counts changes of the wanted state; metadata of the status subresource of custom resources is ignored).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cotenant.local.apiserver.contract import ApiError, Cause, Manifest
from cotenant.local.apiserver.storage.store import Table
from cotenant.local.apiserver.storage.stored import Stored
from cotenant.local.apiserver.verbs import object_meta


class World(Protocol):
    """What a kind may look up while it is written."""

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Manifest | None:
        """One stored object, fresh."""

    def scan(self, group: str, plural: str, namespace: str = "") -> Iterator[Manifest]:
        """All stored objects of a kind, fresh."""

    def version(self, group: str, plural: str) -> int:
        """A number that changes whenever an object of a kind does."""

    def now(self) -> float:
        """Unix seconds."""


class Behaviour:
    """The default: no generation, no status of its own, immediate deletion."""

    has_generation = False  # metadata.generation is kept
    has_status = False  # the status is written through the status subresource only
    keeps_first_status = False  # a create may say the status all the same
    is_status_metadata_kept = (
        True  # labels, annotations, finalizers may be written through status (not for custom resources)
    )
    may_create_on_update = False  # PUT of an unknown name creates
    needs_version = False  # PUT must say the resourceVersion
    default_propagation = "Background"  # what a delete that does not say means for dependents

    def __init__(
        self,
        *,
        has_generation: bool | None = None,
        has_status: bool | None = None,
        may_create_on_update: bool | None = None,
        needs_version: bool | None = None,
    ) -> None:
        """What is not given is as the class says."""
        if has_generation is not None:
            self.has_generation = has_generation
        if has_status is not None:
            self.has_status = has_status
        if may_create_on_update is not None:
            self.may_create_on_update = may_create_on_update
        if needs_version is not None:
            self.needs_version = needs_version

    def admit(self, obj: Manifest, old: Manifest | None, world: World) -> None:
        """Built-in mutating admission, in place, before webhooks are asked. `old` is None on create. Raises ApiError to refuse."""

    def admit_last(self, obj: Manifest, old: Manifest | None, world: World) -> None:
        """Built-in validating admission. Raises ApiError to refuse."""

    def check_delete(self, obj: Manifest) -> None:
        """Whether an object may be deleted at all. Raises ApiError 403."""

    def prepare_create(self, obj: Manifest, world: World) -> None:
        """What the server says of a new object, in place, after admission."""

    def prepare_update(self, obj: Manifest, old: Manifest, world: World) -> None:
        """Before an update is checked, in place. The status is the old one already."""

    def prepare_status(self, obj: Manifest, old: Manifest) -> None:
        """Before a status update is checked, in place. What is not status has been reset already."""

    def merge(self, subresource: str, new: Manifest, base: Manifest) -> Manifest:
        """What another subresource may write: `base` (a copy of the stored object) with those parts of `new`. Raises ApiError 405."""
        raise ApiError(
            405, "MethodNotAllowed", f"the server does not allow this method on the requested resource ({subresource})"
        )

    def check_create(self, obj: Manifest) -> list[Cause]:
        """What is wrong with a new object beyond its schema."""
        return []

    def check_update(self, obj: Manifest, old: Manifest, subresource: str = "") -> list[Cause]:
        """What may not change."""
        return []

    def grace_s(self, obj: Manifest, asked: int | None) -> int | None:
        """Seconds between the request to delete and the end; None for kinds that have no graceful deletion."""
        return None

    def prepare_delete(self, obj: Manifest) -> None:
        """What a kind does to its object when its deletion begins, in place."""

    def is_removable(self, obj: Manifest) -> bool:
        """Whether an object without finalizers and grace may go (a namespace has finalizers in its spec too)."""
        return True

    def is_done(self, obj: Manifest) -> bool:
        """Whether an object that is being deleted has nothing left to wait for."""
        return object_meta.is_done(obj) and self.is_removable(obj)

    def outlived(self, table: Table, written: Stored, now: float) -> list[Stored]:
        """Objects of the kind whose time is over, found when another one is written."""
        return []

    def wanted(self, obj: Manifest) -> object:
        """The part of an object whose changes count as a generation."""
        return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}


class SpecBehaviour(Behaviour):
    """A spec with a generation and a status that controllers write."""

    has_generation = True
    has_status = True

    def __init__(self, first_status: Manifest | None = None, **options: bool) -> None:
        """`first_status`: what a new object's status says before a controller has seen it."""
        super().__init__(**options)
        self._first_status = first_status

    def prepare_create(self, obj: Manifest, world: World) -> None:
        """The first status, where the kind has one."""
        if self._first_status is not None:
            obj["status"] = dict(self._first_status)

    def wanted(self, obj: Manifest) -> object:
        """The spec."""
        return obj.get("spec")


class CustomBehaviour(Behaviour):
    """A custom resource."""

    has_generation = True
    is_status_metadata_kept = False
    needs_version = True

    def wanted(self, obj: Manifest) -> object:
        """Everything but metadata, and but the status where that is a subresource."""
        left_out = (
            ("metadata", "apiVersion", "kind", "status") if self.has_status else ("metadata", "apiVersion", "kind")
        )
        return {key: value for key, value in obj.items() if key not in left_out}
