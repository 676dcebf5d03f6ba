"""Autoscalers whose targets select the same pods scale nothing, and say which they are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from cotenant_local.controllers.autoscaler_controllers import Autoscalers
from cotenant_local.controllers.runtime.actions import AUTOSCALERS, DEPLOYMENTS, PODS, EmitEvent, Patch, Plan
from cotenant_local.controllers.runtime.actions import ResourceName as Resource
from cotenant_local.controllers.runtime.cache import CachedObjects
from cotenant_local.controllers.views.autoscaling import Autoscaler
from cotenant_local.controllers.views.core import ExpressionView, SelectorView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.views.workloads import DeploymentView

FORMS: dict[Resource, type] = {AUTOSCALERS: Autoscaler, DEPLOYMENTS: DeploymentView, PODS: PodObjectView}


class Known:
    """Informers of a cluster that stands still."""

    def __init__(self) -> None:
        self._stores: dict[Resource, CachedObjects[Any]] = {}

    def of(self, resource: Resource) -> Known.One:
        return Known.One(self.store(resource))

    def store(self, resource: Resource) -> CachedObjects[Any]:
        return self._stores.setdefault(resource, CachedObjects())

    def put(self, resource: Resource, name: str, spec: dict[str, Any], **more: Any) -> None:
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "resourceVersion": "1", **more}
        text = json.dumps({"metadata": metadata, "spec": spec}).encode()
        self.store(resource).apply(msgspec.json.decode(text, type=FORMS[resource]))

    class One:
        def __init__(self, store: CachedObjects[Any]) -> None:
            self.store = store

        def subscribe(self, handler: object) -> None:
            """Nothing changes."""


def scaled(known: Known, name: str, target: str) -> None:
    utilization = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
    }
    known.put(AUTOSCALERS, name, spec)


def deployed(known: Known, name: str, selector: dict[str, Any], **labels: str) -> None:
    known.put(DEPLOYMENTS, name, {"replicas": 2, "selector": selector})
    known.put(PODS, f"{name}-1", {"containers": []}, labels=labels)


def planned(known: Known, name: str) -> Plan:
    controller = Autoscalers(known, lambda: 1e9)  # type: ignore[arg-type]
    controller.attach(lambda key: None)
    return asyncio.run(controller.plan(("shop", name), 1e9))


def active(plan: Plan) -> tuple[str, str, str]:
    patch = next(one for one in plan.actions if isinstance(one, Patch))
    found = next(one for one in patch.body["status"]["conditions"] if one["type"] == "ScalingActive")
    return found["status"], found["reason"], found["message"]


@pytest.mark.parametrize("other", ["web", "canary"], ids=["one target", "two targets of the same pods"])
def test_two_autoscalers_of_the_same_pods_are_ambiguous(other: str) -> None:
    known = Known()
    deployed(known, "web", {"matchLabels": {"app": "web"}}, app="web")
    deployed(known, "canary", {"matchLabels": {"app": "web"}}, app="web")
    scaled(known, "a", "web")
    scaled(known, "b", other)
    for name in ("a", "b"):
        plan = planned(known, name)
        why = "pods by selector app=web are controlled by multiple HPAs: [{a shop} {b shop}]"
        assert active(plan) == ("False", "AmbiguousSelector", why)
        told = [(one.type, one.reason, one.message) for one in plan.actions if isinstance(one, EmitEvent)]
        assert told == [("Warning", "AmbiguousSelector", why)]
        assert not any(isinstance(one, Patch) and one.resource == DEPLOYMENTS for one in plan.actions)


def test_autoscalers_of_other_pods_are_none_of_its_business() -> None:
    known = Known()
    deployed(known, "web", {"matchLabels": {"app": "web"}}, app="web")
    deployed(known, "db", {"matchLabels": {"app": "db"}}, app="db")
    scaled(known, "a", "web")
    scaled(known, "b", "db")
    scaled(known, "c", "gone")
    assert active(planned(known, "a"))[1] == "FailedGetResourceMetric"  # nothing is measured here


def test_a_selector_is_written_as_a_query_has_it() -> None:
    values = (
        ExpressionView("tier", "In", ("b", "a")),
        ExpressionView("env", "NotIn", ("x",)),
        ExpressionView("new", "Exists"),
        ExpressionView("old", "DoesNotExist"),
    )
    written = SelectorView({"app": "web"}, values).text
    assert written == "app=web,env notin (x),new,!old,tier in (a,b)"
