"""A cache of specs that have passed decoding and validation.

Thousands of pods are created from one template, and each status update carries the whole spec again; checking every
value each time would dominate the cost of a write. Cache, by their encoding, the specs that decoding left unchanged and
that are valid; the same spec again costs one encoding. The node and host names, which differ between pods, are left out
of the key and checked separately.
Limits: `MAX_SPECS` entries, the oldest is evicted first; specs longer than `MAX_BYTES` are checked each time.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.schema.kinds.field_errors import label_problem, subdomain_problem

MAX_SPECS = 1024
MAX_BYTES = 16 * 1024

# Fields that differ between pods of one template, and their validators.
_VARYING: dict[str, Callable[[str], str]] = {"nodeName": subdomain_problem, "hostname": label_problem}

_encode = msgspec.json.Encoder().encode


class SpecCache:
    """A bounded set of encoded specs."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: dict[bytes, None] = {}

    def key(self, obj: Manifest) -> bytes | None:
        """The cache key of an object's spec; None if it must be checked."""
        spec: JsonValue = obj.get("spec")
        if type(spec) is not dict:
            return None
        varying = spec.keys() & _VARYING.keys()
        if varying:
            for name in varying:
                value = spec[name]
                if type(value) is not str or not value or _VARYING[name](value):
                    return None
            spec = {name: value for name, value in spec.items() if name not in varying}
        try:
            key = _encode(spec)
        except (RecursionError, TypeError, ValueError):
            return None
        return key if len(key) <= MAX_BYTES else None

    def __contains__(self, key: bytes | None) -> bool:
        return key in self._specs

    def add(self, key: bytes) -> None:
        """Add a checked spec."""
        if len(self._specs) >= MAX_SPECS:
            del self._specs[next(iter(self._specs))]
        self._specs[key] = None
