"""A node's own thresholds and raw allocatable, from its annotations.

Annotations are JSON written by users, and an invalid one must not silently count as absent. Parse into validated
values; `InvalidInput` names the annotation and the field, the caller counts it and uses the cluster's thresholds.
Limits: of the raw allocatable only CPU and memory are read.
Source: Koordinator, apis/extension/{load_aware,node}.go.
"""

from __future__ import annotations

import re

from cotenant.model.cluster.annotations import RAW_ALLOCATABLE, USAGE_THRESHOLDS
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject, json_object
from cotenant.model.machine.node_metric import Statistic, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, parse_amount
from cotenant.policy.placement.load_aware.settings import LoadShares, NodeThresholds, Percentile, Percentiles

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})(?:\.[0-9]+)?s)?")


def node_thresholds(text: str) -> NodeThresholds:
    """The node's own thresholds. Raises `InvalidInput`."""
    field = f"annotation {USAGE_THRESHOLDS}"
    data = json_object(field, text)
    return NodeThresholds(
        thresholds=shares(data.get("usageThresholds"), f"{field}: usageThresholds"),
        prod_thresholds=shares(data.get("prodUsageThresholds"), f"{field}: prodUsageThresholds"),
        percentiles=percentiles(data.get("aggregatedUsage", data.get("aggregated")), f"{field}: aggregatedUsage"),
    )


def raw_allocatable(text: str) -> Use:
    """Allocatable before amplification. Raises `InvalidInput`."""
    field = f"annotation {RAW_ALLOCATABLE}"
    data = json_object(field, text)
    found = []
    for name in (CPU_NAME, MEMORY_NAME):
        value = data.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidInput(f"{field}: {name}", value, "a quantity")
        found.append(parse_amount(name, value, f"{field}: {name}"))
    return Use(*found)


def shares(data: object, field: str) -> LoadShares:
    """Percentages by resource; other resources are ignored. Raises `InvalidInput`."""
    if data is None:
        return LoadShares()
    if not isinstance(data, dict):
        raise InvalidInput(field, data, 'an object such as {"cpu": 65, "memory": 95}')
    try:
        return LoadShares(data.get(CPU_NAME, 0), data.get(MEMORY_NAME, 0))
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.field}", error.value, error.expected, error.hint) from None


def percentiles(data: object, field: str) -> Percentiles | None:
    """A percentile's thresholds, with statistic and window. Raises `InvalidInput`."""
    if data is None:
        return None
    if not isinstance(data, dict):
        raise InvalidInput(
            field, data, 'an object such as {"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95"}'
        )
    thresholds = shares(data.get("usageThresholds"), f"{field}.usageThresholds")
    filter_by = _percentile(data, "usageAggregationType", "usageAggregatedDuration", field)
    if thresholds and filter_by is None:
        raise InvalidInput(
            f"{field}.usageAggregationType", None, f"one of {', '.join(Statistic)}", "beside usageThresholds"
        )
    return Percentiles(
        thresholds, filter_by, _percentile(data, "scoreAggregationType", "scoreAggregatedDuration", field)
    )


def _percentile(data: JsonObject, kind: str, window: str, field: str) -> Percentile | None:
    name = data.get(kind)
    if name in (None, ""):
        return None
    try:
        statistic = Statistic(str(name).lower())
    except ValueError:
        raise InvalidInput(f"{field}.{kind}", name, f"one of {', '.join(Statistic)}") from None
    return Percentile(statistic, _seconds(data.get(window), f"{field}.{window}"))


def _seconds(data: object, field: str) -> int:
    if data is None:
        return 0
    if isinstance(data, int) and not isinstance(data, bool) and data >= 0:
        return data // 1_000_000_000 if data >= 1_000_000_000 else data  # Go writes nanoseconds
    found = _DURATION.fullmatch(data) if isinstance(data, str) and data else None
    if found is None:
        raise InvalidInput(field, data, 'a duration such as "5m" or "300s"')
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds
