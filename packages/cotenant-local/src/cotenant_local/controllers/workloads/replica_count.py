"""How many replicas a metric of pods asks for.

Pods that are not ready, or whose use is not known, never make the number change further than the others alone would:
they count as idle where it would grow, and as fully used where it would shrink.
Source: Kubernetes documentation "Horizontal Pod Autoscaling", algorithm details, with the controller's default periods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from cotenant.model.quantities import parse_quantity
from cotenant_local.controllers.views.autoscaling import ResourceSource
from cotenant_local.controllers.views.core import seconds
from cotenant_local.controllers.views.pods import PodObjectView

CPU_INITIALIZATION_S = 300.0
INITIAL_READINESS_S = 30.0


@dataclass(frozen=True, slots=True)
class MetricPodUse:
    """What a pod uses, by container and resource, in thousandths of its unit, measured over `window_s` until `at_s`."""

    by_container: Mapping[str, Mapping[str, int]]
    at_s: float
    window_s: float


@dataclass(frozen=True, slots=True)
class AskedReplicas:
    """What a metric asks for, with what it measured."""

    replicas: int
    average: int  # thousandths of the unit
    utilization_pct: int | None = None


@dataclass(frozen=True, slots=True)
class SilentMetric:
    """The metric says nothing, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative deviations from the target that change nothing."""

    down: float = 0.1
    up: float = 0.1

    def admits(self, ratio: float) -> bool:
        """Whether this ratio of use to target is near enough."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def replicas_for(
    source: ResourceSource,
    current: int,
    pods: Sequence[PodObjectView],
    use: Mapping[str, MetricPodUse],
    tolerance: Tolerance,
    now_s: float,
) -> AskedReplicas | SilentMetric:
    """`pods`: all that the target selects; `use`: by name of pod."""
    known = {pod.metadata.name: amount for pod in pods if (amount := _used(source, pod, use)) is not None}
    if not known:
        why = "no metrics returned from resource metrics API"
        return SilentMetric(f"unable to get metrics for resource {source.name}: {why}")
    ready, unready, missing = 0, set[str](), set[str]()
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.terminating or pod.status.phase == "Failed":
            known.pop(name, None)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif name not in known:
            missing.add(name)
        elif source.name == "cpu" and _is_unready(pod, use[name], now_s):
            unready.add(name)
        else:
            ready += 1
    for name in unready:
        known.pop(name, None)
    if not known:
        return SilentMetric("did not receive metrics for targeted pods (pods might be unready)")
    target = source.target
    requests: dict[str, int] = {}  # empty = the goal is an amount
    if target.average_utilization is not None:
        for pod in pods:
            request = _request(source, pod)
            if isinstance(request, SilentMetric):
                return request
            requests[pod.metadata.name] = request
        goal = target.average_utilization
        full = {name: request * max(100, goal) // 100 for name, request in requests.items()}
    else:
        goal = _milli(target.average_value or 0)
        full = dict.fromkeys((pod.metadata.name for pod in pods), goal)
    if goal <= 0 or (requests and not sum(requests[name] for name in known)):
        return SilentMetric("no metrics returned matched known pods")

    ratio, utilization = _ratio(known, requests, goal)
    average = sum(known.values()) // len(known)
    asked = AskedReplicas(current, average, utilization)
    grows_with_unready = bool(unready) and ratio > 1.0
    if not grows_with_unready and not missing:
        if tolerance.admits(ratio):
            return asked
        return AskedReplicas(ceil(ratio * ready), average, utilization)
    if ratio < 1.0:
        known |= {name: full[name] for name in missing}
    elif ratio > 1.0:
        known |= dict.fromkeys(missing, 0)
    if grows_with_unready:
        known |= dict.fromkeys(unready, 0)
    again, _ = _ratio(known, requests, goal)
    if tolerance.admits(again) or (ratio - 1.0) * (again - 1.0) < 0.0:
        return asked
    wanted = ceil(again * len(known))
    if (again < 1.0 and wanted > current) or (again > 1.0 and wanted < current):
        return asked
    return AskedReplicas(wanted, average, utilization)


def _ratio(known: Mapping[str, int], requests: Mapping[str, int], goal: int) -> tuple[float, int | None]:
    """Use over the goal, and the share of requests in percent where the goal is one."""
    if not requests:
        return sum(known.values()) // len(known) / goal, None
    utilization = sum(known.values()) * 100 // sum(requests[name] for name in known)
    return utilization / goal, utilization


def _used(source: ResourceSource, pod: PodObjectView, use: Mapping[str, MetricPodUse]) -> int | None:
    found = use.get(pod.metadata.name)
    if found is None:
        return None
    amounts = [used.get(source.name) for name, used in found.by_container.items() if source.container in ("", name)]
    return sum(amount for amount in amounts if amount is not None) if amounts and None not in amounts else None


def _is_unready(pod: PodObjectView, use: MetricPodUse, now_s: float) -> bool:
    """A CPU figure from a pod's start says nothing of its later use."""
    condition, started_s = pod.ready_condition, seconds(pod.status.start_time)
    if condition is None or started_s is None:
        return True
    changed_s = seconds(condition.last_transition_time) or 0.0
    if started_s + CPU_INITIALIZATION_S > now_s:
        return condition.status == "False" or use.at_s < changed_s + use.window_s
    return condition.status == "False" and started_s + INITIAL_READINESS_S > changed_s


def _request(source: ResourceSource, pod: PodObjectView) -> int | SilentMetric:
    """Thousandths of the unit."""
    whole = pod.spec.resources.requests.get(source.name)
    if whole is not None and not source.container:
        return _milli(whole)
    total = 0
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        if source.container not in ("", container.name):
            continue
        request = container.resources.requests.get(source.name)
        if request is None:
            name = pod.metadata.name
            return SilentMetric(f"missing request for {source.name} in container {container.name} of Pod {name}")
        total += _milli(request)
    return total


def _milli(amount: str | int | float) -> int:
    return parse_quantity(amount).milli()
