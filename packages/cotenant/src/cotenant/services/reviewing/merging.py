"""Strategic merge patches of colocation profiles, applied to pods and reservations.

A profile's patch merges lists by their keys, as kubectl does, and one with a wrong type must be refused with its path.
The merge of an API server with the published schema of pods; a patch is checked once and kept, since the same few are
applied to every pod.
Limits: a Reservation has no merge keys, so its lists are replaced.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from cotenant.drivers.kube.manifests import decoding, openapi
from cotenant.drivers.kube.manifests.document import copied, refuse_deep
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.drivers.kube.manifests.strategic import strategic_merge
from cotenant.drivers.kube.manifests.tree import DEDUCED, SchemaNode
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.policy.admission.documents import Document

_POD = ("", "v1", "Pod")  # group, version, kind


def merge_pod(pod: Document, patch: str) -> Document:
    """The pod with a patch (JSON) merged in; the pod itself is changed. Raises `InvalidInput`."""
    return _merged(pod, checked_patch(patch), openapi.kind_of(*_POD))


def merge_reservation(reservation: Document, patch: str) -> Document:
    """A Reservation with a patch merged in; it is changed itself. Raises `InvalidInput`."""
    return _merged(reservation, _parsed(patch), DEDUCED)


@lru_cache(maxsize=1024)
def checked_patch(patch: str) -> Document:
    """A patch of pods whose fields have the types of a pod's. Raises `InvalidInput`."""
    parsed = _parsed(patch)
    try:
        # Finds mistyped fields; unknown ones and directives are left to the server.
        decoding.refuse_mistyped(decoding.decode(copied(parsed), openapi.kind_of(*_POD)), "Pod", "v1")
    except ApiError as error:
        raise InvalidInput("patch", patch, "fields with the types of a pod's", error.message) from None
    return parsed


def _merged(document: Document, patch: Document, node: SchemaNode) -> Document:
    try:
        return strategic_merge(document, patch, node)
    except ApiError as error:
        raise InvalidInput(
            "patch", msgspec.json.encode(patch).decode(), "a strategic merge patch", error.message
        ) from None


@lru_cache(maxsize=1024)
def _parsed(patch: str) -> Document:
    try:
        parsed: JsonValue = msgspec.json.decode(patch.encode())
        refuse_deep(parsed)
    except (msgspec.DecodeError, RecursionError, ApiError) as error:
        raise InvalidInput("patch", patch, "JSON", str(error)) from None
    if not isinstance(parsed, dict):
        raise InvalidInput("patch", patch, "a JSON object")
    return parsed
