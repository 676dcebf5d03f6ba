"""Objectives of other systems as ServiceObjectives: OpenSLO, Pyrra and Sloth.

Teams have objectives already, as PromQL over metrics that are not read here. What such a query is about is taken from
where these systems put it: the service and a histogram's bucket `le` with its label matchers, or an error query; the
rest of a query is not interpreted, and each guess is a note beside the result. Where latency and errors cannot be told
apart, or the budget is of time slices, the objective is refused with the reason.
Limits: one operation an objective; queries are searched, not parsed.

Source: OpenSLO/OpenSLO, README (v1); pyrra-dev/pyrra, slo/slo.go; slok/sloth, pkg/prometheus/api/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from cotenant.drivers.kube.kinds.custom.service_objective import API_VERSION, KIND, budget_ppm, read_spec
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject

_LE = re.compile(r'\ble\s*=~?\s*"([0-9.eE+-]{1,30})"')
_MATCHER = re.compile(
    r'\b(service_namespace|namespace|service_name|service|job|operation|span_name|handler|route)\s*=\s*"([^"]{1,200})"'
)
_BUCKET = re.compile(r"_(duration|latency|seconds|milliseconds|ms|time)[a-z_]*_bucket\b|_bucket\b")
_MILLISECONDS = re.compile(r"_(milliseconds|ms)_")
_NAME = re.compile(r"[^a-z0-9-]+")
_MOST = 1_000  # objectives of a file


@dataclass(frozen=True, slots=True)
class Converted:
    """One objective of a file: a manifest, or why there is none."""

    source: str  # kind and name
    manifest: JsonMapping | None
    notes: tuple[str, ...] = ()
    refused: str = ""


def convert(found: Iterable[JsonMapping]) -> list[Converted]:
    """Every objective of these documents. Raises `InvalidInput` where none of them has a known kind."""
    documents = list(found)
    indicators = {_name(entry): entry for entry in documents if entry.get("kind") == "SLI"}
    converted: list[Converted] = []
    unknown = []
    for document in documents:
        api, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
        if api.startswith(("openslo/", "openslo.com/")):
            if kind == "SLO":
                converted += _openslo(document, indicators)
        elif api.startswith("pyrra.dev/") and kind == "ServiceLevelObjective":
            converted.append(_attempt(f"Pyrra {_name(document)}", lambda entry=document: _pyrra(entry)))
        elif api.startswith("sloth.slok.dev/") and kind == "PrometheusServiceLevel":
            converted += _sloth(_mapping(document, "spec"), _mapping(document, "metadata"))
        elif document.get("version") == "prometheus/v1" and "slos" in document:
            converted += _sloth(document, {})
        elif api == API_VERSION and kind == KIND:
            converted.append(Converted(f"{KIND} {_name(document)}", document, ("it is one already",)))
        else:
            unknown.append(f"{api} {kind}".strip() or "a document without kind")
        if len(converted) > _MOST:
            raise InvalidInput("objectives", f"more than {_MOST}", f"at most {_MOST} in a file")
    if not converted:
        raise InvalidInput("kind", ", ".join(unknown[:5]) or "none", "an SLO of OpenSLO v1, Pyrra or Sloth")
    return converted


def _attempt(source: str, read: Any) -> Converted:
    try:
        manifest, notes = read()
    except InvalidInput as error:
        return Converted(source, None, refused=str(error))
    spec = manifest["spec"]
    metadata = manifest["metadata"]
    wrong = read_spec(metadata.get("namespace", "default"), metadata["name"], spec).wrong
    if wrong:
        return Converted(source, None, refused="; ".join(wrong))
    return Converted(source, manifest, tuple(notes))


# ---- OpenSLO


def _openslo(document: JsonMapping, indicators: Mapping[str, JsonMapping]) -> list[Converted]:
    spec = _mapping(document, "spec")
    objectives = spec.get("objectives")
    name = _name(document)
    if not isinstance(objectives, list) or not objectives:
        return [Converted(f"OpenSLO {name}", None, refused="spec.objectives: none: expected at least one")]
    many = len(objectives) > 1
    converted = []
    for place, objective in enumerate(objectives[:_MOST], 1):
        title = f"{name}-{place}" if many else name

        def read(objective: object = objective, title: str = title) -> tuple[JsonObject, list[str]]:
            return _openslo_objective(document, spec, objective, title, indicators)

        converted.append(_attempt(f"OpenSLO {title}", read))
    return converted


def _openslo_objective(
    document: JsonMapping,
    spec: JsonMapping,
    objective: object,
    name: str,
    indicators: Mapping[str, JsonMapping],
) -> tuple[JsonObject, list[str]]:
    method = spec.get("budgetingMethod", "Occurrences")
    if method != "Occurrences":
        hint = "a budget of time slices counts minutes, and this counts requests"
        raise InvalidInput("spec.budgetingMethod", method, "Occurrences", hint)
    if not isinstance(objective, dict):
        raise InvalidInput("spec.objectives", objective, "objects")
    if "compositeWeight" in objective:
        raise InvalidInput("spec.objectives.compositeWeight", objective["compositeWeight"], "no composite objective")
    notes: list[str] = []
    indicator = _indicator_of(spec, indicators)
    target = _openslo_target(objective)
    of_spec = _mapping(indicator, "spec")
    if isinstance(of_spec.get("thresholdMetric"), dict):
        below = _threshold(objective, notes)
        queries = _texts(of_spec["thresholdMetric"])
        found: JsonObject = {"latency": {"below": below}}
    elif isinstance(of_spec.get("ratioMetric"), dict):
        ratio = of_spec["ratioMetric"]
        queries = _texts(ratio)
        found = _of_queries(queries, _texts(ratio.get("bad")) if ratio.get("bad") else [], notes)
    else:
        raise InvalidInput("spec.indicator", ", ".join(map(str, of_spec)) or "none", "ratioMetric or thresholdMetric")
    window = _openslo_window(spec, notes)
    service = _service(str(spec.get("service") or ""), queries, notes)
    metadata = _mapping(document, "metadata") if "metadata" in document else {}
    return _manifest(name, metadata, service, found, target, window), notes


def _indicator_of(spec: JsonMapping, indicators: Mapping[str, JsonMapping]) -> JsonMapping:
    if isinstance(spec.get("indicator"), dict):
        found: JsonMapping = spec["indicator"]
        return found
    named = spec.get("indicatorRef")
    if isinstance(named, str) and named in indicators:
        return indicators[named]
    raise InvalidInput("spec.indicatorRef", named, "an SLI in the same file, or spec.indicator")


def _openslo_target(objective: JsonMapping) -> str:
    if "targetPercent" in objective:
        return _percent(objective["targetPercent"], "spec.objectives.targetPercent")
    try:
        share = Decimal(str(objective.get("target"))) * 100
    except InvalidOperation:
        raise InvalidInput("spec.objectives.target", objective.get("target"), "a share above 0 and below 1") from None
    if not share.is_finite() or abs(share.adjusted()) > 50:
        raise InvalidInput("spec.objectives.target", objective.get("target"), "a share above 0 and below 1")
    return _percent(f"{share.normalize():f}", "spec.objectives.target")


def _threshold(objective: JsonMapping, notes: list[str]) -> str:
    op, value = objective.get("op", "lte"), objective.get("value")
    if op not in ("lte", "lt"):
        raise InvalidInput("spec.objectives.op", op, "lte or lt", "a latency is good below its threshold")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput("spec.objectives.value", value, "a number")
    notes.append(f"{value:g} is taken as seconds")
    return _duration(float(value))


def _openslo_window(spec: JsonMapping, notes: list[str]) -> str:
    windows = spec.get("timeWindow")
    if not isinstance(windows, list) or not windows or not isinstance(windows[0], dict):
        notes.append("no timeWindow: 28d")
        return "28d"
    if windows[0].get("isRolling") is False:
        notes.append("a calendar window becomes a rolling one of the same length")
    return _window(windows[0].get("duration"), "spec.timeWindow.duration")


# ---- Pyrra


def _pyrra(document: JsonMapping) -> tuple[JsonObject, list[str]]:
    spec, notes = _mapping(document, "spec"), list[str]()
    metadata = _mapping(document, "metadata")
    indicator = _mapping(spec, "indicator")
    below: JsonObject
    if isinstance(indicator.get("latency"), dict):
        queries = _texts(indicator["latency"])
        below = _of_queries(queries, [], notes)
    elif isinstance(indicator.get("latencyNative"), dict):
        queries = _texts(indicator["latencyNative"])
        below = {"latency": {"below": str(indicator["latencyNative"].get("latency"))}}
    elif isinstance(indicator.get("ratio"), dict):
        queries = _texts(indicator["ratio"])
        below = {"errors": {}}
        notes.append("errors are spans with status ERROR")
    else:
        hint = "a gauge is sampled in time, and this counts requests" if "bool_gauge" in indicator else ""
        raise InvalidInput(
            "spec.indicator", ", ".join(map(str, indicator)) or "none", "ratio, latency or latencyNative", hint
        )
    service = _service("", queries, notes, str(metadata.get("name", "")))
    manifest = _manifest(
        str(metadata.get("name", "")),
        metadata,
        service,
        below,
        _percent(spec.get("target"), "spec.target"),
        _window(spec.get("window"), "spec.window"),
    )
    alerting = spec.get("alerting")
    if isinstance(alerting, dict) and alerting.get("disabled") is True:
        manifest["spec"]["alerting"] = {"disabled": True}
    return manifest, notes


# ---- Sloth


def _sloth(spec: JsonMapping, metadata: JsonMapping) -> list[Converted]:
    slos = spec.get("slos")
    if not isinstance(slos, list) or not slos:
        return [Converted("Sloth", None, refused="slos: none: expected at least one")]
    converted = []
    for slo in slos[:_MOST]:
        name = str(slo.get("name", "")) if isinstance(slo, dict) else ""

        def read(slo: object = slo, name: str = name) -> tuple[JsonObject, list[str]]:
            return _sloth_objective(spec, metadata, slo, name)

        converted.append(_attempt(f"Sloth {name}", read))
    return converted


def _sloth_objective(spec: JsonMapping, metadata: JsonMapping, slo: object, name: str) -> tuple[JsonObject, list[str]]:
    if not isinstance(slo, dict):
        raise InvalidInput("slos", slo, "objects")
    notes: list[str] = []
    sli = _mapping(slo, "sli")
    events = sli.get("events") if isinstance(sli.get("events"), dict) else sli.get("raw")
    if not isinstance(events, dict):
        raise InvalidInput(
            "sli", ", ".join(map(str, sli)) or "none", "events or raw", "a plugin's query is not in the file"
        )
    errors = [
        str(events[key])
        for key in ("errorQuery", "error_query", "errorRatioQuery", "error_ratio_query")
        if key in events
    ]
    queries = _texts(events)
    found = _of_queries(queries, errors, notes)
    service_name = str(spec.get("service") or "")
    service = _service(service_name, queries, notes)
    title = f"{service_name}-{name}" if service_name else name
    manifest = _manifest(title, metadata, service, found, _percent(slo.get("objective"), "slos.objective"), "30d")
    severities = {}
    given = slo.get("alerting")
    alerting: JsonObject = given if isinstance(given, dict) else {}
    for ours, theirs in (("fast", ("pageAlert", "page_alert")), ("slow", ("ticketAlert", "ticket_alert"))):
        alert: JsonObject = next((alerting[key] for key in theirs if isinstance(alerting.get(key), dict)), {})
        if alert.get("disable") is True:
            severities[ours] = ""
    if severities:
        manifest["spec"]["alerting"] = {"severities": severities}
    return manifest, notes


# ---- what they have in common


def _of_queries(queries: list[str], errors: list[str], notes: list[str]) -> JsonObject:
    """The indicator that PromQL queries are about: the bucket of a latency histogram, else errors."""
    bounds = {found for query in queries for found in _LE.findall(query)} - {"+Inf"}
    if len(bounds) == 1:
        try:
            bound = float(next(iter(bounds)))
        except ValueError:
            raise InvalidInput("query", f'le="{next(iter(bounds))}"', "a number") from None
        scale = 1e-3 if any(_MILLISECONDS.search(query) for query in queries) else 1.0
        notes.append(f"latency of the bucket le={next(iter(bounds))}{' ms' if scale < 1 else ' s'}")
        return {"latency": {"below": _duration(bound * scale)}}
    if len(bounds) > 1:
        raise InvalidInput("query", ", ".join(sorted(bounds)), "one bound le")
    if any(_BUCKET.search(query) for query in queries):
        raise InvalidInput("query", "a histogram's bucket without le", "a fixed bound le")
    notes.append("errors are spans with status ERROR" + (f", instead of {errors[0][:120]}" if errors else ""))
    return {"errors": {}}


def _service(named: str, queries: list[str], notes: list[str], otherwise: str = "") -> dict[str, str]:
    """The service as its spans name it: as the file says, else by the matchers of its queries."""
    labels: dict[str, str] = {}
    for query in queries:
        for key, value in _MATCHER.findall(query):
            labels.setdefault(key, value)
    name = named or labels.get("service_name") or labels.get("service") or labels.get("job", "") or otherwise
    if not name:
        raise InvalidInput("service", "", "a service, or a query with a matcher of service or job")
    found = {"name": name}
    if not named:
        notes.append(f"service {name}, from its {'query' if name != otherwise else 'name'}")
    namespace = labels.get("service_namespace") or labels.get("namespace")
    if namespace:
        found["namespace"] = namespace
    operation = labels.get("operation") or labels.get("span_name") or labels.get("handler") or labels.get("route")
    if operation:
        found["operation"] = operation
        notes.append(f"operation {operation!r}: check that its spans have this name")
    return found


def _manifest(
    name: str,
    metadata: JsonMapping,
    service: dict[str, str],
    indicator: JsonObject,
    target: str,
    window: str,
) -> JsonObject:
    found: JsonObject = {"name": _NAME.sub("-", name.lower()).strip("-")[:253]}
    if not found["name"]:
        raise InvalidInput("metadata.name", name, "a name")
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and namespace:
        found["namespace"] = namespace
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": found,
        "spec": {"service": service, "indicator": indicator, "target": target, "window": window},
    }


def _texts(value: object, depth: int = 0) -> list[str]:
    """Every text of a metric source, which differ by the system that is asked."""
    if isinstance(value, str):
        return [value]
    if depth > 8:
        return []
    if isinstance(value, dict):
        return [text for entry in value.values() for text in _texts(entry, depth + 1)]
    if isinstance(value, list):
        return [text for entry in value[:100] for text in _texts(entry, depth + 1)]
    return []


def _percent(value: object, field: str) -> str:
    budget_ppm(value, field)
    return str(value)


def _window(value: object, field: str) -> str:
    text = str(value)
    months = re.fullmatch(r"([1-3])M", text)
    if months:
        return f"{int(months[1]) * 30}d"
    if not isinstance(value, str):
        raise InvalidInput(field, value, "a duration such as 28d")
    return text


def _duration(seconds: float) -> str:
    us = round(seconds * 1e6) if 0 < seconds < 1e6 else 0
    if us <= 0:
        raise InvalidInput("threshold", seconds, "seconds above 0")
    return f"{us // 1000}ms" if us % 1000 == 0 else f"{us}us"


def _mapping(value: JsonMapping, key: str) -> JsonObject:
    found = value.get(key)
    if not isinstance(found, dict):
        raise InvalidInput(key, found, "an object")
    return found


def _name(document: JsonMapping) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
