"""The schema of a built-in kind: Kubernetes' own definitions for its shape, our rules for its defaults and values.

Problem: the server serves some forty built-in kinds and must treat their objects as the real one does. Choice: the shape comes from published
definitions (`schema/openapi.py`), defaults and rules are written by hand a kind (`schema/kinds`). Limits: a kind that has no rules
of its own (RBAC, for one) is checked for its shape and metadata alone.
"""

from __future__ import annotations

from functools import cache

from cotenant.local.apiserver.contract import ApiError, Cause, Manifest
from cotenant.local.apiserver.schema import decoding, openapi
from cotenant.local.apiserver.schema.kinds.registry import rules_of
from cotenant.local.apiserver.schema.known import KnownSpecs
from cotenant.local.apiserver.schema.tree import SchemaNode


class BuiltinSchema:
    """A `Schema` (see contract.py). `tree` is what the patches merge by; `reset` the fields that a write of the main resource never sets."""

    __slots__ = ("_clean", "_default", "_valid", "_validate", "group", "kind", "reset", "tree", "version")

    def __init__(self, group: str, version: str, kind: str, tree: SchemaNode) -> None:
        self.group = group
        self.version = version
        self.kind = kind
        self.tree = tree
        self.reset = frozenset({"status"} if {"spec", "status"} <= tree.fields.keys() else ())
        rules = rules_of(group, kind)
        self._default = rules.default
        self._validate = rules.validate
        self._clean = KnownSpecs() if rules.is_about_spec else None  # what decoding leaves as it is
        self._valid = KnownSpecs() if rules.is_about_spec else None  # what breaks no rule

    def decode(self, obj: Manifest) -> list[str]:
        """What `unknown_fields` and `prune` do together, in one walk: canonical form in place, the paths of what was dropped.

        `ApiError` 400 where a value has the wrong type.
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
        rest = {name: value for name, value in obj.items() if name != "spec"}
        count = len(rest)
        problems = decoding.decode(rest, self.tree)
        if len(rest) != count:
            for name in [name for name in obj if name != "spec" and name not in rest]:
                del obj[name]
        return problems

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Paths of fields that the kind does not have. They are gone afterwards, as after `prune`: decoding is one walk."""
        return self.decode(obj)

    def prune(self, obj: Manifest) -> None:
        """Drop what the kind does not have, and bring the rest to its canonical form; `ApiError` 400 for a wrong type."""
        self.decode(obj)

    def default(self, obj: Manifest) -> None:
        """Fill in what Kubernetes fills in."""
        self._default(obj)

    def validate(self, obj: Manifest, old: Manifest | None) -> list[Cause]:
        """What is wrong, in Kubernetes' words."""
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
    """The schema of a kind that Kubernetes has; `ApiError` 404 for another."""
    name = openapi.definition_name(group, version, kind)
    if name is None:
        wanted = f"{group}/{version}, Kind={kind}" if group else f"{version}, Kind={kind}"
        raise ApiError(404, "NotFound", f"no schema of {wanted}")
    return BuiltinSchema(group, version, kind, openapi.node_of(name))


def definitions() -> dict[str, Manifest]:
    """The raw definitions by name, for the OpenAPI endpoints. References read `#/$defs/NAME`; a type may be a list with "null" in it."""
    return openapi.document()
