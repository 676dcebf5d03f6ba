"""The schema of a built-in kind: Kubernetes' published definition for its shape, rules of this package for its defaults
and validation.

The server serves some forty built-in kinds and must treat their objects as the real one does. The shape comes from the
published definitions (`drivers/kube/manifests/openapi.py` of the product), defaults and rules are written by hand per
kind (`schema/kinds`).
Limits: a kind without rules of its own (RBAC, for example) is checked for its shape and metadata only.
"""

from __future__ import annotations

from functools import cache

from cotenant.drivers.kube.manifests import decoding, openapi
from cotenant.drivers.kube.manifests.errors import FieldError, Manifest
from cotenant.drivers.kube.manifests.tree import SchemaNode
from cotenant_local.apiserver.schema.kinds.registry import rules_of
from cotenant_local.apiserver.schema.spec_cache import SpecCache


class BuiltinSchema:
    """A `Schema` (see contract.py). `tree` guides patches; `reset` are the fields that a write of the main resource
    never sets.
    """

    __slots__ = ("_clean", "_default", "_valid", "_validate", "group", "kind", "reset", "tree", "version")

    def __init__(self, group: str, version: str, kind: str, tree: SchemaNode) -> None:
        self.group = group
        self.version = version
        self.kind = kind
        self.tree = tree
        self.reset = frozenset({"status"} if {"spec", "status"} <= tree.fields.keys() else ())
        rules = rules_of(group, kind, version)
        self._default = rules.default
        self._validate = rules.validate
        self._clean = SpecCache() if rules.is_about_spec else None  # specs that decoding leaves unchanged
        self._valid = SpecCache() if rules.is_about_spec else None  # specs that are valid

    def decode(self, obj: Manifest) -> list[str]:
        """Prune and bring to canonical form in place, in one walk. Returns the paths of the dropped fields.

        Raises ApiError 400 if a value has the wrong type.
        """
        clean = self._clean
        key = clean.key(obj) if clean is not None else None
        if clean is not None and key in clean:
            problems = self._decode_around_spec(obj)
        else:
            problems = decoding.decode(obj, self.tree)
            if clean is not None and key is not None and not problems and clean.key(obj) == key:
                clean.add(key)
        if not problems:
            return []
        decoding.refuse_mistyped(problems, self.kind, self.version)
        return decoding.unknown_fields(problems)

    def _decode_around_spec(self, obj: Manifest) -> list[decoding.Problem]:
        others = {name: value for name, value in obj.items() if name != "spec"}
        count = len(others)
        problems = decoding.decode(others, self.tree)
        if len(others) != count:
            for name in [name for name in obj if name != "spec" and name not in others]:
                del obj[name]
        return problems

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Paths of unknown fields, which are also pruned: decoding is one walk."""
        return self.decode(obj)

    def prune(self, obj: Manifest) -> None:
        """Drop unknown fields, and bring the rest to canonical form. Raises ApiError 400 for a wrong type."""
        self.decode(obj)

    def default(self, obj: Manifest) -> None:
        """Set Kubernetes' defaults in place."""
        self._default(obj)

    def validate(self, obj: Manifest, old: Manifest | None) -> list[FieldError]:
        """Validation errors, worded as in Kubernetes."""
        valid = self._valid
        if valid is None:
            return self._validate(obj, old)
        key = valid.key(obj)
        if key in valid:
            return []
        causes = self._validate(obj, old)
        if key is not None and not causes:
            valid.add(key)
        return causes


@cache
def builtin_schema(group: str, version: str, kind: str) -> BuiltinSchema:
    """The schema of a Kubernetes kind. Raises ApiError 404 for an unknown kind."""
    return BuiltinSchema(group, version, kind, openapi.kind_of(group, version, kind))


def definitions() -> dict[str, Manifest]:
    """The raw definitions by name, for the OpenAPI endpoints. References have the form `#/$defs/NAME`; a type may
    be a list that contains "null".
    """
    return openapi.document()
