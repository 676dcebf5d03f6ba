"""Text formatting shared by the columns of several kinds: ages, selectors, images.

Source: Kubernetes' printing conventions (ages keep two units while they are small; absent values read `<none>`).
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue
from cotenant_local.apiserver.contract import PrinterColumn

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"

_YEAR_DAYS = 365


def at(obj: Manifest, *path: str) -> JsonValue:
    """The value at a path, None if absent."""
    value: JsonValue = obj
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def mapping(obj: Manifest, *path: str) -> Manifest:
    """The mapping at a path, empty if absent."""
    value = at(obj, *path)
    return value if isinstance(value, dict) else {}


def sequence(obj: Manifest, *path: str) -> list[JsonValue]:
    """The list at a path, empty if absent."""
    value = at(obj, *path)
    return value if isinstance(value, list) else []


def seconds(text: object) -> float | None:
    """Unix seconds of a metav1.Time or MicroTime; None for anything else."""
    if not isinstance(text, str) or len(text) < 19:
        return None
    try:
        return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def duration(total_s: float) -> str:
    """A duration in kubectl's short form: `45s`, `2m30s`, `5h`, `3d4h`, `2y`."""
    whole = int(total_s)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    minutes, hours = whole // 60, whole // 3600
    days = hours // 24
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * _YEAR_DAYS:
        return f"{days}d"
    if days < 8 * _YEAR_DAYS:
        return _two(days // _YEAR_DAYS, "y", days % _YEAR_DAYS, "d")
    return f"{days // _YEAR_DAYS}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def since(text: object, now: float) -> str:
    """How long ago a timestamp was."""
    then = seconds(text)
    return UNKNOWN if then is None else duration(now - then)


def labels_text(labels: object) -> str:
    """`a=b,c=d`."""
    if not isinstance(labels, dict) or not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def selector_text(selector: object) -> str:
    """A LabelSelector in kubectl's notation."""
    if not isinstance(selector, dict):
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or []:
        key, values = term.get("key", ""), ",".join(sorted(term.get("values") or []))
        operator = term.get("operator")
        if operator == "In":
            parts.append(f"{key} in ({values})")
        elif operator == "NotIn":
            parts.append(f"{key} notin ({values})")
        elif operator == "Exists":
            parts.append(key)
        elif operator == "DoesNotExist":
            parts.append(f"!{key}")
    return ",".join(parts) or NONE


def containers(obj: Manifest, now: float) -> str:
    """The names of a pod template's containers."""
    return ",".join(one.get("name", "") for one in sequence(obj, "spec", "template", "spec", "containers"))


def images(obj: Manifest, now: float) -> str:
    """Their images."""
    return ",".join(one.get("image", "") for one in sequence(obj, "spec", "template", "spec", "containers"))


def text(
    name: str,
    value: Callable[[Manifest, float], JsonValue],
    *,
    wide: bool = False,
    type: str = "string",
    description: str = "",
) -> PrinterColumn:
    """A column with a computed value."""
    return PrinterColumn(name, type, value, description=description, priority=1 if wide else 0)


def number(name: str, *path: str, wide: bool = False) -> PrinterColumn:
    """An integer column read from a path, 0 if absent."""
    return PrinterColumn(name, "integer", lambda obj, now: at(obj, *path) or 0, priority=1 if wide else 0)


def field(name: str, *path: str, default: str = "", wide: bool = False) -> PrinterColumn:
    """A string column read from a path."""
    return PrinterColumn(name, "string", lambda obj, now: str(at(obj, *path) or default), priority=1 if wide else 0)


NAME = PrinterColumn(
    "Name",
    "string",
    lambda obj, now: at(obj, "metadata", "name") or "",
    format="name",
    description="Name must be unique within a namespace.",
)
AGE = PrinterColumn(
    "Age",
    "string",
    lambda obj, now: since(at(obj, "metadata", "creationTimestamp"), now),
    description="The time since the object was created.",
)
CREATED_AT = PrinterColumn(
    "Created At",
    "date",
    lambda obj, now: at(obj, "metadata", "creationTimestamp") or "",
    description="The time at which the object was created.",
)
CONTAINERS = text("Containers", containers, wide=True)
IMAGES = text("Images", images, wide=True)
SELECTOR = text("Selector", lambda obj, now: selector_text(at(obj, "spec", "selector")), wide=True)
