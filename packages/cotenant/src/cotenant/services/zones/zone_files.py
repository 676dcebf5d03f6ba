"""Files that define zones: the plain format, and ControlZone manifests, read by the same parser.

The same zone is written by hand on one machine and stored in a cluster for many, and both must mean the same and be
refused with the same words. A ControlZone's spec has the fields of the plain file in camel case; it is checked against
the kind's definition, renamed and built as the plain file is. An error has the field as its file spells it.
Limits: one zone a file, 1 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.kube.kinds.custom.control_zone import API_VERSION, KIND
from cotenant.drivers.kube.kinds.custom.definitions import check_fields
from cotenant.model.document import build, parse
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonValue
from cotenant.services.zones.definition import ZoneDefinition

MAX_BYTES = 1 << 20
_FREE_KEYS = ("labels", "env")  # names in it are the author's own
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_AFTER_UNDERSCORE = re.compile(r"_([a-z])")


def read_definition(path: Path) -> ZoneDefinition:
    """Read a zone's file. Raises `InvalidInput` naming the file and the field."""
    return definition_of(read_text(path), str(path))


def read_text(path: Path) -> bytes:
    """The bytes of a zone's file. Raises `InvalidInput`."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(str(path), str(path), "a readable file", error.strerror or "unreadable") from error
    if len(text) > MAX_BYTES:
        raise InvalidInput(str(path), "too large", f"at most {MAX_BYTES} bytes")
    return text


def definition_of(text: bytes, name: str) -> ZoneDefinition:
    """The zone in a text, plain or a ControlZone; `name` is in errors. Raises `InvalidInput`."""
    document = parse(text, name, False) or {}
    if isinstance(document, Mapping) and ("apiVersion" in document or "kind" in document):
        return _of_manifest(document, name)
    return build(ZoneDefinition, document, f"{name}:")


def definition_of_spec(zone: str, spec: object, where: str) -> ZoneDefinition:
    """The zone of a ControlZone's name and spec. Raises `InvalidInput` with the fields as the spec spells them."""
    if not isinstance(spec, Mapping):
        raise InvalidInput(f"{where}: spec", type(spec).__name__, "a mapping of fields to values")
    check_fields("controlzones", {"spec": spec}, where)
    try:
        return build(ZoneDefinition, {**_snake(spec), "zone": zone}, f"{where}: spec")
    except InvalidInput as error:
        place, _, field = error.field.rpartition(": ")
        field = (
            "metadata.name" if field == "spec.zone" else _AFTER_UNDERSCORE.sub(lambda found: found[1].upper(), field)
        )
        raise InvalidInput(f"{place}: {field}", error.value, error.expected, error.hint) from None


def _of_manifest(document: JsonMapping, name: str) -> ZoneDefinition:
    api, kind = document.get("apiVersion"), document.get("kind")
    if (api, kind) != (API_VERSION, KIND):
        raise InvalidInput(name, f"{api} {kind}", f"{API_VERSION} {KIND}, or a file with `zone` and `groups`")
    metadata = document.get("metadata")
    zone = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(zone, str):
        raise InvalidInput(f"{name}: metadata.name", zone, "a name")
    return definition_of_spec(zone, document.get("spec"), name)


def _snake(value: object) -> JsonValue:
    """The same with keys such as `late_ms`."""
    if isinstance(value, Mapping):
        return {
            _CAPITAL.sub(lambda found: f"_{found[1].lower()}", str(key)): entry if key in _FREE_KEYS else _snake(entry)
            for key, entry in value.items()
        }
    return [_snake(entry) for entry in value] if isinstance(value, list) else value
