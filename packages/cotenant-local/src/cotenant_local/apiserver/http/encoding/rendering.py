"""Response bodies from encoded objects.

A list of 100,000 pods must be sent without decoding it, yet Tables, metadata, YAML and indented JSON are requested too.
JSON lists are the stored bytes between a head and a tail, in pieces; only other forms decode, one object at a time.
Large responses are compressed in a thread if the client accepts gzip.
Source: Kubernetes API concepts (alternate representations; compression from 128 KiB).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.columns.tables import TableBuilder
from cotenant_local.apiserver.contract import Resource
from cotenant_local.apiserver.http.encoding.accept import Representation, ResponseForm

GZIP_FROM_BYTES = 128 << 10
_PIECE_BYTES = 256 << 10

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(dict).decode


class _Head(msgspec.Struct):
    """The metadata of an object, undecoded."""

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

    dumper: object = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(decode(raw), Dumper=dumper, sort_keys=False, allow_unicode=True)
    return text.encode()


def finish(raw: bytes, representation: Representation, is_pretty: bool) -> bytes:
    """Convert a JSON document to the requested syntax."""
    if representation.is_yaml:
        return as_yaml(raw)
    if is_pretty:
        return msgspec.json.format(raw, indent=2)
    return raw


def one(raw: bytes, resource: Resource, representation: Representation, include: str, now: float) -> bytes:
    """One object in the requested form."""
    if representation.form is ResponseForm.OBJECT:
        return raw
    if representation.form is ResponseForm.METADATA:
        return metadata_only(raw, representation.group_version)
    obj = decode(raw)
    metadata = {"resourceVersion": obj.get("metadata", {}).get("resourceVersion", "")}
    table = TableBuilder(resource, include, representation.group_version)
    return encode(table.document([table.row(obj, now)], metadata))


def list_metadata(resource_version: int, continue_token: str, remaining: int) -> Manifest:
    """A list's metadata."""
    metadata: Manifest = {"resourceVersion": str(resource_version)}
    if continue_token:
        metadata["continue"] = continue_token
        if remaining > 0:
            metadata["remainingItemCount"] = remaining
    return metadata


def many(
    raws: Sequence[bytes],
    resource: Resource,
    representation: Representation,
    include: str,
    now: float,
    metadata: Manifest,
) -> list[bytes]:
    """A list in the requested form, in pieces of about 256 KiB."""
    if representation.form is ResponseForm.TABLE:
        table = TableBuilder(resource, include, representation.group_version)
        rows: Iterable[bytes] = (encode(table.row(decode(raw), now)) for raw in raws)
        head = encode(table.document([], metadata))[:-3]  # without `[]}`
        return list(_pieces(head + b"[", rows))
    if representation.form is ResponseForm.METADATA:
        kind, version = "PartialObjectMetadataList", f"meta.k8s.io/{representation.group_version}"
        items: Iterable[bytes] = (metadata_only(raw, representation.group_version) for raw in raws)
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
    """Compress the pieces as one gzip member at the fastest level. CPU-bound: run it in a thread."""
    compressor = zlib.compressobj(level=1, wbits=31)
    parts = [compressor.compress(piece) for piece in pieces]
    parts.append(compressor.flush())
    return b"".join(parts)
