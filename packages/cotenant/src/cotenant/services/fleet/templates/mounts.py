"""Volumes of compose files: folders and files of the host, and named volumes, in the short and the long form.

Source: "volumes" of the Compose Specification. What is refused is named: anonymous volumes, tmpfs, drivers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import Mount
from cotenant.model.json_object import JsonMapping
from cotenant.services.fleet.templates import values

_LONG = ("type", "source", "target", "read_only", "bind", "volume")
_PATHS = (".", "/", "~")
_EXPECTED = "SOURCE:TARGET or SOURCE:TARGET:ro"


@dataclass(frozen=True, slots=True)
class NamedVolume:
    """A volume as the runtime calls it. `is_external`: it is not made here."""

    name: str
    is_external: bool = False


def volumes_of(given: object, group: str) -> dict[str, NamedVolume]:
    """The file's own `volumes`, by their names in it; the runtime's are GROUP_NAME, as Compose has it."""
    found = {}
    for key, said in values.mapping("volumes", given or {}).items():
        where = f"volumes.{key}"
        volume = values.mapping(where, said or {})
        values.refuse_unknown(where, volume, ("name", "external"))
        is_external = values.flag(f"{where}.external", volume.get("external", False))
        name = values.text(f"{where}.name", volume.get("name") or (key if is_external else f"{group}_{key}"))
        found[str(key)] = NamedVolume(name, is_external)
    return found


def mounts_of(where: str, given: object, known: Mapping[str, NamedVolume], folder: Path) -> tuple[Mount, ...]:
    """Of one service. `folder`: of the file, to which its paths are relative."""
    if given is None:
        return ()
    if not isinstance(given, list):
        raise InvalidInput(where, given, f"a list of {_EXPECTED}")
    return tuple(_mount(where, entry, known, folder) for entry in given)


def _mount(where: str, given: object, known: Mapping[str, NamedVolume], folder: Path) -> Mount:
    if isinstance(given, Mapping):
        return _long(where, given, known, folder)
    source, colon, rest = values.text(where, given).partition(":")
    target, _, options = rest.partition(":")
    if not colon:
        raise InvalidInput(where, given, _EXPECTED, "a volume without a name would be lost with its container")
    if options not in ("", "rw", "ro"):
        raise InvalidInput(where, given, _EXPECTED, f"the option {options} is not supported")
    if source.startswith(_PATHS):
        return Mount(_path(where, source, folder), target, is_read_only=options == "ro")
    return _named(where, source, target, known, is_read_only=options == "ro")


def _long(where: str, given: JsonMapping, known: Mapping[str, NamedVolume], folder: Path) -> Mount:
    values.refuse_unknown(where, given, _LONG)
    kind = given.get("type")
    if kind not in ("bind", "volume"):
        raise InvalidInput(f"{where}.type", kind, "bind or volume")
    source = values.text(f"{where}.source", given.get("source") or "")
    target = values.text(f"{where}.target", given.get("target") or "")
    if not source or not target:
        raise InvalidInput(where, given, "source and target")
    is_read_only = values.flag(f"{where}.read_only", given.get("read_only", False))
    own = values.mapping(f"{where}.{kind}", given.get(kind) or {})
    other = "volume" if kind == "bind" else "bind"
    if other in given:
        raise InvalidInput(f"{where}.{other}", given[other], f"no {other} beside type {kind}")
    values.refuse_unknown(f"{where}.{kind}", own, ("create_host_path",) if kind == "bind" else ())
    if kind == "volume":
        return _named(where, source, target, known, is_read_only=is_read_only)
    is_made = values.flag(f"{where}.bind.create_host_path", own.get("create_host_path", False))
    return Mount(_path(where, source, folder), target, is_read_only=is_read_only, is_made=is_made)


def _named(where: str, source: str, target: str, known: Mapping[str, NamedVolume], *, is_read_only: bool) -> Mount:
    volume = known.get(source)
    if volume is None:
        raise InvalidInput(
            where, source, "a volume of the file's `volumes`", "a path begins with / or ./; list the volume's name"
        )
    return Mount(volume.name, target, is_volume=True, is_read_only=is_read_only, is_external=volume.is_external)


def _path(where: str, source: str, folder: Path) -> str:
    try:
        return os.path.normpath(folder / Path(source).expanduser())
    except RuntimeError:
        raise InvalidInput(where, source, "the home folder of a user that is here") from None
