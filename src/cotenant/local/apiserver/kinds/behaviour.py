"""How the objects of a kind behave when they are written: the seam between the verbs and each kind.

Problem: a pod's spec is nearly immutable, a Job's status is the controller's, a namespace dies slowly. Choice: one class whose defaults
suit most kinds and custom resources, overridden where a kind differs; it sees plain documents and a `World` to look other objects up in.
Sources: the strategies of each kind as the Kubernetes API reference and API conventions describe them (status is written through the
status subresource only; generation counts changes of the wanted state; metadata of the status subresource of custom resources is ignored).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from cotenant.local.apiserver import lifecycle
from cotenant.local.apiserver.contract import Cause, Manifest


class World(Protocol):
    """What a kind may look up while it is written."""

    def lookup(self, group: str, plural: str, namespace: str, name: str) -> Manifest | None:
        """One stored object, fresh."""

    def scan(self, group: str, plural: str, namespace: str = "") -> Iterator[Manifest]:
        """All stored objects of a kind, fresh."""

    def now(self) -> float:
        """Unix seconds."""


class Behaviour:
    """The default: a spec that counts generations, a status of its own, immediate deletion."""

    has_generation = True  # metadata.generation is kept
    has_status = False  # the status is written through the status subresource only
    is_status_metadata_kept = True  # labels and annotations may be written through status (not for custom resources)
    may_create_on_update = False  # PUT of an unknown name creates
    needs_version = False  # PUT must say the resourceVersion
    default_propagation = "Background"

    def prepare_create(self, obj: Manifest, world: World) -> None:
        """Admission and set-up of a new object, in place. Raises ApiError to refuse."""

    def prepare_update(self, obj: Manifest, old: Manifest, world: World) -> None:
        """Before an update is checked, in place."""

    def prepare_status(self, obj: Manifest, old: Manifest) -> None:
        """Before a status update is checked, in place. What is not status has been reset already."""

    def check_create(self, obj: Manifest) -> list[Cause]:
        """What is wrong with a new object beyond its schema."""
        return []

    def check_update(self, obj: Manifest, old: Manifest) -> list[Cause]:
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
        return lifecycle.is_done(obj)

    def wanted(self, obj: Manifest) -> Manifest:
        """The part of an object whose changes count as a generation."""
        return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}


class CustomBehaviour(Behaviour):
    """A custom resource."""

    is_status_metadata_kept = False
    needs_version = True

    def __init__(self, has_status: bool) -> None:
        self.has_status = has_status

    def wanted(self, obj: Manifest) -> Manifest:
        """Everything but metadata, and but the status where that is a subresource."""
        left_out = (
            ("metadata", "apiVersion", "kind", "status") if self.has_status else ("metadata", "apiVersion", "kind")
        )
        return {key: value for key, value in obj.items() if key not in left_out}


class PlainBehaviour(Behaviour):
    """A kind without generation (ConfigMap, Secret, Lease ...)."""

    has_generation = False
