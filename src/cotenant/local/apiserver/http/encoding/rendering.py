"""From encoded objects to the body of an answer.

Problem: a list of 100,000 pods must not be decoded to be sent, yet Tables, metadata, YAML and indented JSON are asked for too. Choice:
JSON lists are the stored bytes between a head and a tail, in pieces; only other forms decode, one object at a time. Big answers are
compressed in a thread where the client takes gzip. Source: Kubernetes API concepts (alternate representations; compression from 128 KiB).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from cotenant.local.apiserver.columns.tables import Table
from cotenant.local.apiserver.contract import Manifest, Resource
from cotenant.local.apiserver.http.encoding.accept import Form, Wanted

GZIP_FROM_BYTES = 128 << 10
_PIECE_BYTES = 256 << 10

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(dict).decode


class _Head(msgspec.Struct):
    """Just the metadata of an object, undecoded."""

    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode_head = msgspec.json.Decoder(_Head).decode


def metadata_only(raw: bytes, group_version: str) -> bytes:
    """An object as PartialObjectMetadata."""
    head = bytes(_decode_head(raw).metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":%s}' % (
        group_version.encode(),
        head,
    )


def as_yaml(raw: bytes) -> bytes:
    """A JSON document as YAML."""
    import yaml  # type: ignore[import-untyped]

    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(decode(raw), Dumper=dumper, sort_keys=False, allow_unicode=True)
    return text.encode()


def finish(raw: bytes, wanted: Wanted, is_pretty: bool) -> bytes:
    """A JSON document in the syntax that the client wants."""
    if wanted.is_yaml:
        return as_yaml(raw)
    if is_pretty:
        return msgspec.json.format(raw, indent=2)
    return raw


def one(raw: bytes, resource: Resource, wanted: Wanted, include: str, now: float) -> bytes:
    """A single object in a form."""
    if wanted.form is Form.OBJECT:
        return raw
    if wanted.form is Form.METADATA:
        return metadata_only(raw, wanted.group_version)
    obj = decode(raw)
    metadata = {"resourceVersion": obj.get("metadata", {}).get("resourceVersion", "")}
    table = Table(resource, include, wanted.group_version)
    return encode(table.document([table.row(obj, now)], metadata))


def list_metadata(resource_version: int, continue_token: str, remaining: int) -> Manifest:
    """The metadata of a list."""
    metadata: Manifest = {"resourceVersion": str(resource_version)}
    if continue_token:
        metadata["continue"] = continue_token
        if remaining > 0:
            metadata["remainingItemCount"] = remaining
    return metadata


def many(
    raws: Sequence[bytes], resource: Resource, wanted: Wanted, include: str, now: float, metadata: Manifest
) -> list[bytes]:
    """A list in a form, as pieces of about 256 KiB."""
    if wanted.form is Form.TABLE:
        table = Table(resource, include, wanted.group_version)
        rows: Iterable[bytes] = (encode(table.row(decode(raw), now)) for raw in raws)
        head = encode(table.document([], metadata))[:-3]  # without `[]}`
        return list(_pieces(head + b"[", rows))
    if wanted.form is Form.METADATA:
        kind, version = "PartialObjectMetadataList", f"meta.k8s.io/{wanted.group_version}"
        items: Iterable[bytes] = (metadata_only(raw, wanted.group_version) for raw in raws)
    else:
        kind, version = resource.list_kind or resource.kind + "List", resource.api_version
        items = raws
    head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
        kind.encode(),
        version.encode(),
        encode(metadata),
    )
    return list(_pieces(head, items))


def _pieces(head: bytes, items: Iterable[bytes]) -> Iterator[bytes]:
    parts = [head]
    size = len(head)
    separator = b""
    for item in items:
        parts.append(separator)
        parts.append(item)
        separator = b","
        size += len(item) + 1
        if size >= _PIECE_BYTES:
            yield b"".join(parts)
            parts = []
            size = 0
    parts.append(b"]}")
    yield b"".join(parts)


def gzipped(pieces: Sequence[bytes]) -> bytes:
    """The pieces, compressed as one gzip member at the fastest level. Takes a while: run it in a thread."""
    compressor = zlib.compressobj(level=1, wbits=31)
    parts = [compressor.compress(piece) for piece in pieces]
    parts.append(compressor.flush())
    return b"".join(parts)
