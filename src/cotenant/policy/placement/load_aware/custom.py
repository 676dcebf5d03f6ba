"""A node's own thresholds and raw size, as its annotations say.

Problem: annotations are JSON written by people, and one that cannot be read must not pass for none in silence. Choice: read into checked values; `InvalidInput` names
the annotation and the field, the caller counts it and keeps to the cluster's thresholds. Limits: quantities of the raw allocatable beyond CPU and
memory are not read.
Source: Koordinator, apis/extension/{load_aware,node}.go.
"""

from __future__ import annotations

import re
from typing import Any

from cotenant.model.cluster.annotations import RAW_ALLOCATABLE, USAGE_THRESHOLDS
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object
from cotenant.model.machine.node_metric import Statistic, Use
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, parse_amount
from cotenant.policy.placement.load_aware.settings import NodeThresholds, Percentile, Percentiles, Shares

_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})(?:\.[0-9]+)?s)?")


def node_thresholds(text: str) -> NodeThresholds:
    """The node's own thresholds. Raises `InvalidInput`."""
    field = f"annotation {USAGE_THRESHOLDS}"
    told = json_object(field, text)
    return NodeThresholds(
        thresholds=shares(told.get("usageThresholds"), f"{field}: usageThresholds"),
        prod_thresholds=shares(told.get("prodUsageThresholds"), f"{field}: prodUsageThresholds"),
        percentiles=percentiles(told.get("aggregatedUsage", told.get("aggregated")), f"{field}: aggregatedUsage"),
    )


def raw_allocatable(text: str) -> Use:
    """What the node has before it is amplified. Raises `InvalidInput`."""
    field = f"annotation {RAW_ALLOCATABLE}"
    told = json_object(field, text)
    found = []
    for name in (CPU_NAME, MEMORY_NAME):
        value = told.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidInput(f"{field}: {name}", value, "a quantity")
        found.append(parse_amount(name, value, f"{field}: {name}"))
    return Use(*found)


def shares(told: Any, field: str) -> Shares:
    """Per cent by resource; other resources are not looked at. Raises `InvalidInput`."""
    if told is None:
        return Shares()
    if not isinstance(told, dict):
        raise InvalidInput(field, told, 'an object such as {"cpu": 65, "memory": 95}')
    try:
        return Shares(told.get(CPU_NAME, 0), told.get(MEMORY_NAME, 0))
    except InvalidInput as error:
        raise InvalidInput(f"{field}: {error.field}", error.value, error.expected, error.hint) from None


def percentiles(told: Any, field: str) -> Percentiles | None:
    """A percentile's thresholds, and which it is. Raises `InvalidInput`."""
    if told is None:
        return None
    if not isinstance(told, dict):
        raise InvalidInput(
            field, told, 'an object such as {"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95"}'
        )
    thresholds = shares(told.get("usageThresholds"), f"{field}.usageThresholds")
    filter_by = _percentile(told, "usageAggregationType", "usageAggregatedDuration", field)
    if thresholds and filter_by is None:
        raise InvalidInput(
            f"{field}.usageAggregationType", None, f"one of {', '.join(Statistic)}", "beside usageThresholds"
        )
    return Percentiles(
        thresholds, filter_by, _percentile(told, "scoreAggregationType", "scoreAggregatedDuration", field)
    )


def _percentile(told: dict[str, Any], kind: str, window: str, field: str) -> Percentile | None:
    name = told.get(kind)
    if name in (None, ""):
        return None
    try:
        statistic = Statistic(str(name).lower())
    except ValueError:
        raise InvalidInput(f"{field}.{kind}", name, f"one of {', '.join(Statistic)}") from None
    return Percentile(statistic, _seconds(told.get(window), f"{field}.{window}"))


def _seconds(told: Any, field: str) -> int:
    if told is None:
        return 0
    if isinstance(told, int) and not isinstance(told, bool) and told >= 0:
        return told // 1_000_000_000 if told >= 1_000_000_000 else told  # Go writes nanoseconds
    found = _DURATION.fullmatch(told) if isinstance(told, str) and told else None
    if found is None:
        raise InvalidInput(field, told, 'a duration such as "5m" or "300s"')
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds
