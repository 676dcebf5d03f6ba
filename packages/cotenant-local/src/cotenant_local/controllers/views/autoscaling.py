"""Views of HorizontalPodAutoscalers. Choice and limits as in `views/core.py`."""

from __future__ import annotations

from datetime import datetime

from msgspec import field

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.views.core import ConditionView, Meta, View


class ScaleTargetView(View, frozen=True):
    """`scaleTargetRef`."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetricTarget(View, frozen=True):
    """`target` of a metric."""

    type: str = ""
    average_utilization: int | None = None
    average_value: str | int | float | None = None


class ResourceSource(View, frozen=True):
    """A metric of a resource: of whole pods, or of one container of each."""

    name: str = ""
    container: str = ""
    target: MetricTarget = MetricTarget()


class ScaleMetricView(View, frozen=True):
    """An entry of `metrics`; of the kinds that are not read only the name."""

    type: str = ""
    resource: ResourceSource | None = None
    container_resource: ResourceSource | None = None

    @property
    def source(self) -> ResourceSource | None:
        """The resource that it is of; None for metrics of objects, pods and external systems."""
        return {"Resource": self.resource, "ContainerResource": self.container_resource}.get(self.type)


class ScalingPolicy(View, frozen=True):
    """How much may change in a period."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class ScalingRules(View, frozen=True):
    """One direction."""

    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: str | int | float | None = None


class Behavior(View, frozen=True):
    """Both directions; the defaults are those of an autoscaler that says nothing."""

    scale_up: ScalingRules = ScalingRules(0, "Max", (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15)))
    scale_down: ScalingRules = ScalingRules(None, "Max", (ScalingPolicy("Percent", 100, 15),))


class AutoscalerSpec(View, frozen=True):
    """`spec`."""

    scale_target_ref: ScaleTargetView = ScaleTargetView()
    min_replicas: int = 1
    max_replicas: int = 0
    metrics: tuple[ScaleMetricView, ...] = ()
    behavior: Behavior | None = None


class AutoscalerStatus(View, frozen=True):
    """`status`; metrics are compared as they are written."""

    observed_generation: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: datetime | None = None
    current_metrics: tuple[Manifest, ...] | None = None
    conditions: tuple[ConditionView, ...] = field(default_factory=tuple)


class Autoscaler(View, frozen=True):
    """A HorizontalPodAutoscaler."""

    metadata: Meta
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()
