"""RightSizing as manifests have it, read into the model's value, and its status as fields.

The spec is people's and is read part by part, each error a sentence in `wrong`; an object with one is not acted upon.
The status is ours: what a change needs to be continued or undone is there and nowhere else, so one that cannot be read
is an error of the whole object, and its pods keep what they have.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.custom.service_objective import window_text_s
from cotenant.drivers.kube.kinds.custom.stored_status import read_stored, written_fields
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject, JsonValue
from cotenant.model.sizes.right_sizing import RightSizing, SizingMode, SizingStatus
from cotenant.model.traces.objective import GROUP

KIND, VERSION = "RightSizing", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_MAX_TEXT = 253
_SHORTEST_S, _LONGEST_S = 1.0, 30 * 86_400.0


class RightSizingObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 RightSizing; read field by field."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonValue = None
    status: JsonValue = None


RIGHT_SIZINGS = Kind(KIND, GROUP, VERSION, "rightsizings", True, RightSizingObject)


def read_right_sizing(obj: RightSizingObject) -> RightSizing:
    """An object; what of its spec cannot be read is in `wrong`. Raises `InvalidInput` for a status that is not ours."""
    meta = obj.metadata
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)
    none: JsonObject = {}
    spec = attempt(none, lambda: _mapping(obj.spec, "spec"))
    workload = attempt(none, lambda: _mapping(spec.get("workload"), "spec.workload"))
    return RightSizing(
        key=f"{meta.namespace or 'default'}/{meta.name or ''}",
        uid=meta.uid or "",
        generation=meta.generation or 0,
        workload_kind=attempt("Deployment", lambda: _kind(workload.get("kind", "Deployment"))),
        workload_name=attempt("", lambda: _text(workload, "name", "spec.workload.name")),
        mode=attempt(SizingMode.OFF, lambda: _mode(spec.get("mode", SizingMode.SUGGEST.value))),
        objective=attempt("", lambda: _text(spec, "objective", "spec.objective", "")),
        risk=attempt(0.01, lambda: _risk(spec.get("riskPercent", 1))),
        min_history_s=attempt(86_400.0, lambda: _duration(spec, "minHistory", 86_400.0)),
        proof_s=attempt(600.0, lambda: _duration(spec, "proof", 600.0)),
        patience_s=attempt(600.0, lambda: _duration(spec, "patience", 600.0)),
        approved=attempt("", lambda: _text(spec, "approved", "spec.approved", "")),
        approved_by=attempt("", lambda: _text(spec, "approvedBy", "spec.approvedBy", "")),
        undo=attempt("", lambda: _text(spec, "undo", "spec.undo", "")),
        wrong=tuple(wrong),
        status=read_status(obj.status),
    )


def read_status(status: object) -> SizingStatus:
    """What is stored. Raises `InvalidInput`."""
    if status is None:
        return SizingStatus()
    return read_stored(status, SizingStatus, KIND)


def status_fields(status: SizingStatus) -> dict[str, object]:
    """The status as it is written; what is not known is absent."""
    return written_fields(status)


def _kind(value: object) -> str:
    if not isinstance(value, str) or value not in WORKLOADS:
        raise InvalidInput("spec.workload.kind", value, ", ".join(WORKLOADS))
    return value


def _mode(value: object) -> SizingMode:
    if not isinstance(value, str) or value not in set(SizingMode):
        raise InvalidInput("spec.mode", value, ", ".join(SizingMode))
    return SizingMode(value)


def _risk(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.01 <= value <= 20:
        raise InvalidInput("spec.riskPercent", value, "0.01 to 20")
    return value / 100


def _duration(spec: JsonMapping, name: str, usual: float) -> float:
    value = spec.get(name)
    if value is None:
        return usual
    if not isinstance(value, str):
        raise InvalidInput(f"spec.{name}", value, "a duration such as 10m or 7d")
    found = window_text_s(value, f"spec.{name}")
    if not _SHORTEST_S <= found <= _LONGEST_S:
        raise InvalidInput(f"spec.{name}", value, "1s to 30d")
    return found


def _text(fields: JsonMapping, key: str, field: str, default: str | None = None) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str) or (default is None and not value) or len(value) > _MAX_TEXT:
        raise InvalidInput(field, value, f"text of at most {_MAX_TEXT} characters")
    return value


def _mapping(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "an object")
    return value
