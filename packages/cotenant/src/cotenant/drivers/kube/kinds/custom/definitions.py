"""The definitions of the custom kinds that are read, as manifests in `crds/`, by their plural (`plural.group` for a
second API group).

A scheduler that reads PodGroups and quotas is of no use where those kinds are not installed. The manifests travel with
the package; `cotenant crds` prints them and `cotenant up` installs them. They have upstream's groups, versions and
names, so where upstream's own definitions are installed they stay. `check_fields` holds a file against them, where no
server does.
Limits: fields that are not read here are kept by the server and not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

import yaml  # type: ignore[import-untyped]

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping


def manifests() -> tuple[tuple[str, str], ...]:
    """(plural or plural.group, YAML text) of every definition, by name."""
    folder = files(__package__ or __name__).joinpath("crds")
    found = sorted(traversable.name for traversable in folder.iterdir() if traversable.name.endswith(".yaml"))
    return tuple((name.removesuffix(".yaml"), folder.joinpath(name).read_text()) for name in found)


def check_fields(plural: str, document: JsonMapping, where: str) -> None:
    """Refuse fields of a spec that the kind's definition does not have: an API server would drop them, and their
    defaults would apply.

    Raises `InvalidInput` with all of them and, where one is near, the field that was probably meant.
    """
    if unknown := list(_unknown(document.get("spec"), _schema_of_spec(plural), "spec")):
        raise InvalidInput(where, ", ".join(field for field, _ in unknown), "fields that exist", unknown[0][1])


@cache
def _schema_of_spec(plural: str) -> Mapping[str, object]:
    definition = yaml.safe_load(dict(manifests())[plural])
    found: JsonMapping = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def _unknown(value: object, schema: JsonMapping, field: str) -> Iterator[tuple[str, str]]:
    """Fields without a schema, each with a hint or ""."""
    properties = schema.get("properties")
    if isinstance(value, list):
        for place, entry in enumerate(value):
            yield from _unknown(entry, schema.get("items", {}), f"{field}[{place}]")
    if not isinstance(value, Mapping) or properties is None:
        return
    for name, inner in value.items():
        if name in properties:
            yield from _unknown(inner, properties[name], f"{field}.{name}")
        elif "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            near = get_close_matches(str(name), properties, 1, 0.5)
            yield f"{field}.{name}", f"{near[0]} exists" if near else f"known: {', '.join(sorted(properties))}"
