"""Decodes request bodies: content type, size, depth, duplicate fields.

Request bodies are untrusted. A body may be huge, deeply nested, not JSON, JSON with duplicate fields, or YAML, which
takes seconds to read. Bodies are bounded before they are decoded, and documents before anything walks them; msgspec
decodes JSON, and a second pass looks for duplicate fields only if the re-encoded document is not as long as the body.
YAML is decoded in a thread.
Limits: bodies of 3 MiB (kube-apiserver's limit), objects of 1.5 MiB (etcd's), 256 levels (Kubernetes: 10,000), 100
duplicate fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

import msgspec

from cotenant.drivers.kube.manifests import yaml_documents
from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant_local.apiserver.http.encoding import protobuf
from cotenant_local.apiserver.http.encoding.json_documents import bad_body, decode_json
from cotenant_local.apiserver.storage.store import MAX_OBJECT_BYTES, check_size

MAX_BODY_BYTES = 3 << 20

_encode = msgspec.json.Encoder().encode
_SPACE = b" \n\r\t"
_YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_AT_ONCE_BYTES = 1 << 10  # shorter YAML is decoded in the event loop
_MAX_DUPLICATES = 100  # as in Kubernetes


def too_large() -> ApiError:
    """413."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")


def unsupported_media_type() -> ApiError:
    """415 of a create or update."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, "
        "application/yaml, "
        "application/vnd.kubernetes.protobuf",
    )


def media_type(header: str) -> str:
    """The content type without its parameters, in lower case. An absent one means JSON."""
    return header.split(";", 1)[0].strip().lower() or "application/json"


def decode_yaml(body: bytes, kind: str = "") -> object:
    """A YAML document, as plain JSON values. Raises ApiError 400 for what is not YAML, has aliases, or is too large."""
    return yaml_documents.decode(body, lambda message: bad_body(message, kind))


class BodyDecoder:
    """Decodes the bodies of one server's requests; YAML in a thread, one document at a time, so that other requests
    proceed.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(1)

    async def object(self, body: bytes, content_type: str, kind: str) -> Manifest:
        """As `decode_object`."""
        if media_type(content_type) in _YAML and len(body) > _AT_ONCE_BYTES:
            async with self._turn:
                return await asyncio.to_thread(decode_object, body, content_type, kind)
        return decode_object(body, content_type, kind)

    async def applied(self, body: bytes) -> bytes:
        """The configuration of an apply patch, JSON or YAML, as JSON. Raises ApiError 400 or 413."""
        if body[:1] == b"{":
            document = decode_json(body)
        elif len(body) <= _AT_ONCE_BYTES:
            document = decode_yaml(body)
        else:
            async with self._turn:
                document = await asyncio.to_thread(decode_yaml, body)
        encoded = _encode(document)
        check_size(len(encoded))
        return encoded

    async def duplicates(self, body: bytes) -> list[str]:
        """As `duplicate_fields`."""
        if len(body) > _AT_ONCE_BYTES:
            async with self._turn:
                return await asyncio.to_thread(duplicate_fields, body)
        return duplicate_fields(body)


def check_patch(body: bytes) -> None:
    """Check a merge patch: a JSON document no larger than an object. Raises ApiError 400 or 413."""
    document = decode_json(body)
    if len(body) > MAX_OBJECT_BYTES:
        check_size(len(_encode(document)))


def decode_object(body: bytes, content_type: str, kind: str) -> Manifest:
    """The object of a create or update. Raises ApiError 400 or 415."""
    media = media_type(content_type)
    if media == "application/json":
        document = decode_json(body, kind)
    elif media in _YAML:
        document = decode_yaml(body, kind)
    elif media == "application/vnd.kubernetes.protobuf":
        document = protobuf.decode(body, kind)
    else:
        raise unsupported_media_type()
    if not isinstance(document, dict):
        raise bad_body("couldn't get version/kind; json parse error: expected an object", kind)
    if len(body) > MAX_OBJECT_BYTES:
        check_size(len(_encode(document)))
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise ApiError(
            400, "BadRequest", f'{kind} in version "v1" cannot be handled as a {kind}: metadata must be an object'
        )
    return document


def is_surely_single(body: bytes, document: object) -> bool:
    """Whether no field occurs twice, by a cheap sufficient test: the re-encoded document is as long as the body,
    white space aside.
    """
    return len(_encode(document).translate(None, _SPACE)) == len(body.translate(None, _SPACE))


def duplicate_fields(body: bytes) -> list[str]:
    """The paths of fields that occur more than once in a JSON object, in document order, 100 at most."""
    found: dict[str, None] = {}
    root = json.loads(body, object_pairs_hook=_Pairs)
    _walk(root, "", found)
    return list(found)


class _Pairs(list[tuple[str, object]]):
    """An object as its pairs."""

    def __init__(self, pairs: Iterable[tuple[str, object]]) -> None:
        super().__init__(pairs)


def _walk(value: object, path: str, found: dict[str, None]) -> None:
    if len(found) >= _MAX_DUPLICATES:
        return
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            where = f"{path}.{key}" if path else key
            if key in seen and len(found) < _MAX_DUPLICATES:
                found[where] = None
            seen.add(key)
            _walk(inner, where, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", found)
