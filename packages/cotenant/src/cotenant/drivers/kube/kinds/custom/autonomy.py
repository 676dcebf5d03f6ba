"""Autonomy as manifests have it, read into the model's value.

Each error is a sentence in `wrong`, and an object with one allows no more than to suggest. A freeze is read first and
from whatever stands there: a switch for an emergency must not fail by a word.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.autonomy.autonomy import Action, ActionWindow, Autonomy, AutonomyRung, Blackout, Freeze
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.model.traces.objective import GROUP

KIND, VERSION = "Autonomy", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_RUNGS = {rung.name.lower(): rung for rung in AutonomyRung}


class AutonomyObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 Autonomy; read field by field."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None


AUTONOMIES = Kind(KIND, GROUP, VERSION, "autonomies", False, AutonomyObject)


def read_autonomy(obj: AutonomyObject) -> Autonomy:
    """An object; what of its spec cannot be read is in `wrong`."""
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)
    spec: JsonObject = attempt({}, lambda: _mapping(obj.spec or {}, "spec"))
    return Autonomy(
        name=obj.metadata.name or "",
        namespaces=attempt(frozenset(), lambda: frozenset(_texts(spec.get("namespaces"), "spec.namespaces"))),
        actions=attempt(frozenset(), lambda: frozenset(map(_action, _texts(spec.get("actions"), "spec.actions")))),
        ceiling=attempt(AutonomyRung.SUGGEST, lambda: _rung(spec.get("ceiling", "act"))),
        windows=attempt((), lambda: tuple(map(_window, _list(spec.get("windows"), "spec.windows")))),
        blackouts=attempt((), lambda: tuple(map(_blackout, _list(spec.get("blackouts"), "spec.blackouts")))),
        freeze=_freeze(spec.get("freeze")),
        wrong=tuple(wrong),
    )


def _freeze(written: object) -> Freeze | None:
    if written is None or written is False:
        return None
    if isinstance(written, dict):
        return Freeze(str(written.get("why") or ""), str(written.get("by") or ""))
    return Freeze(str(written))


def _mapping(value: object, field: str) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "an object")
    return value


def _list(value: object, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(field, value, "a list")
    return value


def _texts(value: object, field: str) -> list[str]:
    found = _list(value, field)
    if not all(isinstance(text, str) and text for text in found):
        raise InvalidInput(field, value, "a list of names")
    return found


def _action(text: str) -> Action:
    if text not in set(Action):
        raise InvalidInput("spec.actions", text, ", ".join(Action))
    return Action(text)


def _rung(value: object) -> AutonomyRung:
    if not isinstance(value, str) or value not in _RUNGS:
        raise InvalidInput("spec.ceiling", value, ", ".join(_RUNGS))
    return _RUNGS[value]


def _window(written: object) -> ActionWindow:
    value = _mapping(written, "spec.windows")
    days = _texts(value.get("days", list(_DAYS)), "spec.windows.days")
    if not days or any(day not in _DAYS for day in days):  # without a day it would never open
        raise InvalidInput("spec.windows.days", days, ", ".join(_DAYS))
    return ActionWindow(
        frozenset(map(_DAYS.index, days)),
        _minute(value.get("from", "00:00"), "spec.windows.from"),
        _minute(value.get("to", "24:00"), "spec.windows.to"),
        _zone(value.get("timeZone", "UTC")),
    )


def _minute(value: object, field: str) -> int:
    hour, colon, minute = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not (colon and hour.isdigit() and minute.isdigit() and len(minute) == 2):
        raise InvalidInput(field, value, "HH:MM")
    found = int(hour) * 60 + int(minute)
    if int(minute) > 59 or found > 24 * 60:
        raise InvalidInput(field, value, "00:00 to 24:00")
    return found


def _zone(value: object) -> tzinfo:
    if value == "UTC":
        return UTC
    try:
        return ZoneInfo(str(value))
    except (KeyError, ValueError, OSError):
        raise InvalidInput("spec.windows.timeZone", value, "a name such as Europe/Berlin") from None


def _blackout(written: object) -> Blackout:
    value = _mapping(written, "spec.blackouts")
    begin, end = (_time(value.get(name), f"spec.blackouts.{name}") for name in ("from", "to"))
    if end <= begin:
        raise InvalidInput("spec.blackouts.to", value.get("to"), "a time after `from`")
    return Blackout(begin, end, str(value.get("why") or ""))


def _time(value: object, field: str) -> float:
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        raise InvalidInput(field, value, "a date or a time, such as 2026-12-24 or 2026-12-24T18:00:00Z") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
