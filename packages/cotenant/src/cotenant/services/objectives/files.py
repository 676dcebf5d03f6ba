"""Objectives in files of YAML documents.

A machine without a cluster has objectives too. The same manifests as in a cluster; a file with one document that cannot
be used is refused as a whole, with its place.
Limits: 4 MiB a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml  # type: ignore[import-untyped]

from cotenant.drivers.kube.kinds.custom.definitions import check_fields
from cotenant.drivers.kube.kinds.custom.service_objective import (
    API_VERSION,
    KIND,
    ServiceObjectiveObject,
    read_service_objective,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.model.traces.objective import ServiceObjective

MAX_BYTES = 4 << 20


def read_file(path: Path) -> list[ServiceObjective]:
    """The ServiceObjectives of a file. Raises `InvalidInput`."""
    return objectives_of(documents(text_of(path), str(path)), str(path))


def objectives_of(found: Iterator[JsonObject], name: str) -> list[ServiceObjective]:
    """The objectives of these documents; `name` is in errors. Raises `InvalidInput`."""
    objectives = []
    for place, document in enumerate(found, 1):
        field = f"{name}, document {place}"
        if document.get("apiVersion") != API_VERSION or document.get("kind") != KIND:
            raise InvalidInput(
                field,
                f"{document.get('apiVersion')} {document.get('kind')}",
                f"{API_VERSION} {KIND}",
                "`cotenant objective convert` reads OpenSLO, Pyrra and Sloth",
            )
        try:
            obj = msgspec.convert(document, ServiceObjectiveObject)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{field}: metadata", str(error), "an object's metadata") from None
        if not obj.metadata.name:
            raise InvalidInput(f"{field}: metadata.name", "", "a name")
        check_fields("serviceobjectives", document, field)
        objective = read_service_objective(obj)
        if objective.wrong:
            raise InvalidInput(f"{field}: {objective.key}", "; ".join(objective.wrong), "a valid spec")
        objectives.append(objective)
    keys = [objective.key for objective in objectives]
    if doubled := sorted({key for key in keys if keys.count(key) > 1}):
        raise InvalidInput(name, ", ".join(doubled), "each name once")
    return objectives


def text_of(path: Path) -> str:
    """The file's text. Raises `InvalidInput`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(str(path), f"{path.stat().st_size} bytes", f"at most {MAX_BYTES}")
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(path), str(error), "a text file that can be read") from None


def documents(text: str, name: str) -> Iterator[dict[str, object]]:
    """The mappings of a text of YAML documents; empty ones are left out. Raises `InvalidInput`."""
    try:
        for document in yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if document is None:
                continue
            if not isinstance(document, dict):
                raise InvalidInput(name, type(document).__name__, "YAML objects")
            yield document
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidInput(name, " ".join(str(error).split())[:200], "YAML") from None
