"""Knobs of systemd's units: set as properties and as files, restored as both.

Systemd answers before it has written a group's files, and a property alone does not say what the kernel made of it. A
write sets the property, so that every later write of systemd is ours, and then the file, as runc does, so that the
value stands at once and can be read back. `raw` has the properties from before, and what the files' driver needs.
Limits: the drop-ins that systemd keeps of a unit's properties end with a transient unit, and with the next boot.
"""

from __future__ import annotations

import json
from typing import Protocol

from cotenant.drivers.systemd.manager import SystemdManager
from cotenant.drivers.systemd.properties import UnitProperty, names_of, properties_of
from cotenant.model.errors import CotenantError, InvalidInput, Permanent, Transient
from cotenant.model.machine.knob import KnobTarget, Vanished

_MAX_RAW = 128 * 1024


class FileKnobs(Protocol):
    """The driver of the same knobs as files."""

    def raw(self, target: KnobTarget) -> str:
        """What `restore` needs."""
        ...

    def write(self, target: KnobTarget, value: str) -> None:
        """Set the knob."""
        ...

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Write back what `raw` returned."""
        ...


class SystemdKnobs:
    """Knobs of groups that are units. Errors are those of engine/node/interfaces.KnobPort."""

    def __init__(self, manager: SystemdManager, files: FileKnobs) -> None:
        self._manager = manager
        self._files = files

    def raw(self, target: KnobTarget) -> str:
        """The properties from before, and the files' texts, as JSON."""
        unit = unit_of(target)
        self._manager.check(unit, target.group)
        names = names_of(target.knob)
        values = self._manager.values(unit, names)
        before = {
            name: value if isinstance(value, int) else value.hex() for name, value in zip(names, values, strict=True)
        }
        return json.dumps({"unit": unit, "properties": before, "files": self._files.raw(target)})

    def write(self, target: KnobTarget, value: str) -> None:
        """Set the property, then the file; where the kernel refuses the value, the property is as before."""
        unit = unit_of(target)
        self._manager.check(unit, target.group)
        names = names_of(target.knob)
        before = self._manager.values(unit, names)
        self._manager.set(unit, properties_of(target.knob, value))
        try:
            self._files.write(target, value)
        except CotenantError:
            self._manager.set(unit, [_property(name, old) for name, old in zip(names, before, strict=True)])
            raise

    def hand_over(self, target: KnobTarget, value: str) -> None:
        """Set the property to a value that another process wrote into the file, so that systemd does not write ours
        over it later.
        """
        self._manager.set(unit_of(target), properties_of(target.knob, value))

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Set the properties from before, then the files. Raises `Transient` while systemd cannot be reached."""
        unit, properties, files = _parsed(target, raw)
        try:
            self._manager.set(unit, properties)
        except Permanent as error:
            if isinstance(error, Vanished):
                raise
            raise Transient(str(error)) from error
        self._files.restore(target, files)


def is_of_systemd(raw: str) -> bool:
    """Whether a raw value was taken by this driver."""
    return raw.startswith('{"unit": ')


def unit_of(target: KnobTarget) -> str:
    """The unit of a group: the last part of its path."""
    return target.group.rpartition("/")[2]


def _parsed(target: KnobTarget, raw: str) -> tuple[str, tuple[UnitProperty, ...], str]:
    fault = InvalidInput(f"raw value of {target}", raw[:80], "what raw() returned for this knob")
    try:
        content = json.loads(raw) if len(raw) <= _MAX_RAW else None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise fault
    unit, before, files = content.get("unit"), content.get("properties"), content.get("files")
    if unit != unit_of(target) or not isinstance(before, dict) or not isinstance(files, str):
        raise fault
    properties: list[UnitProperty] = []
    for name in names_of(target.knob):
        match before.get(name):
            case int() as number:
                properties.append(_property(name, number))
            case str() as digits:
                try:
                    properties.append(_property(name, bytes.fromhex(digits)))
                except ValueError:
                    raise fault from None
            case _:
                raise fault
    return str(unit), tuple(properties), files


def _property(name: str, value: int | bytes) -> UnitProperty:
    return UnitProperty(name, "t" if isinstance(value, int) else "ay", value)
