"""A group's file, in either form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cotenant.model.document import parse
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import ContainerTemplate, GroupTemplate
from cotenant.services.fleet.templates import compose, notes, values
from cotenant.services.fleet.templates.compose import ComposePlace
from cotenant.services.fleet.templates.variables import interpolated

_OTHER = re.compile(r"[^a-z0-9_-]+")


def read_template(
    path: Path, environment: Mapping[str, str], name: str = "", profiles: tuple[str, ...] = ()
) -> GroupTemplate:
    """The group of a file. `environment` fills its variables, and its $COMPOSE_PROFILES are on beside `profiles`.

    `name` is the group's where the file has none; default: the file's. Raises `InvalidInput`.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("FILE", str(path), "a readable file", error.strerror or "") from error
    named = (word.strip() for word in environment.get("COMPOSE_PROFILES", "").split(","))
    place = ComposePlace(environment, path.absolute().parent, (*profiles, *(word for word in named if word)))
    return template_of(text, str(path), place, name or name_of_file(path))


def name_of_file(path: Path) -> str:
    """A group's name where its file says none."""
    return _OTHER.sub("-", path.stem.lower()).strip("-_")


def named_by_file(path: Path, environment: Mapping[str, str]) -> str:
    """The group's name as `read_template` has it, whatever else is in the file, which may be gone by now."""
    given = parse(path.read_bytes(), str(path), with_core_scalars=True) if path.exists() else None
    if not isinstance(given, Mapping):
        return name_of_file(path)
    name = given.get("name", "")
    return _name({"name": interpolated(name, environment, "name") if "services" in given else name}, name_of_file(path))


def template_of(text: bytes, where: str, place: ComposePlace, name: str) -> GroupTemplate:
    """The group of a text. Raises `InvalidInput`."""
    given = parse(text, where, with_core_scalars=True)
    if isinstance(given, Mapping) and "services" in given:
        given = values.mapping(where, interpolated(given, place.ours))
        compose.refuse_unsupported(where, given, compose.FILE_KEYS)
        services = values.mapping("services", given["services"])
        name = _name(given, name)
        return GroupTemplate(name, _known(compose.containers_of(services, place, given.get("volumes"), name)))
    if isinstance(given, Mapping) and "containers" in given:
        values.refuse_unknown(where, given, ("name", "containers"))
        name, given = _name(given, name), given["containers"]
    if not isinstance(given, list):
        raise InvalidInput(
            where, given, "a compose file (services: ...), or a list of containers with appkey and image"
        )
    return GroupTemplate(name, _known(notes.containers_of(given, place.ours)))


def _name(given: Mapping[str, object], name: str) -> str:
    return str(given["name"]) if given.get("name") else name


def _known(containers: tuple[ContainerTemplate, ...]) -> tuple[ContainerTemplate, ...]:
    """Refuse what a host cannot do: with the host's own network a port is the same on both sides."""
    for container in containers:
        if container.network == "host":
            for port in container.ports:
                if port.host != port.container:
                    raise InvalidInput(
                        f"{container.appkey}: ports",
                        str(port),
                        "the same port on both sides",
                        "its network is the host's",
                    )
                if port.address:
                    hint = "its network is the host's, and its program chooses where it listens"
                    raise InvalidInput(f"{container.appkey}: ports", str(port), "no address", hint)
    return containers
