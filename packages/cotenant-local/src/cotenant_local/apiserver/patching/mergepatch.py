"""JSON merge patches (RFC 7386): mappings merge, null removes, everything else replaces."""

from __future__ import annotations

from cotenant.drivers.kube.manifests.document import copy_value, read_mapping, refuse_deep
from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue


def merge_patch(obj: Manifest, body: bytes | Manifest) -> Manifest:
    """The patched object. Raises ApiError 400 if the body is not an object."""
    patch = read_mapping(body)
    refuse_deep(patch)
    _merge(obj, patch)
    return obj


def _merge(target: Manifest, patch: Manifest) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif type(value) is dict:
            inner: JsonValue = target.get(key)
            if type(inner) is not dict:
                inner = target[key] = {}
            _merge(inner, value)
        else:
            target[key] = copy_value(value)
