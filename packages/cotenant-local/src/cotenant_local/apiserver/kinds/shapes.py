"""Typed structs of documents that are acted on but not stored: Binding, Eviction, Scale, reviews.

Stored kinds have schemas; these have one struct each, so that a wrong type is a 400 that names the field.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.verbs.errors import bad_request


class Metadata(msgspec.Struct, rename="camel"):
    """The metadata fields that are read."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class Reference(msgspec.Struct, rename="camel"):
    """The target of a Binding."""

    kind: str | None = None
    name: str | None = None


class Binding(msgspec.Struct, rename="camel"):
    """core/v1 Binding."""

    target: Reference
    kind: str | None = None
    metadata: Metadata | None = None


class Preconditions(msgspec.Struct, rename="camel"):
    """meta/v1 Preconditions."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """meta/v1 DeleteOptions."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


class Eviction(msgspec.Struct, rename="camel"):
    """policy/v1 Eviction."""

    kind: str | None = None
    metadata: Metadata | None = None
    delete_options: DeleteOptions | None = None


class ScaleSpec(msgspec.Struct, rename="camel"):
    """autoscaling/v1 ScaleSpec."""

    replicas: int | None = None


class Scale(msgspec.Struct, rename="camel"):
    """autoscaling/v1 Scale."""

    kind: str | None = None
    metadata: Metadata | None = None
    spec: ScaleSpec | None = None


class Review(msgspec.Struct, rename="camel"):
    """An access review."""

    metadata: Metadata | None = None
    spec: Manifest | None = None


def check(obj: Manifest, shape: type[msgspec.Struct]) -> None:
    """Check a document against a struct. Unknown fields are ignored. Raises ApiError 400."""
    try:
        msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        raise bad_request(f"the document cannot be handled as a {shape.__name__}: {error}") from None
