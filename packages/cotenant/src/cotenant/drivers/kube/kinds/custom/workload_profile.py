"""WorkloadProfile as manifests have it, read into the model's value, and its status as fields.

A profile is written by people (spec), a scheduler (learned), a command (measured) and a federation's joiner (shared),
and an absurd part must not become a prior. Read part by part; what cannot be read is a sentence in `wrong` and counts
as not said. Statuses are written field by field, so that these keep each other's.
Limits: fields beyond these are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.cluster.workload_profile import (
    LARGEST,
    NOT_SEEN,
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Reading,
    Unknown,
    WorkloadBound,
    WorkloadProfile,
    WorkloadRef,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject, JsonValue
from cotenant.model.traces.objective import GROUP

KIND, VERSION = "WorkloadProfile", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
USUAL_KIND = "Deployment"
_MAX_TEXT = 400
_OF_AXIS, _OF_ALL = ("tendency", "sensitivity"), ("sensitivity", "pressure", "tolerates")

Reader = Callable[[object, str], Reading]


class WorkloadProfileObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 WorkloadProfile; read field by field."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonValue = None
    status: JsonValue = None


WORKLOAD_PROFILES = Kind(KIND, GROUP, VERSION, "workloadprofiles", True, WorkloadProfileObject)


def read_workload_profile(obj: WorkloadProfileObject) -> WorkloadProfile:
    """A profile; what of it cannot be read is in `wrong`."""
    meta = obj.metadata
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)
    none: JsonObject = {}
    spec = attempt(none, lambda: _mapping(obj.spec, "spec"))
    status = attempt(none, lambda: _mapping(obj.status, "status"))
    workload = attempt(none, lambda: _mapping(spec.get("workload"), "spec.workload"))
    declared = attempt(none, lambda: _mapping(spec.get("declared"), "spec.declared"))
    measured = attempt(none, lambda: _mapping(status.get("measured"), "status.measured"))
    shared = attempt(none, lambda: _mapping(status.get("shared"), "status.shared"))
    return WorkloadProfile(
        key=f"{meta.namespace or 'default'}/{meta.name or ''}",
        workload=WorkloadRef(
            attempt(USUAL_KIND, lambda: _text(workload, "kind", "spec.workload.kind", USUAL_KIND)),
            attempt("", lambda: _text(workload, "name", "spec.workload.name")),
        ),
        declared=_declared_axes(declared.get("axes"), attempt),
        declared_overall=_overall(declared.get("overall"), "spec.declared.overall", attempt, _declared),
        learned=_axes(status.get("axes"), "status.axes", attempt),
        learned_overall=_overall(status.get("overall"), "status.overall", attempt, _reading),
        bound=_bound(status.get("boundBy"), attempt),
        measured=_axes(measured.get("axes"), "status.measured.axes", attempt),
        shared_as=attempt("", lambda: _text(spec, "sharedAs", "spec.sharedAs", "")),
        shared=_overall(shared.get("overall"), "status.shared.overall", attempt, _reading),
        shared_by=attempt(0, lambda: _count(shared.get("clusters", 0), "status.shared.clusters")),
        measured_on=attempt("", lambda: _text(measured, "node", "status.measured.node", "")),
        measured_at=attempt("", lambda: _text(measured, "at", "status.measured.at", "")),
        updated_at=attempt("", lambda: _text(status, "updatedAt", "status.updatedAt", "")),
        uid=meta.uid or "",
        generation=meta.generation or 0,
        wrong=tuple(wrong),
    )


def reading_fields(reading: Reading) -> dict[str, object]:
    """A reading as the object has it."""
    if isinstance(reading, Unknown):
        return {"cannotTell": reading.because}
    return {
        "value": reading.value,
        "low": reading.low,
        "high": reading.high,
        "samples": reading.samples,
        "source": reading.source.value,
    }


def axes_fields(axes: Mapping[ProfileAxis, AxisReading]) -> list[dict[str, object]]:
    """Axes as the object has them, in the order of `ProfileAxis`."""
    return [
        {
            "name": axis.value,
            "tendency": reading_fields(axes[axis].tendency),
            "sensitivity": reading_fields(axes[axis].sensitivity),
        }
        for axis in ProfileAxis
        if axis in axes
    ]


def overall_fields(overall: Overall) -> dict[str, object]:
    """All figures as the object has them."""
    return {
        "sensitivity": reading_fields(overall.sensitivity),
        "pressure": reading_fields(overall.pressure),
        "tolerates": reading_fields(overall.tolerates),
    }


def bound_fields(bound: Mapping[WorkloadBound, Reading]) -> dict[str, object]:
    """Shares by what holds the workload, as the object has them."""
    return {resource.value: reading_fields(bound[resource]) for resource in WorkloadBound if resource in bound}


def _bound(value: object, attempt: ReadAttempt) -> dict[WorkloadBound, Reading]:
    fields = attempt(JsonObject(), partial(_mapping, value, "status.boundBy"))
    none: Reading = NOT_SEEN
    return {
        resource: attempt(none, partial(_reading, fields[resource.value], f"status.boundBy.{resource.value}"))
        for resource in WorkloadBound
        if resource.value in fields
    }


def _declared_axes(value: object, attempt: ReadAttempt) -> dict[ProfileAxis, AxisReading]:
    where = "spec.declared.axes"
    found = {}
    for name, fields in attempt(dict[str, object](), partial(_mapping, value, where)).items():
        axis = attempt(None, partial(_axis, name, where))
        if axis is not None:
            found[axis] = AxisReading(*_parts(fields, f"{where}.{name}", _OF_AXIS, _declared, attempt))
    return found


def _axes(value: object, where: str, attempt: ReadAttempt) -> dict[ProfileAxis, AxisReading]:
    if value is None:
        return {}
    if not isinstance(value, list):
        attempt.wrong.append(str(InvalidInput(where, value, "a list")))
        return {}
    found = {}
    for entry in value[: len(ProfileAxis)]:
        fields = attempt(JsonObject(), partial(_mapping, entry, where))
        axis = attempt(None, partial(_axis, fields.get("name"), where))
        if axis is not None:
            found[axis] = AxisReading(*_parts(fields, f"{where}.{axis}", _OF_AXIS, _reading, attempt))
    return found


def _overall(value: object, where: str, attempt: ReadAttempt, read: Reader) -> Overall:
    return Overall(*_parts(value, where, _OF_ALL, read, attempt))


def _parts(value: object, where: str, names: tuple[str, ...], read: Reader, attempt: ReadAttempt) -> list[Reading]:
    fields = attempt(JsonObject(), partial(_mapping, value, where))
    none: Reading = NOT_SEEN
    return [attempt(none, partial(read, fields.get(name), f"{where}.{name}")) for name in names]


def _declared(value: object, where: str) -> Reading:
    if value is None:
        return NOT_SEEN
    found = _thousandths(value, where)
    return ProfileFigure(found, found, found, 0, FigureSource.DECLARED)


def _reading(value: object, where: str) -> Reading:
    if value is None:
        return NOT_SEEN
    fields = _mapping(value, where)
    if "value" not in fields:
        return Unknown(_text(fields, "cannotTell", f"{where}.cannotTell", NOT_SEEN.because))
    found = _thousandths(fields["value"], f"{where}.value")
    source = fields.get("source", FigureSource.LEARNED.value)
    if not isinstance(source, str) or source not in set(FigureSource):
        raise InvalidInput(f"{where}.source", source, "one of " + ", ".join(FigureSource))
    return ProfileFigure(
        found,
        min(found, _thousandths(fields.get("low", found), f"{where}.low")),
        max(found, _thousandths(fields.get("high", found), f"{where}.high")),
        _count(fields.get("samples", 0), f"{where}.samples"),
        FigureSource(source),
    )


def _count(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(where, value, "a whole number")
    return value


def _thousandths(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise InvalidInput(where, value, f"an integer of 0 to {LARGEST}")
    return value


def _axis(name: object, where: str) -> ProfileAxis:
    if not isinstance(name, str) or name not in set(ProfileAxis):
        raise InvalidInput(where, name, "one of " + ", ".join(ProfileAxis))
    return ProfileAxis(name)


def _text(fields: JsonMapping, key: str, where: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str) or (default is None and not value) or len(value) > _MAX_TEXT:
        raise InvalidInput(where, value, f"text of at most {_MAX_TEXT} characters")
    return value


def _mapping(value: object, where: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(where, value, "an object")
    return value
