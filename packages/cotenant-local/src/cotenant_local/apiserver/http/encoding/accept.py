"""Content negotiation: JSON, YAML, a Table, or metadata only.

Kubectl requests a Table with JSON as its second choice, client-go prefers protobuf with JSON as fallback, curl accepts
anything. The first acceptable clause in the order of the q values wins, as Kubernetes does; protobuf clauses are
skipped. If none is acceptable, 406. Results are cached by the header's text, since each client always sends the same
one.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from cotenant.drivers.kube.manifests.errors import ApiError


class ResponseForm(StrEnum):
    """The form of an object or list in a response."""

    OBJECT = "object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"


class Representation(NamedTuple):
    """A form and a syntax."""

    form: ResponseForm = ResponseForm.OBJECT
    is_yaml: bool = False
    group_version: str = "v1"  # of meta.k8s.io, for a Table or metadata

    @property
    def content_type(self) -> bytes:
        """The Content-Type of the response."""
        return b"application/yaml" if self.is_yaml else b"application/json"


class Clause(NamedTuple):
    """One media range of an Accept header."""

    media: str
    parameters: dict[str, str]


@lru_cache(maxsize=256)
def clauses(header: str) -> tuple[Clause, ...]:
    """The media ranges, best first."""
    ranked: list[tuple[float, int, Clause]] = []
    for position, text in enumerate(header.split(",")):
        media, *rest = text.split(";")
        parameters = {}
        for item in rest:
            key, _, value = item.partition("=")
            parameters[key.strip().lower()] = value.strip()
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        if quality > 0 and media.strip():
            ranked.append((-quality, position, Clause(media.strip().lower(), parameters)))
    return tuple(clause for _, _, clause in sorted(ranked, key=lambda entry: entry[:2]))


def not_acceptable() -> ApiError:
    """406 NotAcceptable."""
    return ApiError(
        406, "NotAcceptable", "only the following media types are accepted: application/json, application/yaml"
    )


@lru_cache(maxsize=256)
def negotiate(header: str) -> Representation:
    """The representation for an Accept header. Raises ApiError 406."""
    if not header.strip():
        return Representation()
    for media, parameters in clauses(header):
        if media in ("*/*", "application/*", "application/json", "text/*"):
            is_yaml = False
        elif media in ("application/yaml", "application/x-yaml"):
            is_yaml = True
        else:
            continue
        form_name = parameters.get("as", "")
        if not form_name:
            return Representation(is_yaml=is_yaml)
        if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
            continue
        version = parameters["v"]
        if form_name == "Table":
            return Representation(ResponseForm.TABLE, is_yaml, version)
        if form_name in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Representation(ResponseForm.METADATA, is_yaml, version)
    raise not_acceptable()
