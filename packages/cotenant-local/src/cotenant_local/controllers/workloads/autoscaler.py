"""HorizontalPodAutoscaler: a target's number of replicas by what its pods use.

A pure function over the autoscaler, its target, the target's pods and their use. Every metric is asked; the largest
answer counts, and where one cannot be had the number does not shrink.
Limits: metrics of resources alone, since nothing here serves those of objects, pods and external systems: they are
named in the condition.
Source: Kubernetes documentation "Horizontal Pod Autoscaling"; conditions, reasons and events as upstream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.quantities import format_milli, parse_quantity
from cotenant_local.controllers.runtime.actions import AUTOSCALERS, Draft, EmitEvent, Patch, Plan, ResourceName
from cotenant_local.controllers.views.autoscaling import Autoscaler, Behavior, ResourceSource, ScaleMetricView
from cotenant_local.controllers.views.core import seconds, stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.replica_count import (
    AskedReplicas,
    MetricPodUse,
    SilentMetric,
    Tolerance,
    replicas_for,
)
from cotenant_local.controllers.workloads.scaling_pace import Paced, ScalingHistory, paced

KIND, API_VERSION = "HorizontalPodAutoscaler", "autoscaling/v2"
PERIOD_S = 15.0
_Reason = tuple[str, str, str]  # status, reason, message


@dataclass(frozen=True, slots=True)
class ScaledTarget:
    """What is scaled: its replicas as wanted and as they are, and the pods that it selects. `scalers`: names of the
    autoscalers whose targets select one of these pods, this one among them.
    """

    resource: ResourceName
    wanted: int
    replicas: int
    pods: Sequence[PodObjectView]
    selector: str = ""
    scalers: Sequence[str] = ()


@dataclass(slots=True)
class _Status:
    """The status under construction."""

    conditions: dict[str, _Reason]
    metrics: list[Manifest]
    desired: int
    scaled_s: float | None = None


def reconcile(
    scaler: Autoscaler,
    target: ScaledTarget | None,
    use: Mapping[str, MetricPodUse],
    history: ScalingHistory,
    now_s: float,
) -> Plan:
    """Scale the target if it is due, and say why or why not. Adds to `history`. `use`: by name of pod."""
    draft = Draft()
    draft.requeue_at(now_s + PERIOD_S)
    spec = scaler.spec
    known = {one.type: (one.status, one.reason, one.message) for one in scaler.status.conditions}
    status = _Status(known, list(scaler.status.current_metrics or ()), scaler.status.desired_replicas)
    if target is None:
        why = (
            f'{spec.scale_target_ref.kind}.{spec.scale_target_ref.api_version} "{spec.scale_target_ref.name}" not found'
        )
        message = f"the HPA controller was unable to get the target's current scale: {why}"
        status.conditions["AbleToScale"] = ("False", "FailedGetScale", message)
        _tell(draft, scaler, "Warning", "FailedGetScale", why)
        _write(draft, scaler, status, scaler.status.current_replicas, now_s)
        return draft.plan("its target cannot be scaled")
    status.conditions["AbleToScale"] = (
        "True", "SucceededGetScale", "the HPA controller was able to get the target's current scale",
    )  # fmt: skip
    if not history.recommended:
        history.recommend(now_s, target.wanted)
    status.desired = target.wanted
    why = ""
    if target.wanted == 0:
        status.desired = 0
        message = "scaling is disabled since the replica count of the target is zero"
        status.conditions["ScalingActive"] = ("False", "ScalingDisabled", message)
    elif target.wanted > spec.max_replicas:
        status.desired, why = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
    elif target.wanted < spec.min_replicas:
        status.desired, why = spec.min_replicas, "Current number of replicas below Spec.MinReplicas"
    else:
        asked = _ask(draft, scaler, target, use, status, now_s)
        if asked is not None:
            why = _decide(scaler, target, asked, history, status, now_s)
    if status.desired != target.wanted:
        _scale(draft, scaler, target, status, history, why, now_s)
    _write(draft, scaler, status, target.replicas, now_s)
    return draft.plan("as many replicas as are wanted")


def _ask(
    draft: Draft,
    scaler: Autoscaler,
    target: ScaledTarget,
    use: Mapping[str, MetricPodUse],
    status: _Status,
    now_s: float,
) -> tuple[int, str] | None:
    """The largest number that a metric asks for, with the metric's name; None where none may be acted on."""
    if len(target.scalers) > 1:
        rivals = " ".join(f"{{{name} {scaler.metadata.namespace}}}" for name in sorted(target.scalers))
        why = f"pods by selector {target.selector} are controlled by multiple HPAs: [{rivals}]"
        status.conditions["ScalingActive"] = ("False", "AmbiguousSelector", why)
        _tell(draft, scaler, "Warning", "AmbiguousSelector", why)
        return None
    best: tuple[int, str] | None = None
    failed: tuple[str, SilentMetric] | None = None
    found: list[Manifest] = []
    for metric in scaler.spec.metrics:
        answer, name = _answer(scaler, metric, target, use, now_s)
        if isinstance(answer, SilentMetric):
            failed = failed or (metric.type, answer)
            continue
        assert metric.source is not None
        found.append(_written(metric, metric.source, answer))
        if best is None or answer.replicas > best[0]:
            best = (answer.replicas, name)
    if failed is not None and (best is None or best[0] < target.wanted):
        kind, answer = failed
        reason = f"FailedGet{kind}Metric"
        message = f"the HPA was unable to compute the replica count: {answer.why}"
        status.conditions["ScalingActive"] = ("False", reason, message)
        _tell(draft, scaler, "Warning", reason, answer.why)
        return None
    assert best is not None
    status.metrics = found
    message = f"the HPA was able to successfully calculate a replica count from {best[1]}"
    status.conditions["ScalingActive"] = ("True", "ValidMetricFound", message)
    return best


def _answer(
    scaler: Autoscaler, metric: ScaleMetricView, target: ScaledTarget, use: Mapping[str, MetricPodUse], now_s: float
) -> tuple[AskedReplicas | SilentMetric, str]:
    source = metric.source
    if source is None:
        return SilentMetric(f"no {metric.type} metrics are served here: metrics.k8s.io alone is"), metric.type
    within = f"container {source.container} " if source.container else ""
    by = "utilization (percentage of request)" if source.target.average_utilization is not None else "above target"
    pods = target.pods
    if not pods:
        return SilentMetric("no pods returned by selector while calculating replica count"), source.name
    answer = replicas_for(source, target.wanted, pods, use, _tolerance(scaler), now_s)
    return answer, f"{source.name} {within}resource {by}"


def _decide(
    scaler: Autoscaler,
    target: ScaledTarget,
    asked: tuple[int, str],
    history: ScalingHistory,
    status: _Status,
    now_s: float,
) -> str:
    """Set the number to have now; the words for a change."""
    wanted, name = asked
    history.recommend(now_s, wanted)
    behavior = scaler.spec.behavior or Behavior()
    found: Paced = paced(
        target.wanted, wanted, (scaler.spec.min_replicas, scaler.spec.max_replicas), behavior, history, now_s
    )
    status.conditions["AbleToScale"] = ("True", *found.able)
    reason, message = found.limited
    status.conditions["ScalingLimited"] = (
        ("True", reason, message) if reason else ("False", "DesiredWithinRange", message)
    )
    status.desired = found.replicas
    return f"{name} above target" if found.replicas > target.wanted else "All metrics below target"


def _scale(
    draft: Draft,
    scaler: Autoscaler,
    target: ScaledTarget,
    status: _Status,
    history: ScalingHistory,
    why: str,
    now_s: float,
) -> None:
    name = scaler.spec.scale_target_ref.name
    body = {"spec": {"replicas": status.desired}}
    draft.add(Patch(target.resource, scaler.metadata.namespace, name, body), f"{status.desired} replicas: {why}")
    _tell(draft, scaler, "Normal", "SuccessfulRescale", f"New size: {status.desired}; reason: {why}")
    history.changed(now_s, status.desired - target.wanted)
    status.scaled_s = now_s
    status.conditions["AbleToScale"] = (
        "True", "SucceededRescale", f"the HPA controller was able to update the target scale to {status.desired}",
    )  # fmt: skip


def _tolerance(scaler: Autoscaler) -> Tolerance:
    behavior = scaler.spec.behavior or Behavior()
    sides = [rules.tolerance for rules in (behavior.scale_down, behavior.scale_up)]
    down, up = (0.1 if given is None else parse_quantity(given).milli() / 1000 for given in sides)
    return Tolerance(down, up)


def _written(metric: ScaleMetricView, source: ResourceSource, answer: AskedReplicas) -> Manifest:
    """As an entry of `currentMetrics`."""
    current: Manifest = {"averageValue": format_milli(answer.average)}
    if answer.utilization_pct is not None:
        current["averageUtilization"] = answer.utilization_pct
    if source.container:
        part: Manifest = {"name": source.name, "container": source.container, "current": current}
        return {"type": metric.type, "containerResource": part}
    return {"type": metric.type, "resource": {"name": source.name, "current": current}}


def _write(draft: Draft, scaler: Autoscaler, status: _Status, replicas: int, now_s: float) -> None:
    """Patch the status where it differs."""
    old = scaler.status
    since = {one.type: (one.status, one.last_transition_time) for one in old.conditions}
    conditions: list[Manifest] = []
    for kind, (state, reason, message) in status.conditions.items():
        was, changed = since.get(kind, ("", None))
        at_s = (seconds(changed) if was == state else None) or now_s
        conditions.append(
            {"type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": stamp(at_s)}
        )
    same = {one.type: (one.status, one.reason, one.message) for one in old.conditions} == status.conditions
    body: Manifest = {}
    if not same:
        body["conditions"] = conditions
    if list(old.current_metrics or ()) != status.metrics:
        body["currentMetrics"] = status.metrics
    if old.current_replicas != replicas:
        body["currentReplicas"] = replicas
    if old.desired_replicas != status.desired:
        body["desiredReplicas"] = status.desired
    if status.scaled_s is not None:
        body["lastScaleTime"] = stamp(status.scaled_s)
    if body:
        draft.add(Patch(AUTOSCALERS, *scaler.metadata.key, {"status": body}, "status"))


def _tell(draft: Draft, scaler: Autoscaler, kind: str, reason: str, message: str) -> None:
    draft.actions.append(EmitEvent(scaler, KIND, API_VERSION, kind, reason, message))
