"""A bus with a systemd behind it: units with a group and properties. Refuses and is silent when told to."""

from __future__ import annotations

from typing import Any

from cotenant.drivers.systemd.manager import SystemdRefused
from cotenant.drivers.systemd.properties import UNSET

_DEFAULTS: dict[str, int | bytes] = {
    "CPUQuotaPerSecUSec": UNSET,
    "CPUQuotaPeriodUSec": UNSET,
    "CPUWeight": UNSET,
    "AllowedCPUs": b"",
    "MemoryMin": 0,
    "MemoryLow": 0,
    "MemoryHigh": UNSET,
    "MemoryMax": UNSET,
}


class FakeBus:
    """Meets drivers/systemd/manager.DbusConnection. `groups`: the group of each unit."""

    def __init__(self, groups: dict[str, str], version: str = "252.39-1~deb12u1") -> None:
        self.groups = dict(groups)
        self.properties: dict[str, dict[str, int | bytes]] = {unit: dict(_DEFAULTS) for unit in groups}
        self.version = version
        self.silent = False
        self.refuses = ""
        self.closed = 0

    def call(self, path: str, interface: str, method: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.silent:
            raise TimeoutError("no answer")
        if self.refuses:
            raise SystemdRefused("org.freedesktop.DBus.Error.PropertyReadOnly", self.refuses)
        match method:
            case "GetUnit":
                if body[0] not in self.groups:
                    raise SystemdRefused("org.freedesktop.systemd1.NoSuchUnit", f"Unit {body[0]} not loaded.")
                return (f"/unit/{body[0]}",)
            case "Get" if body[1] == "Version":
                return (("s", self.version),)
            case "Get" if body[1] == "ControlGroup":
                return (("s", "/" + self.groups[path.removeprefix("/unit/")]),)
            case "Get":
                return (("t", self.properties[path.removeprefix("/unit/")][body[1]]),)
            case _:
                unit, _, changes = body
                if unit not in self.groups:
                    raise SystemdRefused("org.freedesktop.systemd1.NoSuchUnit", f"Unit {unit} not loaded.")
                for name, (_, value) in changes:
                    self.properties[unit][name] = value
                return ()

    def close(self) -> None:
        self.closed += 1
