"""PodDisruptionBudget status: how many of the selected pods may still be disrupted.

The eviction API and preemption consume `status.disruptionsAllowed`, so it must follow the pods, and a disruption that
was granted but has not happened yet must stay counted. A pure function; granted disruptions are the entries of
`disruptedPods` younger than two minutes whose pod still exists.
Limits: percentages need the expected number of pods, which is the scale of the pods' controllers; pods without one
count individually.
Source: Kubernetes documentation "Specifying a Disruption Budget for your Application", PodDisruptionBudget API
reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant_local.controllers.runtime.actions import BUDGETS, Draft, Patch, Plan
from cotenant_local.controllers.views.cluster import BudgetView
from cotenant_local.controllers.views.core import OwnerReferenceView, seconds, stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workloads.pods import conditions_with
from cotenant_local.controllers.workloads.rounding import resolve

GRANT_S = 120.0  # a granted disruption that has not happened after this expires


def reconcile(
    budget: BudgetView,
    pods: Iterable[PodObjectView],
    now_s: float,
    scale_of: Callable[[str, OwnerReferenceView], int | None],
) -> Plan:
    """`pods`: all of the namespace. `scale_of(namespace, owner)`: the controller's desired replicas, None if
    unknown.
    """
    draft = Draft()
    selector = budget.spec.selector
    selected = [p for p in pods if selector is not None and selector.matches(p.metadata.labels) and not p.finished]
    expected, desired = _wanted(budget, selected, scale_of)
    disrupted: dict[str, float] = {}
    for name, at in budget.status.disrupted_pods.items():
        granted = seconds(at) or 0.0
        pod = next((p for p in selected if p.metadata.name == name), None)
        if pod is not None and not pod.metadata.terminating and now_s < granted + GRANT_S:
            disrupted[name] = granted
            draft.requeue_at(granted + GRANT_S)
    healthy = sum(p.ready and not p.metadata.terminating and p.metadata.name not in disrupted for p in selected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    _write(draft, budget, expected, desired, healthy, allowed, disrupted, now_s)
    return draft.plan(f"{healthy} healthy, {desired} needed")


def _wanted(
    budget: BudgetView, selected: list[PodObjectView], scale_of: Callable[[str, OwnerReferenceView], int | None]
) -> tuple[int, int]:
    """(pods expected, pods that must stay healthy)."""
    if budget.spec.max_unavailable is not None:
        expected = _expected(budget, selected, scale_of)
        maximum = resolve(budget.spec.max_unavailable, expected, up=True, field="maxUnavailable")
        return expected, max(0, expected - maximum)
    minimum = budget.spec.min_available
    if isinstance(minimum, str):
        expected = _expected(budget, selected, scale_of)
        return expected, resolve(minimum, expected, up=True, field="minAvailable")
    return len(selected), 1 if minimum is None else minimum


def _expected(
    budget: BudgetView, selected: list[PodObjectView], scale_of: Callable[[str, OwnerReferenceView], int | None]
) -> int:
    owners: dict[str, int] = {}
    uncontrolled = 0
    for pod in selected:
        owner = pod.metadata.controller
        scale = scale_of(budget.metadata.namespace, owner) if owner is not None and owner.uid not in owners else None
        if owner is None or (scale is None and owner.uid not in owners):
            uncontrolled += 1
        elif scale is not None:
            owners[owner.uid] = scale
    return uncontrolled + sum(owners.values())


def _write(
    draft: Draft,
    budget: BudgetView,
    expected: int,
    desired: int,
    healthy: int,
    allowed: int,
    disrupted: dict[str, float],
    now_s: float,
) -> None:
    status = budget.status
    sufficient = allowed > 0
    text = ("True", "SufficientPods", "") if sufficient else ("False", "InsufficientPods", "")
    now = stamp(now_s)
    conditions = conditions_with(status.conditions, "DisruptionAllowed", *text, now)
    for condition in conditions:
        condition.pop("lastUpdateTime", None)
        condition["observedGeneration"] = budget.metadata.generation
    current = (
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
        status.observed_generation,
        set(status.disrupted_pods),
        next((c.status for c in status.conditions if c.type == "DisruptionAllowed"), ""),
    )
    if current == (expected, desired, healthy, allowed, budget.metadata.generation, set(disrupted), text[0]):
        return
    expired: Manifest = {name: None for name in status.disrupted_pods if name not in disrupted}
    body: Manifest = {
        "status": {
            "expectedPods": expected,
            "desiredHealthy": desired,
            "currentHealthy": healthy,
            "disruptionsAllowed": allowed,
            "observedGeneration": budget.metadata.generation,
            "conditions": conditions,
            **({"disruptedPods": expired} if expired else {}),
        }
    }
    meta = budget.metadata
    draft.add(
        Patch(BUDGETS, meta.namespace, meta.name, body, "status", meta.resource_version),
        f"{allowed} disruption{'s' * (allowed != 1)} allowed",
    )
