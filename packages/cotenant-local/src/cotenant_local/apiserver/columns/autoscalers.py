"""The printer columns of HorizontalPodAutoscalers."""

from __future__ import annotations

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.apiserver.columns.formatting import AGE, NAME, NONE, at, sequence, text

_SHOWN = 2  # metrics; of others only how many there are
_UNKNOWN = "<unknown>"
_PARTS = {"Resource": "resource", "ContainerResource": "containerResource"}


def _targets(obj: Manifest, now: float) -> str:
    metrics = sequence(obj, "spec", "metrics")
    if not metrics:
        return NONE
    found = sequence(obj, "status", "currentMetrics")
    shown = [_target(metric, found[i] if i < len(found) else {}) for i, metric in enumerate(metrics[:_SHOWN])]
    more = f" + {len(metrics) - _SHOWN} more..." if len(metrics) > _SHOWN else ""
    return ", ".join(shown) + more


def _target(metric: Manifest, found: Manifest) -> str:
    part = _PARTS.get(metric.get("type", ""), "")
    name, average = at(metric, part, "name"), at(metric, part, "target", "averageValue")
    if not part:
        return f"{metric.get('type', '')}: {_UNKNOWN}"
    if average is not None:
        return f"{name}: {at(found, part, 'current', 'averageValue') or _UNKNOWN}/{average}"
    used, goal = (
        at(document, part, key, "averageUtilization") for document, key in ((found, "current"), (metric, "target"))
    )
    return f"{name}: {_UNKNOWN if used is None else f'{used}%'}/{'<auto>' if goal is None else f'{goal}%'}"


AUTOSCALER = (
    NAME,
    text(
        "Reference",
        lambda obj, now: f"{at(obj, 'spec', 'scaleTargetRef', 'kind')}/{at(obj, 'spec', 'scaleTargetRef', 'name')}",
    ),
    text("Targets", _targets),
    text("MinPods", lambda obj, now: str(at(obj, "spec", "minReplicas") or "<unset>")),
    text("MaxPods", lambda obj, now: at(obj, "spec", "maxReplicas") or 0),
    text("Replicas", lambda obj, now: at(obj, "status", "currentReplicas") or 0),
    AGE,
)
