"""JSON patches (RFC 6902), with Kubernetes' responses to those that do not apply.

A malformed patch is the client's error (400), a failed test or path depends on the object's state (422), and the
messages must match the real server's. A patch is applied in place and its values become part of the object: copying
each, as libraries do, costs more than a second where a value of 3 MiB is a list of empty lists. What a short patch may
ask for in excess of its length is bounded in sum: the bytes that `copy` adds, as upstream bounds them, and the elements
of lists that have to make room. Limits: `test` takes 1 and 1.0 for equal; no negative indices.
Source: kube-apiserver's `JSONPatchMaxCopyBytes` (3 MiB).
"""

from __future__ import annotations

import re

import msgspec

from cotenant.drivers.kube.manifests.document import copied, read_document, refuse_deep
from cotenant.drivers.kube.manifests.errors import ApiError, FieldError, Manifest
from cotenant.model.json_object import JsonValue

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 << 20  # by all `copy` operations of a patch, as JSON
MAX_SHIFTED = 100_000_000  # elements of lists behind an added or removed one, by all operations of a patch
_OPERATIONS = frozenset({"add", "remove", "replace", "move", "copy", "test"})
_INDEX = re.compile("0|[1-9][0-9]{0,8}")
_BAD_ESCAPE = re.compile("~(?![01])")


class _NotApplicable(Exception):
    """Why an operation does not apply."""


def json_patch(obj: Manifest, body: bytes | list[Manifest]) -> Manifest:
    """The patched object; `obj` and the values of a patch that is no bytes are changed or shared. Raises ApiError 400
    for a malformed patch, 413 for too many operations, 422 if it does not apply.
    """
    operations: JsonValue = read_document(body)  # type: ignore[arg-type]
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise _malformed("json: cannot unmarshal the body into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise ApiError(413, "RequestEntityTooLarge", f"Request entity is too large: {text}")
    for operation in operations:
        _check(operation)
    document = _Patched(obj)
    for operation in operations:
        try:
            document.apply(operation)
        except _NotApplicable as error:
            raise _refused(f"{operation['op']} operation does not apply: {_short(str(error))}") from None
        except RecursionError:
            raise _refused(f"{operation['op']} operation does not apply: nested too deeply") from None
    if not isinstance(document.root, dict):
        raise _malformed("json: the patched document is no object")
    refuse_deep(document.root)
    return document.root


class _Patched:
    """A document while operations are applied to it."""

    def __init__(self, root: object) -> None:
        self.root = root
        self._copied_bytes = self._shifted = 0

    def apply(self, operation: Manifest) -> None:
        """Apply a checked operation. Raises `_NotApplicable`."""
        path: str = operation["path"]
        match operation["op"]:
            case "add":
                self._add(path, operation["value"])
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, operation["value"])
            case "move":
                self._move(operation["from"], path)
            case "copy":
                self._copy(operation["from"], path)
            case _:
                if not _equal(self._at(path), operation["value"]):
                    raise _NotApplicable(f"testing value {path} failed")

    def _add(self, path: str, value: object) -> None:
        parts = _parts(path)
        if not parts:
            self.root = value
            return
        parent, last = self._walk(parts[:-1], path), parts[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif last == "-" and isinstance(parent, list):
            parent.append(value)
        else:
            index = _index(parent, last, path, len(parent) if isinstance(parent, list) else 0)
            self._shift(len(parent) - index)
            parent.insert(index, value)

    def _remove(self, path: str) -> JsonValue:
        parts = _parts(path)
        if not parts:
            raise _NotApplicable("the whole document cannot be removed")
        parent, last = self._walk(parts[:-1], path), parts[-1]
        value = _child(parent, last, path)
        if isinstance(parent, dict):
            del parent[last]
        else:
            self._shift(len(parent) - int(last))
            del parent[int(last)]
        return value

    def _replace(self, path: str, value: object) -> None:
        parts = _parts(path)
        if not parts:
            self.root = value
            return
        parent, last = self._walk(parts[:-1], path), parts[-1]
        _child(parent, last, path)
        parent[last if isinstance(parent, dict) else int(last)] = value

    def _move(self, source: str, path: str) -> None:
        if path == source:
            self._at(source)
        elif path.startswith(f"{source}/"):
            raise _NotApplicable(f"{source} cannot be moved into itself")
        else:
            self._add(path, self._remove(source))

    def _copy(self, source: str, path: str) -> None:
        value = self._at(source)
        self._copied_bytes += len(msgspec.json.encode(value))
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise _refused(
                f"Unable to complete the copy, the accumulated size increase of JSON copies is {self._copied_bytes}, "
                f"exceeding the limit {MAX_COPIED_BYTES}"
            )
        self._add(path, copied(value))

    def _at(self, path: str) -> JsonValue:
        return self._walk(_parts(path), path)

    def _walk(self, parts: list[str], path: str) -> JsonValue:
        found = self.root
        for part in parts:
            found = _child(found, part, path)
        return found

    def _shift(self, elements: int) -> None:
        self._shifted += elements
        if self._shifted > MAX_SHIFTED:
            raise _NotApplicable(f"it moves more than {MAX_SHIFTED} elements of lists")


def _parts(path: str) -> list[str]:
    """The parts of a JSON pointer (RFC 6901)."""
    if path and (not path.startswith("/") or _BAD_ESCAPE.search(path)):
        raise _NotApplicable(f"{path} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _child(parent: JsonValue, part: str, path: str) -> JsonValue:
    if isinstance(parent, dict):
        if part not in parent:
            raise _NotApplicable(f"doc is missing path: {path}: missing value")
        return parent[part]
    return parent[_index(parent, part, path, len(parent) - 1 if isinstance(parent, list) else 0)]


def _index(parent: object, part: str, path: str, most: int) -> int:
    if not isinstance(parent, list):
        raise _NotApplicable(f"doc is missing path: {path}: missing value")
    if not _INDEX.fullmatch(part) or int(part) > most:
        raise _NotApplicable(f"{path}: invalid index {part}")
    return int(part)


def _equal(here: object, value: object) -> bool:
    """Whether two values are the same JSON: true is no number."""
    if isinstance(here, bool) or isinstance(value, bool):
        return here is value
    if isinstance(here, dict) and isinstance(value, dict):
        return here.keys() == value.keys() and all(_equal(inner, value[key]) for key, inner in here.items())
    if isinstance(here, list) and isinstance(value, list):
        return len(here) == len(value) and all(map(_equal, here, value))
    return bool(here == value)


def _check(operation: Manifest) -> None:
    name = operation.get("op")
    if not isinstance(name, str) or name not in _OPERATIONS:
        raise _refused(f"Unexpected kind: {name if isinstance(name, str) else 'unknown'}")
    for key in ("path", "from") if name in ("move", "copy") else ("path",):
        if not isinstance(operation.get(key), str):
            raise _refused(f"{name} operation does not apply: missing {key}")
    if name in ("add", "replace", "test") and "value" not in operation:
        operation["value"] = None  # as the real server reads it


def _short(text: str) -> str:
    return text if len(text) < 500 else text[:500] + "..."


def _malformed(message: str) -> ApiError:
    return ApiError(400, "BadRequest", f"error decoding patch: {message}")


def _refused(message: str) -> ApiError:
    return ApiError(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
        causes=(FieldError("UnexpectedServerResponse", message, ""),),
    )
