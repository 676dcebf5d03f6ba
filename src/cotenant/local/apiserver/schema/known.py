"""Specs that were looked at before.

Problem: pods are created by the thousand from one template, and each of their status updates brings the whole spec along again; looking at every
value each time is most of a write's cost. Choice: remember, by their encoding, the specs that decoding left as they were and that broke no
rule; the same spec again costs one encoding. The names of the node and of the host, which differ from pod to pod, are left out and checked by themselves. Limits: `MAX_SPECS`
are kept, the oldest goes first; longer ones than `MAX_BYTES` are looked at each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cotenant.local.apiserver.contract import Manifest
from cotenant.local.apiserver.schema.kinds.words import label_problem, subdomain_problem

MAX_SPECS = 1024
MAX_BYTES = 16 * 1024

# Texts that differ from pod to pod of one template, and what keeps one from being right.
_VARYING: dict[str, Callable[[str], str]] = {"nodeName": subdomain_problem, "hostname": label_problem}

_encode = msgspec.json.Encoder().encode


class KnownSpecs:
    """A bounded set of encoded specs."""

    __slots__ = ("_specs",)

    def __init__(self) -> None:
        self._specs: dict[bytes, None] = {}

    def key(self, obj: Manifest) -> bytes | None:
        """What stands for an object's spec; None where it must be looked at."""
        spec: Any = obj.get("spec")
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
        """Remember a spec."""
        if len(self._specs) >= MAX_SPECS:
            del self._specs[next(iter(self._specs))]
        self._specs[key] = None
