"""PoolLending as manifests have it, read into the model's value, and its status as fields.

The spec is people's: an error in it is a sentence in `wrong`, and nothing beside it counts. The status is ours; one
that cannot be read is an error of the whole object, and what was known of it stays.
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.custom.stored_status import read_stored, written_fields
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.autonomy.pool_lending import LendingStatus, PoolLending
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject, JsonValue
from cotenant.model.traces.objective import GROUP

KIND, VERSION = "PoolLending", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
_MAX_TEXT = 253


class PoolLendingObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 PoolLending; read field by field."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonValue = None
    status: JsonValue = None


POOL_LENDINGS = Kind(KIND, GROUP, VERSION, "poollendings", False, PoolLendingObject)


def read_pool_lending(obj: PoolLendingObject) -> PoolLending:
    """An object. Raises `InvalidInput` for a status that is not ours."""
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)
    none: JsonObject = {}
    spec = attempt(none, lambda: _mapping(obj.spec))
    return PoolLending(
        name=obj.metadata.name or "",
        uid=obj.metadata.uid or "",
        approved=attempt("", lambda: _text(spec, "approved")),
        approved_by=attempt("", lambda: _text(spec, "approvedBy")),
        undo=attempt("", lambda: _text(spec, "undo")),
        wrong=tuple(wrong),
        status=LendingStatus() if obj.status is None else read_stored(obj.status, LendingStatus, KIND),
    )


def lending_fields(status: LendingStatus) -> dict[str, object]:
    """The status as it is written."""
    return written_fields(status)


def _mapping(value: JsonValue) -> JsonObject:
    if value is not None and not isinstance(value, dict):
        raise InvalidInput("spec", value, "an object")
    return value or {}


def _text(spec: JsonObject, name: str) -> str:
    value = spec.get(name, "")
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise InvalidInput(f"spec.{name}", value, f"text of at most {_MAX_TEXT} characters")
    return value
