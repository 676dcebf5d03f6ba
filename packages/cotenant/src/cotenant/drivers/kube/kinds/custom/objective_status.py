"""ServiceObjectives with their statuses, for those who act on how an objective stands.

The trace process counts and writes, and its own watch must not decode every status that it writes itself. A struct of
its own over the same kind, with what says how the objective stands; decimals are text there, as in every status.
Limits: a status that was made by hand and cannot be read counts as none.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from cotenant.drivers.kube.kinds.custom.service_objective import KIND, read_spec, window_text_s
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Strings, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonValue
from cotenant.model.traces.objective import GROUP, FiringAlert, ObjectiveState, ObjectiveStatus


class _Alert(ApiStruct, frozen=True):
    window: Text = None
    short_window: Text = None
    factor: Text = None


class _Replica(ApiStruct, frozen=True):
    pod: Text = None
    burn: Text = None


class _Status(ApiStruct, frozen=True):
    state: Text = None
    burn: Strings = None
    alerts: tuple[_Alert, ...] | None = None
    worst_replica: _Replica | None = None
    requests: int | None = None


class ObjectiveStatusObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 ServiceObjective with its status; the spec is read field by field."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonValue = None
    status: _Status | None = None


OBJECTIVE_STATUSES = Kind(KIND, GROUP, "v1alpha1", "serviceobjectives", True, ObjectiveStatusObject)
_STATES = {entry.value: entry for entry in ObjectiveState}


def read_objective_status(obj: ObjectiveStatusObject) -> ObjectiveStatus:
    """How an objective stands; without a state where its spec cannot be read."""
    meta, status = obj.metadata, obj.status or _Status()
    objective = read_spec(meta.namespace or "default", meta.name or "", obj.spec)
    worst = status.worst_replica or _Replica()
    return ObjectiveStatus(
        key=objective.key,
        service_namespace=objective.service_namespace,
        service=objective.service,
        indicator=objective.indicator,
        state=None if objective.wrong else _STATES.get(status.state or ""),
        burn=_burn(status.burn or {}),
        firing=tuple(
            FiringAlert(alert.window or "", alert.short_window or "", _number(alert.factor) or 0.0)
            for alert in status.alerts or ()
        ),
        worst=worst.pod or "",
        worst_burn=_number(worst.burn) or 0.0,
        requests=status.requests or 0,
        alerts=bool(objective.labels),
    )


def _burn(given: Mapping[str, str]) -> dict[str, float]:
    """The rates that can be read, by window, the shortest window first."""
    found = []
    for name, text in given.items():
        rate = _number(text)
        try:
            length_s = window_text_s(name, "status.burn")
        except InvalidInput:
            continue
        if rate is not None:
            found.append((length_s, name, rate))
    return {name: rate for _, name, rate in sorted(found)}


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if isfinite(found) and found >= 0 else None
