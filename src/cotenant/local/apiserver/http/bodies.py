"""From the bytes of a request to a document: content type, size, depth, duplicate fields.

Problem: request bodies are untrusted. A body may be huge, deeply nested, not JSON, JSON with duplicate fields, or YAML whose aliases expand
without bound. Choice: everything is bounded before it is decoded; JSON is decoded by msgspec, and read a second time for duplicate fields
only where its re-encoding is not as long as the body, so that something may have been dropped. YAML is read without aliases.
Limits: 3 MiB (the server's own limit in Kubernetes), 256 levels (Kubernetes: 10,000).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from cotenant.local.apiserver.contract import ApiError, Manifest
from cotenant.local.apiserver.http.encoding import protobuf
from cotenant.local.apiserver.http.encoding.json_documents import MAX_DEPTH, bad_body, decode_json

MAX_BODY_BYTES = 3 << 20

_encode = msgspec.json.Encoder().encode
_SPACE = b" \n\r\t"


def too_large() -> ApiError:
    """413."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}")


def unsupported_media_type() -> ApiError:
    """415 of a create or update."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
    )


def media_type(header: str) -> str:
    """The content type without its parameters, in lower case. An absent one means JSON."""
    return header.split(";", 1)[0].strip().lower() or "application/json"


def decode_yaml(body: bytes, kind: str = "") -> Any:
    """A YAML document, as plain JSON values. Raises ApiError 400 for what is not YAML, has aliases, or is too deep."""
    import yaml  # type: ignore[import-untyped]

    try:
        depth = 0
        for event in yaml.parse(body, Loader=_yaml_loader()):
            if isinstance(event, yaml.AliasEvent):
                raise bad_body("yaml: aliases are not allowed", kind)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise bad_body("yaml: exceeded max depth", kind)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        document = yaml.load(body, Loader=_yaml_loader())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise bad_body(f"yaml: {' '.join(str(error).split())}", kind) from None
    return _plain(document)


def _yaml_loader() -> Any:
    """YAML 1.1 as Kubernetes reads it: dates stay text."""
    global _loader
    if _loader is None:
        import yaml

        class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
            yaml_implicit_resolvers = {  # noqa: RUF012
                first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
                for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
            }

        _loader = Loader
    return _loader


_loader: Any = None


def _plain(value: Any) -> Any:
    """YAML's values as JSON has them: keys are text, there are no dates, sets or bytes."""
    if isinstance(value, dict):
        return {_key(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise bad_body(f"yaml: a value of type {type(value).__name__} has no JSON form", "")


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)


def decode_object(body: bytes, content_type: str, kind: str) -> Manifest:
    """The object of a create or update. Raises ApiError 400 or 415."""
    media = media_type(content_type)
    if media == "application/json":
        document = decode_json(body, kind)
    elif media in ("application/yaml", "application/x-yaml", "text/yaml"):
        document = decode_yaml(body, kind)
    elif media == "application/vnd.kubernetes.protobuf":
        document = protobuf.decode(body, kind)
    else:
        raise unsupported_media_type()
    if not isinstance(document, dict):
        raise bad_body("couldn't get version/kind; json parse error: expected an object", kind)
    metadata = document.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise ApiError(
            400, "BadRequest", f'{kind} in version "v1" cannot be handled as a {kind}: metadata must be an object'
        )
    return document


def is_surely_single(body: bytes, document: Any) -> bool:
    """Whether a quick look shows that no field was said twice: re-encoded it is as long as it came, white space aside."""
    return len(_encode(document).translate(None, _SPACE)) == len(body.translate(None, _SPACE))


def duplicate_fields(body: bytes) -> list[str]:
    """The paths of fields that a JSON body says more than once, in the order in which they are met."""
    found: list[str] = []
    root = json.loads(body, object_pairs_hook=_Pairs)
    _walk(root, "", found)
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        super().__init__(pairs)


def _walk(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            where = f"{path}.{key}" if path else key
            if key in seen and where not in found:
                found.append(where)
            seen.add(key)
            _walk(inner, where, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", found)
