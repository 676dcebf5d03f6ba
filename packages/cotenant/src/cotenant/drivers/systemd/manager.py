"""systemd's manager over the system bus: its version, a unit's group, and properties that hold until the unit or the
machine ends.

A slow or absent bus must not hold up a keeper, and a connection ends when the bus restarts. Blocking calls with a time
limit over one connection, opened when needed and again after an error; while the bus cannot be reached, it is tried
again at most every `RETRY_S`.
Limits: the system manager only; who may call is decided by the bus (root may).

Source: systemd, org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from cotenant.drivers.systemd.properties import UnitProperty
from cotenant.model.errors import Permanent, Transient, Unsupported
from cotenant.model.machine.knob import Vanished

SOCKET = Path("/run/dbus/system_bus_socket")
RETRY_S = 30.0
_CALL_S = 2.0
_PATH, _NAME = "/org/freedesktop/systemd1", "org.freedesktop.systemd1"
_INTERFACES = {"slice": "Slice", "scope": "Scope", "service": "Service"}
_VERSION = re.compile(r"(\d+)")


class DbusConnection(Protocol):
    """A connection to the bus."""

    def call(self, path: str, interface: str, method: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
        """The body of the answer. Raises `OSError` (and `TimeoutError`) where there is none, `SystemdRefused` for an
        error of the other side.
        """
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class SystemdRefused(Exception):
    """An error that systemd answered: its name, and its text."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{text or name}")
        self.name = name


class SystemdManager:
    """`connect` opens the bus. Safe for several threads."""

    def __init__(
        self,
        connect: Callable[[], DbusConnection] | None = None,
        clock: Callable[[], float] = time.monotonic,
        socket: Path = SOCKET,
    ) -> None:
        self._connect = connect or (lambda: open_bus(socket))
        self._clock = clock
        self._bus: DbusConnection | None = None
        self._version: int | None = None
        self._retry_at_s = float("-inf")
        self._lock = threading.Lock()
        self.errors = 0  # calls that were not answered

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._drop()

    def version(self) -> int | None:
        """The version of systemd; None while it cannot be reached."""
        with self._lock:
            if self._bus is None and self._clock() < self._retry_at_s:
                return None
            if self._bus is None or self._version is None:
                try:
                    (answer,) = self._property(_PATH, "Manager", "Version")
                    found = _VERSION.match(str(answer[1]).removeprefix("v"))
                    self._version = int(found[1]) if found else None
                except (Transient, Unsupported, Permanent):
                    return None
            return self._version

    def check(self, unit: str, group: str) -> None:
        """Raises `Vanished` where this unit does not have this group (now)."""
        with self._lock:
            path = self._unit(unit)
            (answer,) = self._property(path, _interface(unit), "ControlGroup")
        if str(answer[1]).strip("/") != group:
            raise Vanished(f"{unit} of systemd has the group {answer[1] or 'none'}, not /{group}")

    def values(self, unit: str, names: Sequence[str]) -> tuple[int | bytes, ...]:
        """The current values of a unit's properties. Raises `Vanished`, `Transient`, `Unsupported`."""
        with self._lock:
            path = self._unit(unit)
            found = [self._property(path, _interface(unit), name)[0][1] for name in names]
        return tuple(value if isinstance(value, int) else bytes(value) for value in found)

    def set(self, unit: str, properties: Sequence[UnitProperty]) -> None:
        """Set properties until the unit ends. Raises `Vanished`, `Transient`, `Permanent`."""
        body = [(one.name, (one.signature, one.value)) for one in properties]
        with self._lock:
            self._call(_PATH, f"{_NAME}.Manager", "SetUnitProperties", "sba(sv)", (unit, True, body))

    def _unit(self, unit: str) -> str:
        (path,) = self._call(_PATH, f"{_NAME}.Manager", "GetUnit", "s", (unit,))
        return str(path)

    def _property(self, path: str, interface: str, name: str) -> tuple[Any, ...]:
        return self._call(path, "org.freedesktop.DBus.Properties", "Get", "ss", (f"{_NAME}.{interface}", name))

    def _call(
        self, path: str, interface: str, method: str, signature: str, body: tuple[Any, ...]
    ) -> tuple[object, ...]:
        if self._bus is None:
            if self._clock() < self._retry_at_s:
                raise Transient("systemd could not be reached a moment ago")
            try:
                self._bus = self._connect()
            except OSError as error:
                self._failed()
                raise Transient(f"systemd cannot be reached: {error.strerror or error}") from error
        try:
            return self._bus.call(path, interface, method, signature, body)
        except SystemdRefused as error:
            if error.name.endswith((".NoSuchUnit", ".UnitNotLoaded", ".NoSuchObject", ".UnknownObject")):
                raise Vanished(f"{error}") from error
            raise Permanent(f"systemd refuses {method}: {error}") from error
        except OSError as error:
            self._failed()
            raise Transient(f"systemd did not answer {method}: {error.strerror or error}") from error

    def _failed(self) -> None:
        self.errors += 1
        self._drop()
        self._retry_at_s = self._clock() + RETRY_S

    def _drop(self) -> None:
        if self._bus is not None:
            self._bus.close()
        self._bus, self._version = None, None


def _interface(unit: str) -> str:
    return _INTERFACES.get(unit.rpartition(".")[2], "Unit")


class _JeepneyBus:
    """A connection by jeepney."""

    def __init__(self, socket: Path) -> None:
        from jeepney import DBusAddress  # loaded where a bus is opened
        from jeepney.io.blocking import open_dbus_connection

        self._address = DBusAddress
        self._connection = open_dbus_connection(f"unix:path={socket}")

    def call(self, path: str, interface: str, method: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
        from jeepney import MessageType, new_method_call

        message = new_method_call(self._address(path, _NAME, interface), method, signature, body)
        answer = self._connection.send_and_get_reply(message, timeout=_CALL_S)
        if answer.header.message_type is MessageType.error:
            name = str(answer.header.fields.get(4, ""))  # 4: the error's name
            raise SystemdRefused(name, str(answer.body[0]) if answer.body else "")
        return tuple(answer.body)

    def close(self) -> None:
        self._connection.close()


def open_bus(socket: Path) -> DbusConnection:
    """Connect to the bus at this socket. Raises `OSError`."""
    if not socket.exists():
        raise FileNotFoundError(2, "no bus at this path", str(socket))
    try:
        return _JeepneyBus(socket)
    except ImportError as error:
        raise OSError(f"the package jeepney is missing ({error})") from error
    except OSError:
        raise
    except Exception as error:  # what jeepney raises where the other side is no bus
        raise OSError(f"{type(error).__name__}: {error}") from error
