"""The schema of one version of a custom kind: a `Schema` (contract.py) built from its `openAPIV3Schema`."""

from __future__ import annotations

from cotenant.drivers.kube.manifests import decoding
from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.drivers.kube.manifests.openapi import object_meta
from cotenant_local.apiserver.custom import structural
from cotenant_local.apiserver.custom.rules import SchemaRule

_SYSTEM_FIELDS = ("apiVersion", "kind", "metadata")  # validated by the server, whatever the definition declares


class CustomSchema:
    """Validates, prunes and defaults the objects of a custom kind. `structural` is the definition's own schema, for
    OpenAPI documents.
    """

    __slots__ = ("_defaults", "_kind", "_rule", "_version", "reset", "structural", "tree")

    def __init__(self, schema: Manifest, *, kind: str, version: str, has_status: bool) -> None:
        self.structural = schema
        self._kind = kind
        self._version = version
        self.tree = structural.compile_root(schema)
        self._defaults = structural.compile_defaults(schema)
        properties = {name: entry for name, entry in schema.get("properties", {}).items() if name not in _SYSTEM_FIELDS}
        self._rule = SchemaRule({**schema, "properties": properties})
        self._rule.required = tuple(name for name in self._rule.required if name not in _SYSTEM_FIELDS)
        self.reset = frozenset({"status"} if has_status else ())

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Paths of unknown fields that are not preserved; they are also pruned."""
        metadata = obj.get("metadata")
        found: list[str] = []
        if type(metadata) is dict:
            problems = decoding.decode(metadata, object_meta())
            decoding.refuse_mistyped(problems, self._kind, self._version)
            found = [f"metadata.{path}" for path in decoding.unknown_fields(problems)]
        return found + structural.prune(obj, self.tree)

    def prune(self, obj: Manifest) -> None:
        """Drop unknown fields that are not preserved. Raises ApiError 400 for metadata of a wrong type."""
        self.unknown_fields(obj)

    def default(self, obj: Manifest) -> None:
        """Set the schema's defaults in place."""
        if self._defaults is not None:
            self._defaults.fill(obj)

    def validate(self, obj: Manifest, old: Manifest | None) -> list[FieldError]:
        """Validation errors. CEL rules are not evaluated."""
        causes: list[FieldError] = []
        self._rule.check(obj, "", causes)
        return causes
