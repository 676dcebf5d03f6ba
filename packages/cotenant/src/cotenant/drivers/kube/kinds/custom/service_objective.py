"""ServiceObjective as manifests have it, read into the model's value.

People write a target as a number or a string and a window in days or weeks, and an objective with one absurd value must
be refused in words, not be counted wrongly. The spec is read field by field; each error is a sentence in `wrong`, which
the status shows. Percent are decimals, never floats.
Limits: a target finer than one millionth is refused.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from cotenant.drivers.kube.kinds.attempting import ReadAttempt
from cotenant.drivers.kube.kinds.durations import duration_s
from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject, JsonValue
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.model.traces.model_server import GoalSource, ModelGoal, ModelMeasure
from cotenant.model.traces.objective import (
    GROUP,
    LONGEST_THRESHOLD_US,
    LONGEST_WINDOW_S,
    SHORTEST_WINDOW_S,
    USUAL_LABELS,
    USUAL_MIN_EVENTS,
    AlertSeverity,
    Indicator,
    ServiceObjective,
)

KIND, VERSION = "ServiceObjective", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
_DAYS = re.compile(r"([0-9]{1,6})(d|w)")
_MAX_TEXT = 200
_MAX_EVENTS = 10**9


class ServiceObjectiveObject(ApiStruct, frozen=True):
    """slo.cotenant.io/v1alpha1 ServiceObjective; the spec is read field by field."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonValue = None


SERVICE_OBJECTIVES = Kind(KIND, GROUP, VERSION, "serviceobjectives", True, ServiceObjectiveObject)


def read_service_objective(obj: ServiceObjectiveObject) -> ServiceObjective:
    """An objective; what of it cannot be read is in `wrong`."""
    meta = obj.metadata
    return read_spec(
        meta.namespace or "default", meta.name or "", obj.spec, uid=meta.uid or "", generation=meta.generation or 0
    )


def read_spec(namespace: str, name: str, spec: object, *, uid: str = "", generation: int = 0) -> ServiceObjective:
    """An objective from the spec of its manifest."""
    wrong: list[str] = []
    attempt = ReadAttempt(wrong)
    none: JsonObject = {}
    usual: tuple[Indicator, int | None, ModelGoal | None] = (Indicator.LATENCY, None, None)
    fields = attempt(none, lambda: _mapping(spec, "spec"))
    service = attempt(none, lambda: _mapping(fields.get("service"), "spec.service"))
    alerting = attempt(none, lambda: _mapping(fields.get("alerting") or {}, "spec.alerting"))
    protect = attempt(none, lambda: _mapping(fields.get("protect") or {}, "spec.protect"))
    indicator, threshold_us, goal = attempt(usual, lambda: _indicator(fields.get("indicator")))
    return ServiceObjective(
        key=f"{namespace}/{name}",
        service_namespace=attempt(
            namespace, lambda: _text(service, "namespace", "spec.service.namespace", namespace, empty=True)
        ),
        service=attempt("", lambda: _text(service, "name", "spec.service.name")),
        operation=attempt("", lambda: _text(service, "operation", "spec.service.operation", "", empty=True)),
        indicator=indicator,
        threshold_us=threshold_us,
        goal=goal,
        budget_ppm=attempt(1000, lambda: budget_ppm(fields.get("target"), "spec.target")),
        window_s=attempt(28 * 86_400, lambda: window_s(fields.get("window", "28d"), "spec.window")),
        labels=attempt(dict(USUAL_LABELS), lambda: _labels(alerting)),
        min_events=attempt(USUAL_MIN_EVENTS, lambda: _min_events(alerting.get("minEvents", USUAL_MIN_EVENTS))),
        guard=attempt(True, lambda: _flag(protect, "guard", "spec.protect.guard", True)),
        max_action=attempt(MaxAction.CAP, lambda: _max_action(protect.get("maxAction", MaxAction.CAP.value))),
        uid=uid,
        generation=generation,
        wrong=tuple(wrong),
    )


def budget_ppm(target: object, field: str) -> int:
    """The budget of a target in percent, as a number or a string: 1000 millionths for 99.9. Raises `InvalidInput`.

    A target of 0.9 to 1 is refused: it is a share (0.999, 1.0), which as a percent would allow nearly every request to
    be bad.
    """
    try:
        percent = Decimal(str(target).strip().removesuffix("%")) if not isinstance(target, bool) else Decimal("NaN")
    except InvalidOperation:
        percent = Decimal("NaN")
    if not (percent.is_finite() and 0 < percent < 100):
        raise InvalidInput(field, target, 'percent above 0 and below 100, such as "99.9"')
    if Decimal("0.9") <= percent <= 1:
        raise InvalidInput(
            field,
            target,
            'percent above 0 and below 100, such as "99.9"',
            "0.9 to 1 is taken for a share: 0.999 is 99.9",
        )
    if percent.adjusted() < -6 or abs(percent.as_tuple().exponent) > 50:  # type: ignore[arg-type]
        raise InvalidInput(field, target, "at most four decimals")
    budget = (100 - percent) * 10_000
    if budget != budget.to_integral_value() or budget < 1:
        raise InvalidInput(field, target, "at most four decimals", "the budget is counted in millionths")
    return int(budget)


def window_s(text: object, field: str) -> int:
    """A window: 28d, 4w, 12h. Raises `InvalidInput`."""
    expected = f"{SHORTEST_WINDOW_S // 3600}h to {LONGEST_WINDOW_S // 86_400}d, such as 28d or 4w"
    if not isinstance(text, str):
        raise InvalidInput(field, text, expected)
    seconds = window_text_s(text, field)
    if not SHORTEST_WINDOW_S <= seconds <= LONGEST_WINDOW_S:
        raise InvalidInput(field, text, expected)
    return round(seconds)


def window_text_s(text: str, field: str) -> float:
    """The seconds of a duration that may be in days or weeks, of any length. Raises `InvalidInput`."""
    days = _DAYS.fullmatch(text)
    return float(days[1]) * 86_400 * (7 if days[2] == "w" else 1) if days else duration_s(text, field)


def _indicator(value: object) -> tuple[Indicator, int | None, ModelGoal | None]:
    fields = _mapping(value, "spec.indicator")
    named = [indicator for indicator in Indicator if indicator.value in fields and fields[indicator.value] is not None]
    if len(named) != 1 or len(fields) != 1:
        raise InvalidInput(
            "spec.indicator", ", ".join(sorted(map(str, fields))) or "none", "one of " + ", ".join(Indicator)
        )
    if named[0] is Indicator.SELF_REPORTED and fields["selfReported"] != "p99":
        raise InvalidInput("spec.indicator.selfReported", fields["selfReported"], "p99")
    if named[0] is Indicator.MODEL_SERVER:
        goal = _model_goal(_mapping(fields["modelServer"], "spec.indicator.modelServer"))
        return Indicator.MODEL_SERVER, goal.only[1] if goal.only is not None else None, goal
    if named[0] is not Indicator.LATENCY:
        return named[0], None, None
    below = _mapping(fields["latency"], "spec.indicator.latency").get("below")
    return Indicator.LATENCY, threshold_us(below, "spec.indicator.latency.below"), None


def _model_goal(fields: JsonMapping) -> ModelGoal:
    """Limits are named by their measures. Raises `InvalidInput`."""
    where = "spec.indicator.modelServer"
    measures = ", ".join(ModelMeasure)
    if unknown := sorted(set(map(str, fields)) - {*ModelMeasure, "source", "model"}):
        raise InvalidInput(where, ", ".join(unknown), f"limits of {measures}; source; model")
    source = fields.get("source", GoalSource.METRICS.value)
    if not isinstance(source, str) or source not in set(GoalSource):
        raise InvalidInput(f"{where}.source", source, "one of " + ", ".join(GoalSource))
    limits = {
        measure: threshold_us(fields[measure.value], f"{where}.{measure.value}")
        for measure in ModelMeasure
        if fields.get(measure.value) is not None
    }
    given = ", ".join(limits) or "no limit"
    if not limits:
        raise InvalidInput(where, given, f"a limit of one of {measures}")
    if source == GoalSource.METRICS and len(limits) > 1:
        hint = "histograms do not say which observations are of one request; source: spans counts goodput"
        raise InvalidInput(where, given, "one limit with source metrics", hint)
    if source == GoalSource.SPANS and ModelMeasure.INTER_TOKEN_LATENCY in limits:
        hint = "a span has one mean a request: timePerOutputToken"
        raise InvalidInput(where, given, "no interTokenLatency with source spans", hint)
    return ModelGoal(limits, GoalSource(source), _text(fields, "model", f"{where}.model", "", empty=True))


def threshold_us(below: object, field: str) -> int:
    """A latency threshold in microseconds. Raises `InvalidInput`."""
    if not isinstance(below, str):
        raise InvalidInput(field, below, "a duration such as 200ms")
    found = round(duration_s(below, field) * 1e6)
    if not 1 <= found <= LONGEST_THRESHOLD_US:
        raise InvalidInput(field, below, "1us to 1h")
    return found


def _labels(alerting: JsonMapping) -> dict[AlertSeverity, str]:
    if _flag(alerting, "disabled", "spec.alerting.disabled", False):
        return {}
    given = alerting.get("severities")
    if given is None:
        return dict(USUAL_LABELS)
    fields = _mapping(given, "spec.alerting.severities")
    if unknown := sorted(set(map(str, fields)) - {severity.value for severity in AlertSeverity}):
        raise InvalidInput("spec.alerting.severities", ", ".join(unknown), "fast, slow")
    found = {}
    for severity in AlertSeverity:
        label = _text(
            fields, severity.value, f"spec.alerting.severities.{severity.value}", USUAL_LABELS[severity], empty=True
        )
        if label:
            found[severity] = label
    return found


def _min_events(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_EVENTS:
        raise InvalidInput("spec.alerting.minEvents", value, f"1 to {_MAX_EVENTS}")
    return value


def _max_action(value: object) -> MaxAction:
    if not isinstance(value, str) or value not in set(MaxAction):
        raise InvalidInput("spec.protect.maxAction", value, "one of " + ", ".join(MaxAction))
    return MaxAction(value)


def _flag(fields: JsonMapping, key: str, field: str, default: bool) -> bool:
    value = fields.get(key, default)
    if not isinstance(value, bool):
        raise InvalidInput(field, value, "true or false")
    return value


def _text(fields: JsonMapping, key: str, field: str, default: str | None = None, *, empty: bool = False) -> str:
    value = fields.get(key, default)
    if not isinstance(value, str) or not (value or empty) or len(value) > _MAX_TEXT:
        least = "0" if empty else "1"
        raise InvalidInput(field, value, f"text of {least} to {_MAX_TEXT} characters")
    return value


def _mapping(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "an object")
    return value
