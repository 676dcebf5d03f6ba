"""Access to API documents: plain JSON values, as decoded from a request or a manifest.

A webhook must keep every field that it does not know, so it cannot work on values that name only some of them.
Documents stay what they are, plain dicts and lists; these functions read and copy them, and name the field where one
has the wrong type.
Limits: a null map or list is an absent one, as to Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject, JsonValue

Document: TypeAlias = JsonObject

CONTAINER_LISTS = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class AdmissionRefusal:
    """Why an object is refused. `field`: dotted path of what is at fault, empty where it is no single field.
    `code`: HTTP status.
    """

    rule: str
    message: str
    field: str = ""
    code: int = 403


def copied(value: object) -> JsonValue:
    """A deep copy of a JSON value."""
    if type(value) is dict:
        return {
            key: copied(entry) if type(entry) is dict or type(entry) is list else entry for key, entry in value.items()
        }
    if type(value) is list:
        return [copied(entry) if type(entry) is dict or type(entry) is list else entry for entry in value]
    return value


def pod_copy(pod: Document) -> Document:
    """A copy of a pod in which labels, annotations, resources and overhead, and the fields around them, can be changed;
    everything else is shared.

    What is shared is known to be equal by identity, which makes the difference of a large pod and its copy cheap.
    """
    made = dict(pod)
    if type(metadata := pod.get("metadata")) is dict:
        made["metadata"] = copy = dict(metadata)
        for key in ("labels", "annotations"):
            if type(values := copy.get(key)) is dict:
                copy[key] = dict(values)
    if type(spec := pod.get("spec")) is dict:
        made["spec"] = copy = dict(spec)
        if type(overhead := copy.get("overhead")) is dict:
            copy["overhead"] = dict(overhead)
        for key in CONTAINER_LISTS:
            if type(containers := copy.get(key)) is list:
                copy[key] = [
                    _container_copy(container) if type(container) is dict else container for container in containers
                ]
    return made


def _container_copy(container: Document) -> Document:
    if type(container.get("resources")) is not dict:
        return dict(container)
    return container | {"resources": copied(container["resources"])}


def mapping(parent: Document, key: str, where: str = "") -> Document:
    """The map at a key, an empty one where it is absent. Raises `InvalidInput` for anything else."""
    found = parent.get(key)
    if found is None:
        return {}
    if type(found) is not dict:
        raise InvalidInput(f"{where}.{key}" if where else key, found, "a map")
    return found


def section(parent: Document, key: str) -> Document:
    """The map at a key, for writing: made where it is absent or null."""
    found = parent.get(key)
    if type(found) is not dict:
        found = parent[key] = {}
    return found


def labels_of(obj: Document) -> dict[str, str]:
    """The object's labels. Raises `InvalidInput` where one is no text."""
    return _texts(obj, "labels")


def annotations_of(obj: Document) -> dict[str, str]:
    """The object's annotations. Raises `InvalidInput` where one is no text."""
    return _texts(obj, "annotations")


def _texts(obj: Document, key: str) -> dict[str, str]:
    found = mapping(mapping(obj, "metadata"), key, "metadata")
    for name, value in found.items():
        if type(value) is not str and value is not None:
            raise InvalidInput(f"metadata.{key}[{name}]", value, "text")
    return {name: value or "" for name, value in found.items()} if None in found.values() else found


def listed(parent: Document, key: str, where: str = "") -> list[Document]:
    """The list of maps at a key, empty where it is absent. Raises `InvalidInput` for anything else."""
    found = parent.get(key)
    if found is None:
        return []
    path = f"{where}.{key}" if where else key
    if type(found) is not list:
        raise InvalidInput(path, found, "a list")
    for index, entry in enumerate(found):
        if type(entry) is not dict:
            raise InvalidInput(f"{path}[{index}]", entry, "a map")
    return found


def containers_of(spec: Document, where: str = "spec") -> Iterator[tuple[str, Document]]:
    """(path, container) of the init containers, then of the containers."""
    for key in CONTAINER_LISTS:
        for index, entry in enumerate(listed(spec, key, where)):
            yield f"{where}.{key}[{index}]", entry
