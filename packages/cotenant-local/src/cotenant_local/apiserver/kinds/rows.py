"""How a row of the table of built-in resources is written.

Source: Kubernetes API reference, `kubectl api-resources`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.contract import Resource, ResourceScope

ALL = frozenset({"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})
CREATE = frozenset({"create"})

Fields = Mapping[str, Callable[[Manifest], str]]


def field(path: str) -> Callable[[Manifest], str]:
    """A reader of the text at a path (`spec.nodeName`), empty if absent."""
    parts = path.split(".")

    def read(obj: Manifest) -> str:
        value: object = obj
        for part in parts:
            if not isinstance(value, dict):
                return ""
            value = value.get(part)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read


def fields_at(*paths: str) -> Fields:
    """Readers of several paths, by path."""
    return {path: field(path) for path in paths}


def with_default(path: str, default: str) -> Fields:
    """A reader of one path, for which an absent value counts as the default."""
    read = field(path)
    return {path: lambda obj: read(obj) or default}


def resource(
    group: str,
    kind: str,
    plural: str,
    scope: ResourceScope = ResourceScope.NAMESPACED,
    *,
    version: str = "v1",
    verbs: frozenset[str] = ALL,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    sub: tuple[str, ...] = (),
    fields: Fields | None = None,
    stored_as: tuple[str, str] = ("", ""),
) -> Resource:
    """A resource, with `verbs` and names as kubectl shows them; `sub`: its subresources."""
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        scope=scope,
        verbs=verbs,
        short_names=short,
        categories=categories,
        subresources=frozenset(sub),
        selectable=fields or {},
        stored_as=stored_as,
    )
