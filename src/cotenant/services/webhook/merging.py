"""Strategic merge patches of colocation profiles, applied to pods and reservations.

Problem: a profile's patch merges lists by their keys, as kubectl does, and one with a wrong type must be refused with its path. Choice: the API server's own merge with the published
schema of pods; a patch is checked once and kept, since the same few are applied to every pod. Limits: a Reservation has no merge keys, so its lists are replaced.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from cotenant.local.apiserver.contract import ApiError
from cotenant.local.apiserver.patching.document import copied, refuse_deep
from cotenant.local.apiserver.patching.strategic import strategic_merge
from cotenant.local.apiserver.schema.builtin import BuiltinSchema, builtin_schema
from cotenant.model.errors import InvalidInput
from cotenant.policy.admission.documents import Document


def merge_pod(pod: Document, patch: str) -> Document:
    """The pod with a patch (JSON) merged in; the pod itself is changed. Raises `InvalidInput`."""
    return _merged(pod, checked_patch(patch), _pods())


def merge_reservation(reservation: Document, patch: str) -> Document:
    """A Reservation with a patch merged in; it is changed itself. Raises `InvalidInput`."""
    return _merged(reservation, _parsed(patch), None)


@lru_cache(maxsize=1024)
def checked_patch(patch: str) -> Document:
    """A patch of pods whose fields have the types of a pod's. Raises `InvalidInput`."""
    parsed = _parsed(patch)
    try:
        _pods().decode(copied(parsed))  # finds mistyped fields; unknown ones and directives are left to the server
    except ApiError as error:
        raise InvalidInput("patch", patch, "fields with the types of a pod's", error.message) from None
    return parsed


def _merged(document: Document, patch: Document, schema: BuiltinSchema | None) -> Document:
    try:
        return strategic_merge(document, patch, schema)
    except ApiError as error:
        raise InvalidInput(
            "patch", msgspec.json.encode(patch).decode(), "a strategic merge patch", error.message
        ) from None


@lru_cache(maxsize=1024)
def _parsed(patch: str) -> Document:
    try:
        parsed: Any = msgspec.json.decode(patch.encode())
        refuse_deep(parsed)
    except (msgspec.DecodeError, RecursionError, ApiError) as error:
        raise InvalidInput("patch", patch, "JSON", str(error)) from None
    if not isinstance(parsed, dict):
        raise InvalidInput("patch", patch, "a JSON object")
    return parsed


def _pods() -> BuiltinSchema:
    return builtin_schema("", "v1", "Pod")
