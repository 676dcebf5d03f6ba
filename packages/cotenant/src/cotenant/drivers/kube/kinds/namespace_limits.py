"""What stands in a size's way in a namespace: LimitRanges, ResourceQuotas and autoscalers.

Structs name what is read only; bounds of persistent volume claims are not of interest here.
Source: Kubernetes API reference, v1.36 (LimitRange, ResourceQuota, HorizontalPodAutoscaler).
"""

from __future__ import annotations

from cotenant.drivers.kube.kinds.kind import ApiStruct, Kind, Quantities, Text
from cotenant.drivers.kube.kinds.parts import ObjectMeta


class LimitRangeItem(ApiStruct, frozen=True):
    """Of containers, or of whole pods."""

    type: str = ""
    min: Quantities = None
    max: Quantities = None
    max_limit_request_ratio: Quantities = None


class _LimitRangeSpec(ApiStruct, frozen=True):
    limits: tuple[LimitRangeItem, ...] | None = None


class LimitRangeObject(ApiStruct, frozen=True):
    """v1 LimitRange."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _LimitRangeSpec = _LimitRangeSpec()


class _QuotaStatus(ApiStruct, frozen=True):
    hard: Quantities = None
    used: Quantities = None


class ResourceQuotaObject(ApiStruct, frozen=True):
    """v1 ResourceQuota."""

    metadata: ObjectMeta = ObjectMeta()
    status: _QuotaStatus | None = None


class ScaleTarget(ApiStruct, frozen=True):
    """What is scaled."""

    kind: str = ""
    name: str = ""


class _MetricTarget(ApiStruct, frozen=True):
    type: str = ""


class _ResourceMetric(ApiStruct, frozen=True):
    name: str = ""
    container: Text = None
    target: _MetricTarget = _MetricTarget()


class ScaleMetric(ApiStruct, frozen=True):
    """What it goes by."""

    type: str = ""
    resource: _ResourceMetric | None = None
    container_resource: _ResourceMetric | None = None


class _ScalerSpec(ApiStruct, frozen=True):
    scale_target_ref: ScaleTarget = ScaleTarget()
    metrics: tuple[ScaleMetric, ...] | None = None


class AutoscalerObject(ApiStruct, frozen=True):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ScalerSpec = _ScalerSpec()


def scaled_by(scaler: AutoscalerObject) -> tuple[tuple[str, str], ...]:
    """Resources that it goes by, each with the container that it is measured of; "" = the whole pod."""
    found = [metric.container_resource or metric.resource for metric in scaler.spec.metrics or ()]
    return tuple((metric.name, metric.container or "") for metric in found if metric is not None)


LIMIT_RANGES = Kind("LimitRange", "", "v1", "limitranges", True, LimitRangeObject)
RESOURCE_QUOTAS = Kind("ResourceQuota", "", "v1", "resourcequotas", True, ResourceQuotaObject)
AUTOSCALERS = Kind("HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers", True, AutoscalerObject)
