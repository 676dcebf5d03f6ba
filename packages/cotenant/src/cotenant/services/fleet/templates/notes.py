"""The yml of the measurement-and-control agent:

A list of containers with appkey, parent, child, image, portmap, envskey and cmd.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.model.json_object import JsonMapping, JsonValue
from cotenant.services.fleet.templates import values
from cotenant.services.fleet.templates.ports import ports

KEYS = ("appkey", "parent", "child", "image", "portmap", "envskey", "cmd", "tags", "network")


def containers_of(given: list[JsonValue], ours: Mapping[str, str]) -> tuple[ContainerTemplate, ...]:
    """The containers. A parent is ready before its child starts, whichever of the two says so."""
    entries = [_entry(i, values.mapping(f"[{i}]", element)) for i, element in enumerate(given)]
    parents: dict[str, list[str]] = {}
    for appkey, entry in entries:
        parents.setdefault(appkey, []).extend(values.names(f"{appkey}.parent", entry.get("parent")))
        for child in values.names(f"{appkey}.child", entry.get("child")):
            parents.setdefault(child, []).append(appkey)
    known = {appkey for appkey, _ in entries}
    for child in parents:
        if child not in known:
            raise InvalidInput("child", child, "the appkey of a container of this file")
    return tuple(
        ContainerTemplate(
            appkey=appkey,
            image=values.text(f"{appkey}.image", entry["image"]),
            command=values.words(f"{appkey}.cmd", entry.get("cmd")),
            environment=values.environment(f"{appkey}.envskey", entry.get("envskey"), ours),
            ports=ports(f"{appkey}.portmap", entry.get("portmap")),
            after=tuple(dict.fromkeys(parents[appkey])),
            network=values.text(f"{appkey}.network", entry.get("network", "")),
            host_tags=values.names(f"{appkey}.tags", entry.get("tags")),
        )
        for appkey, entry in entries
    )


def _entry(index: int, given: JsonMapping) -> tuple[str, JsonMapping]:
    appkey = values.text(f"[{index}].appkey", given.get("appkey", ""))
    values.refuse_unknown(appkey or f"[{index}]", given, KEYS)
    if not appkey:
        raise InvalidInput(f"[{index}].appkey", "missing", "a name that no other container of the file has")
    if not given.get("image"):
        raise InvalidInput(f"{appkey}.image", "missing", "an image")
    return appkey, given
