"""PodDisruptionBudget status: healthy, desired and allowed counts."""

from typing import Any

import msgspec
import pytest

from cotenant_local.controllers.cluster import disruption
from cotenant_local.controllers.runtime.actions import (
    Patch,
    Plan,
)
from cotenant_local.controllers.views.cluster import (
    BudgetView,
)
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.pods import PodObjectView

NOW = 1_800_000_000.0


def pod(name: str, ready: bool = True, owner: str = "rs", **more: Any) -> PodObjectView:
    meta: dict[str, Any] = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    if owner:
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    if more.pop("ending", False):
        meta["deletionTimestamp"] = stamp(NOW)
    status = {"phase": more.pop("phase", "Running"), "conditions": [{"type": "Ready", "status": str(ready)}]}
    return msgspec.convert(
        {"metadata": meta, "spec": {"nodeName": more.pop("node", "n")}, "status": status}, PodObjectView
    )


def budget(status: dict[str, Any] | None = None, **spec: Any) -> BudgetView:
    spec.setdefault("selector", {"matchLabels": {"app": "web"}})
    meta = {"name": "b", "namespace": "default", "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status or {}}, BudgetView)


def figures(plan: Plan) -> dict[str, int]:
    assert isinstance(plan.actions[0], Patch)
    status = plan.actions[0].body["status"]
    return {k: status[k] for k in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 2, 3, 1)),
        ({"minAvailable": "50%"}, (4, 2, 3, 1)),  # of what the controller wants, rounded up
        ({"minAvailable": "51%"}, (4, 3, 3, 0)),
        ({"maxUnavailable": 1}, (4, 3, 3, 0)),
        ({"maxUnavailable": 2}, (4, 2, 3, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 3, 1)),  # 1.2 rounds up to 2
        ({"minAvailable": 9}, (3, 9, 3, 0)),
    ],
)
def test_budget_figures(spec: dict[str, Any], expected: tuple[int, ...]) -> None:
    pods = [pod(f"p{i}") for i in range(3)]
    plan = disruption.reconcile(budget(**spec), pods, NOW, lambda namespace, owner: 4)
    assert tuple(figures(plan).values()) == expected


def test_unready_terminating_and_finished_pods_are_not_healthy() -> None:
    pods = [pod("a"), pod("b", ready=False), pod("c", ending=True), pod("d", phase="Failed")]
    plan = disruption.reconcile(budget(minAvailable=1), pods, NOW, lambda namespace, owner: None)
    assert figures(plan) == {"expectedPods": 3, "desiredHealthy": 1, "currentHealthy": 1, "disruptionsAllowed": 0}


def test_a_granted_disruption_counts_until_it_expires() -> None:
    held = budget({"disruptedPods": {"p0": stamp(NOW), "gone": stamp(NOW)}}, minAvailable=1)
    pods = [pod("p0"), pod("p1"), pod("p2")]
    plan = disruption.reconcile(held, pods, NOW + 10, lambda namespace, owner: 3)
    assert figures(plan)["currentHealthy"] == 2
    assert plan.requeue_at_s == NOW + disruption.GRANT_S
    assert isinstance(plan.actions[0], Patch)
    assert plan.actions[0].body["status"]["disruptedPods"] == {"gone": None}
    later = disruption.reconcile(held, pods, NOW + 121, lambda namespace, owner: 3)
    assert figures(later)["currentHealthy"] == 3


def test_a_budget_without_selector_selects_no_pod() -> None:
    empty = budget(minAvailable=1, selector=None)
    assert figures(disruption.reconcile(empty, [pod("a")], NOW, lambda namespace, owner: 1))["disruptionsAllowed"] == 0
