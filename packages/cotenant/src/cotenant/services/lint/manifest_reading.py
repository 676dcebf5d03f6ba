"""Manifests from YAML or JSON files, with the line of every field.

A finding is of use where a person can go to it. YAML's nodes are kept beside the values; a field's dotted path is
followed through them as far as they go. Lists of objects (`kind: List`) are taken apart.
Limits: files of 16 MiB; dates stay text, as Kubernetes reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.policy.admission.documents import Document

MAX_BYTES = 16 << 20
_INDEX = re.compile(r"\[(\d+)\]")


class _Loader(yaml.CSafeLoader):  # type: ignore[misc]
    """Values as JSON has them."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    file: str
    document: Document
    node: Any  # of the YAML parser

    @property
    def api_group(self) -> str:
        """Its API group, empty for the core group."""
        group, slash, _ = str(self.document.get("apiVersion") or "").partition("/")
        return group if slash else ""

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.document.get("kind") or "")

    @property
    def name(self) -> str:
        """namespace/name as far as they are given."""
        metadata = self.document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name = metadata.get("name") or metadata.get("generateName") or "without a name"
        return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)

    def line(self, path: str = "") -> int:
        """The line, from 1, of a field (`spec.containers[0].name`), or of the nearest one above it that is there."""
        node, rest = self.node, path
        line: int = node.start_mark.line
        while rest:
            found = _step(node, rest)
            if found is None:
                break
            line, node, rest = found
        return line + 1


def read_manifests(file: str, content: bytes) -> list[Manifest]:
    """The objects of a file. Raises `InvalidInput` where it is not YAML, or an object is not a map."""
    if len(content) > MAX_BYTES:
        raise InvalidInput(file, f"{len(content)} bytes", f"at most {MAX_BYTES} bytes")
    found: list[Manifest] = []
    try:
        loader = _Loader(content)
        while loader.check_node():
            node = loader.get_node()
            found += _objects(file, loader.construct_document(node), node)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise InvalidInput(file, "its text", "YAML or JSON", " ".join(str(error).split())) from None
    return found


def read_file(file: Path) -> list[Manifest]:
    """The objects of a file. Raises `InvalidInput`."""
    try:
        return read_manifests(str(file), file.read_bytes())
    except OSError as error:
        raise InvalidInput("FILE", str(file), "a readable file", error.strerror or "") from None


def _objects(file: str, document: JsonValue, node: Any) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict):
        line = node.start_mark.line + 1
        raise InvalidInput(f"{file}:{line}", type(document).__name__, "an object")
    items = document.get("items")
    if str(document.get("kind") or "").endswith("List") and isinstance(items, list):
        _, inner, _ = _step(node, "items") or (0, None, "")
        for item, entry in zip(items, inner.value if inner is not None else (), strict=True):
            yield from _objects(file, item, entry)
    else:
        yield Manifest(file, document, node)


def _step(node: object, path: str) -> tuple[int, Any, str] | None:
    """(line, node, rest of the path) after the first part of a path; keys may have dots in them, the longest one
    counts.
    """
    if isinstance(node, yaml.SequenceNode):
        index = _INDEX.match(path)
        if index is None or int(index[1]) >= len(node.value):
            return None
        inner = node.value[int(index[1])]
        return inner.start_mark.line, inner, path[index.end() :].removeprefix(".")
    if not isinstance(node, yaml.MappingNode):
        return None
    best = None
    for key, value in node.value:
        text = str(key.value)
        fits = path.startswith(text) and path[len(text) : len(text) + 1] in ("", ".", "[")
        if fits and (best is None or len(text) > len(best[2])):
            best = (key.start_mark.line, value, text)
    if best is None:
        return None
    line, value, text = best
    return line, value, path[len(text) :].removeprefix(".")
