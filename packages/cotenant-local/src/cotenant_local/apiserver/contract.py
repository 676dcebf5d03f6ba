"""The values and Protocols shared by the parts of the API server.

Storage, verbs, patches, schemas, admission and HTTP must be built, tested and read separately. Only the values and
Protocols here cross between them. An API object is an open document that its writer owns, so this package, alone in the
project, passes objects as plain mappings (`Manifest`); what is stored is their encoded form, which lists and watches
return without decoding it.
Limits: one storage version per kind; another served version of it differs in the name only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.model.json_object import JsonValue

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class ResourceScope(StrEnum):
    """Whether objects are namespaced."""

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A printer column of a Table. `value` takes the object and the time (Unix seconds) and returns a JSON scalar."""

    name: str
    type: str  # string, integer, number, boolean, date
    value: Callable[[Manifest, float], JsonValue]
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0 is shown by `-o wide` only


class Schema(Protocol):
    """The shape of one kind (built-in or custom): validates, prunes, fills defaults, and knows how lists merge."""

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Paths (`spec.containers[0].imagee`) of unknown fields, which are also pruned in the same walk.
        Raises ApiError 400 if a value has the wrong type."""

    def prune(self, obj: Manifest) -> None:
        """Drop unknown fields in place (those that the schema preserves stay)."""

    def default(self, obj: Manifest) -> None:
        """Set defaults in place."""

    def validate(self, obj: Manifest, old: Manifest | None) -> list[FieldError]:
        """Validation errors, worded as in Kubernetes; empty if valid. `old` is the stored object on update."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource: its names, verbs and subresources, columns, schema and selectable fields."""

    group: str  # "" = core
    version: str
    kind: str
    plural: str
    singular: str
    scope: ResourceScope
    verbs: frozenset[str]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()  # status, scale, binding, eviction, resize ...
    columns: tuple[PrinterColumn, ...] = ()
    schema: Schema | None = None
    selectable: Mapping[str, Callable[[Manifest], str]] = field(default_factory=dict)  # field selectors beyond metadata
    is_custom: bool = False
    stored_as: tuple[str, str] = (
        "",
        "",
    )  # (group, plural) of the storage when another group shares it (events); default its own
    list_kind: str = ""  # default: kind + "List"
    scale_paths: tuple[str, str, str] = ("spec.replicas", "status.replicas", "status.selector")

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage(self) -> tuple[str, str]:
        """The (group, plural) under which its objects are stored."""
        return self.stored_as if self.stored_as != ("", "") else (self.group, self.plural)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The object or collection of a request. An empty namespace means all namespaces (or a cluster-scoped
    resource); an empty name means the collection.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write. `validation`: Strict refuses unknown and duplicate fields, Warn reports them, Ignore
    drops them.
    """

    dry_run: bool = False
    validation: str = "Warn"
    manager: str = ""  # fieldManager, or derived from the User-Agent
    force: bool = False  # server-side apply takes fields from other managers
    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters",)


@dataclass(frozen=True, slots=True)
class DeletionOptions:
    """Options of a deletion."""

    grace_s: int | None = None
    propagation: str = ""  # Orphan, Background, Foreground; "" = the kind's default
    uid: str = ""  # precondition
    resource_version: str = ""  # precondition
    dry_run: bool = False
    user: str = "system:admin"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options of a list or watch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""  # resourceVersionMatch
    bookmarks: bool = False
    send_initial: bool = False  # sendInitialEvents
    timeout_s: float = 0.0  # 0 = the server's choice


@dataclass(slots=True)
class ApiAnswer:
    """A written (or read) object and the warnings for the client."""

    raw: bytes  # the encoded object
    created: bool = False
    warnings: list[str] = field(default_factory=list)


class Admission(Protocol):
    """Admission of writes, called after defaulting and before validation: mutates, then validates. Raises
    `ApiError` to refuse.
    """

    async def mutate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> Manifest | None:
        """The object after mutation (the same one, or a changed copy)."""

    async def validate(
        self, operation: str, target: RequestTarget, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> list[str]:
        """Validate the object. Returns warnings for the client."""
