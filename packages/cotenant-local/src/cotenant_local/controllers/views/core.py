"""The base of all views: metadata, selectors, conditions and timestamps.

An object has hundreds of fields and arrives as bytes many times a second. One frozen struct per kind with only the
fields that some controller or node reads; msgspec skips the others while decoding. Templates, which are only copied,
stay as `Manifest`.
Limits: views are read-only; what is written back is a patch or a separate manifest. Every view has `metadata`, so that
code about identity, ownership and deletion works on all kinds.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct, field


class View(Struct, frozen=True, rename="camel"):
    """Base of all views: JSON names are camel case."""


class OwnerReferenceView(View, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(View, frozen=True):
    """`metadata`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReferenceView, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return (self.namespace, self.name)

    @property
    def created_s(self) -> float:
        """Unix time; 0 where unknown."""
        return seconds(self.creation_timestamp) or 0.0

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been requested."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReferenceView | None:
        """The owner reference with `controller: true`, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class Object(View, frozen=True):
    """Any object: the fields that garbage collection needs."""

    metadata: Meta
    kind: str = ""
    api_version: str = ""


class ExpressionView(View, frozen=True):
    """An entry of matchExpressions."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class SelectorView(View, frozen=True):
    """A LabelSelector."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[ExpressionView, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return not (self.match_labels or self.match_expressions)

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether it selects an object with these labels (Kubernetes API reference, LabelSelector)."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(_holds(e, labels.get(e.key)) for e in self.match_expressions)

    @property
    def text(self) -> str:
        """As a query has it, by key: `app=web,tier in (a,b)`."""
        parts = [(key, f"{key}={value}") for key, value in self.match_labels.items()]
        parts += [(one.key, _written(one)) for one in self.match_expressions]
        return ",".join(part for _, part in sorted(parts))


def _written(expression: ExpressionView) -> str:
    key, values = expression.key, ",".join(sorted(expression.values))
    return {"Exists": key, "DoesNotExist": f"!{key}"}.get(
        expression.operator, f"{key} {expression.operator.lower()} ({values})"
    )


def _holds(expression: ExpressionView, value: str | None) -> bool:
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


class ConditionView(View, frozen=True):
    """An entry of `status.conditions`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    last_update_time: datetime | None = None
    last_heartbeat_time: datetime | None = None
    observed_generation: int = 0


def seconds(at: datetime | None) -> float | None:
    """A timestamp as Unix time."""
    return None if at is None else at.timestamp()


def stamp(now_s: float) -> str:
    """A `metav1.Time`: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(int(now_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(now_s: float) -> str:
    """A `metav1.MicroTime`: RFC 3339 with microseconds, UTC."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
