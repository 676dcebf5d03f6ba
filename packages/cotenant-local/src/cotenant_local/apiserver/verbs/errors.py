"""Error responses shared by the verbs, worded as in Kubernetes (clients match on the text)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, FieldError
from cotenant_local.apiserver.contract import Resource

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def qualified(resource: Resource) -> str:
    """`pods`, `deployments.apps`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def not_found(resource: Resource, name: str) -> ApiError:
    """404 NotFound."""
    return ApiError(
        404,
        "NotFound",
        f'{qualified(resource)} "{name}" not found',
        name=name,
        group=resource.group,
        kind=resource.plural,
    )


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 AlreadyExists, on create."""
    return ApiError(
        409,
        "AlreadyExists",
        f'{qualified(resource)} "{name}" already exists',
        name=name,
        group=resource.group,
        kind=resource.plural,
    )


def conflict(resource: Resource, name: str, why: str = _MODIFIED, subresource: str = "") -> ApiError:
    """409 Conflict, on update."""
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    shown = f"{plural}.{resource.group}" if resource.group else plural
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {shown} "{name}": {why}',
        name=name,
        group=resource.group,
        kind=plural,
    )


def precondition(resource: Resource, name: str, why: str) -> ApiError:
    """409 Conflict of a delete precondition, which names the kind instead of the plural."""
    shown_kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    message = f'Operation cannot be fulfilled on {shown_kind} "{name}": {why}'
    return ApiError(409, "Conflict", message, name=name, group=resource.group, kind=resource.kind)


def invalid(resource: Resource, name: str, causes: Sequence[FieldError]) -> ApiError:
    """422 Invalid, with every cause."""
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {listed}',
        name=name,
        group=resource.group,
        kind=resource.kind,
        causes=tuple(causes),
    )


def forbidden(resource: Resource, name: str, why: str, causes: tuple[FieldError, ...] = ()) -> ApiError:
    """403 Forbidden."""
    return ApiError(
        403,
        "Forbidden",
        f'{qualified(resource)} "{name}" is forbidden: {why}',
        name=name,
        group=resource.group,
        kind=resource.plural,
        causes=causes,
    )


def forbidden_message(plural: str, name: str, why: str) -> ApiError:
    """403 Forbidden, from the qualified plural only (`priorityclasses.scheduling.k8s.io`)."""
    kind, _, group = plural.partition(".")
    return ApiError(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}', name=name, group=group, kind=kind)


def bad_request(message: str) -> ApiError:
    """400 BadRequest."""
    return ApiError(400, "BadRequest", message)


def immutable(field: str, value: object) -> FieldError:
    """The cause for a changed immutable field."""
    return FieldError("FieldValueInvalid", f"Invalid value: {shown(value)}: field is immutable", field)


def shown(value: object) -> str:
    """A value as Kubernetes formats it in a cause."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return str(value)
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:197] + "..."
