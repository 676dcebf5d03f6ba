"""What the parts of the API server say to one another.

Problem: storage, verbs, patches, schemas, admission and HTTP must be built, tested and read apart. Choice: the values and Protocols here,
and nothing else, cross between them. An API object is an open document that its writer owns, so this package, alone in the project, passes
objects as plain mappings (`Manifest`); what is stored is their encoded form, which lists and watches hand out without decoding it.
Limits: one storage version a kind; another served version of it differs in the name only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

Manifest = dict[str, Any]  # one API object (or a list of them) as JSON gives it

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Scope(StrEnum):
    """Whether objects live in a namespace."""

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column of a Table. `value` is given the object and the time (Unix seconds) and returns a JSON scalar."""

    name: str
    type: str  # string, integer, number, boolean, date
    value: Callable[[Manifest, float], Any]
    format: str = ""
    description: str = ""
    priority: int = 0  # above 0 is shown by `-o wide` only


class Schema(Protocol):
    """The shape of one kind (built-in or custom): validates, prunes, fills defaults, and knows how lists merge."""

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Paths (`spec.containers[0].imagee`) of fields that the kind does not have; they are dropped as `prune` drops them, in one walk.
        Raises ApiError 400 where a value has the wrong type."""

    def prune(self, obj: Manifest) -> None:
        """Drop, in place, the fields that the kind does not have (those a schema preserves stay)."""

    def default(self, obj: Manifest) -> None:
        """Fill in, in place, what the writer left out."""

    def validate(self, obj: Manifest, old: Manifest | None) -> list[Cause]:
        """What is wrong with it, in Kubernetes' words; empty where nothing is. `old` is the stored object on update."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource: what a URL names, and how its objects behave."""

    group: str  # "" = core
    version: str
    kind: str
    plural: str
    singular: str
    scope: Scope
    verbs: frozenset[str]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()  # status, scale, binding, eviction, resize ...
    columns: tuple[Column, ...] = ()
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
        """What its objects are stored under."""
        return self.stored_as if self.stored_as != ("", "") else (self.group, self.plural)


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with an object: `reason` as in Kubernetes (FieldValueRequired, FieldValueInvalid, ...)."""

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """What a client is told: a `Status`. Raised anywhere under the HTTP layer, written by it."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: int = 0,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.name = name
        self.group = group
        self.kind = kind
        self.causes = causes
        self.retry_after_s = retry_after_s
        self.continue_token = continue_token  # of a 410: where to go on inconsistently

    def status(self) -> Manifest:
        """The `Status` object of the answer."""
        details: Manifest = {}
        for key, value in (
            ("name", self.name),
            ("group", self.group),
            ("kind", self.kind),
            ("retryAfterSeconds", self.retry_after_s),
        ):
            if value:
                details[key] = value
        if self.causes:
            details["causes"] = [
                {"reason": c.reason, "message": c.message, **({"field": c.field} if c.field else {})}
                for c in self.causes
            ]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": details,
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about. An empty namespace means all of them (or a cluster-scoped resource); an empty name, the collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write. `validation`: Strict refuses unknown and doubled fields, Warn reports them, Ignore drops them."""

    dry_run: bool = False
    validation: str = "Warn"
    manager: str = ""  # fieldManager, or derived from the User-Agent
    force: bool = False  # server-side apply takes fields from other managers
    user: str = "system:admin"
    groups: tuple[str, ...] = ("system:masters",)


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete."""

    grace_s: int | None = None
    propagation: str = ""  # Orphan, Background, Foreground; "" = the kind's default
    uid: str = ""  # precondition
    resource_version: str = ""  # precondition
    dry_run: bool = False
    user: str = "system:admin"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """What to list or watch."""

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
class Answer:
    """A written (or read) object and what the client should be warned of."""

    raw: bytes  # the encoded object
    created: bool = False
    warnings: list[str] = field(default_factory=list)


class Admission(Protocol):
    """Asked for every write after defaulting and before validation: mutates, then validates. Raises `ApiError` to refuse."""

    async def mutate(
        self, operation: str, target: Target, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> Manifest | None:
        """The object as admission leaves it (the same one, or a changed copy)."""

    async def validate(
        self, operation: str, target: Target, obj: Manifest | None, old: Manifest | None, options: WriteOptions
    ) -> list[str]:
        """Warnings for the client."""
