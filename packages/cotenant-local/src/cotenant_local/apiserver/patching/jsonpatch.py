"""JSON patches (RFC 6902), with Kubernetes' responses to those that do not apply.

Problem: a malformed patch is the client's error (400), a failed test or path depends on the object's state (422), and
the messages must match the real server's; and a patch of 2 kB whose `copy` operations double a value asks for
gigabytes. Choice: the jsonpatch library applies them; the bytes that `copy` adds are bounded in sum, as upstream bounds
them. Limits: `test` compares as Python does (1 equals true).
Source: kube-apiserver's `JSONPatchMaxCopyBytes` (3 MiB).
"""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.drivers.kube.manifests.document import read_document, refuse_deep
from cotenant.drivers.kube.manifests.errors import ApiError, Cause, Manifest

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 << 20  # by all `copy` operations of a patch, as JSON
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})


def json_patch(obj: Manifest, body: bytes | list[Manifest]) -> Manifest:
    """The patched object. Raises ApiError 400 for a malformed patch, 413 for too many operations, 422 if it does
    not apply.
    """
    operations: Any = read_document(body)  # type: ignore[arg-type]
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise _malformed("json: cannot unmarshal the body into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity is too large: {text}")
    from jsonpatch import JsonPatch, JsonPatchException, JsonPointerException

    for operation in operations:
        _check(operation)
    try:
        if any(operation["op"] == "copy" for operation in operations):
            result = _apply_counting(obj, operations)
        else:
            result = JsonPatch(operations).apply(obj, in_place=True)
    except (
        JsonPatchException,
        JsonPointerException,
        TypeError,
        ValueError,
        KeyError,
        IndexError,
        RecursionError,
    ) as error:
        raise _refused(_message(error)) from None
    if not isinstance(result, dict):
        raise _malformed("json: the patched document is no object")
    refuse_deep(result)
    return result


def _apply_counting(document: Any, operations: list[Manifest]) -> Any:
    """Apply operations one by one; the values that `copy` duplicates are measured first."""
    from jsonpatch import JsonPatch
    from jsonpointer import JsonPointer

    copied = 0
    for operation in operations:
        if operation["op"] == "copy":
            copied += len(msgspec.json.encode(JsonPointer(operation["from"]).resolve(document)))
            if copied > MAX_COPIED_BYTES:
                raise _refused(
                    f"Unable to complete the copy, the accumulated size increase of JSON copies is {copied}, "
                    f"exceeding the limit {MAX_COPIED_BYTES}"
                )
        document = JsonPatch([operation]).apply(document, in_place=True)
    return document


def _check(operation: Manifest) -> None:
    name = operation.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise _refused(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")
    for key in ("path", "from") if name in ("move", "copy") else ("path",):
        if not isinstance(operation.get(key), str):
            raise _refused(f"{name} operation does not apply: missing {key}")
    if name in ("add", "replace", "test") and "value" not in operation:
        operation["value"] = None  # as the real server reads it


def _message(error: Exception) -> str:
    text = str(error)
    return text if len(text) < 500 else text[:500] + "..."


def _malformed(message: str) -> ApiError:
    return ApiError(400, "BadRequest", f"error decoding patch: {message}")


def _refused(message: str) -> ApiError:
    return ApiError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        causes=(Cause("UnexpectedServerResponse", message, ""),),
    )
