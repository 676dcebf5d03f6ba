"""Jobs on a cluster with WorkloadWithJob: the local server and controllers make the objects, and the scheduler's engine
places the pods.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from tests.fakes.processes.plain_cluster import template
from tests.fault.local_controllers.test_running import Cluster, no_cost, serve

from cotenant.drivers.kube.cache.cache import Changed
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.engine.cluster import Cluster as Engine
from cotenant.engine.framework.instructions import Bind, Unschedulable
from cotenant.engine.state.reports import NodeReports
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduling.claims import ClaimBinder
from cotenant.services.scheduling.watches import EngineWatches
from cotenant_local.apiserver.assembly import with_schema
from cotenant_local.apiserver.contract import ListOptions, RequestTarget
from cotenant_local.apiserver.kinds.built_in import WORKLOAD_API_OF_1_36
from cotenant_local.apiserver.kinds.conversion import outward
from cotenant_local.controllers.registry import controller_manager
from cotenant_local.controllers.runtime.actions import JOBS, POD_GROUPS, PODS, WORKLOADS

NODES = ("a", "b", "c", "d")


class Heard:
    """Collects the handlers of a scheduler's watches, and is told objects by the test."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[str, str, str], tuple[Any, Any]] = {}
        self.engine = Engine(profile("least-allocated"), np.random.default_rng(1))
        reader = PodReader()
        client: Any = None
        watches: Any = self
        EngineWatches(watches, self.engine, reader, ClaimBinder(client, reader.volumes), NodeReports(), lambda: 0.0)
        for name in NODES:
            amounts = {"cpu": "1", "memory": "4Gi", "pods": "10"}
            self.tell(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                    "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
                },
                "nodes",
            )

    def handle(self, kind: Any, handler: Any, **_: Any) -> None:
        def one(obj: Any, gone: str) -> None:
            handler.gone(gone) if gone else handler.seen(handler.read(obj))

        self.kinds[kind.group, kind.version, kind.plural] = (kind, one)

    def deliver(self, kind: Any, deliver: Any, **_: Any) -> None:
        def one(obj: Any, gone: str) -> None:
            deliver([Changed(kind.name, "", None, obj)])

        self.kinds[kind.group, kind.version, kind.plural] = (kind, one)

    def count(self, kind: str) -> None:
        raise AssertionError(kind)

    def tell(self, obj: dict[str, Any], plural: str) -> None:
        group, _, version = obj["apiVersion"].rpartition("/")
        kind, told = self.kinds[group, version, plural]
        told(msgspec.convert(obj, kind.form, strict=False), "")

    def gone(self, group: str, version: str, plural: str, key: str) -> None:
        self.kinds[group, version, plural][1](None, key)

    def decided(self) -> dict[str, str]:
        """Pods with their node, or why they wait."""
        found: dict[str, str] = {}
        for now_s in (0.0, 20.0):
            for one in self.engine.decide(now_s):
                if isinstance(one, Bind):
                    found[one.key] = one.node
                elif isinstance(one, Unschedulable):
                    found[one.key] = one.message
        self.engine.validate()
        return found


def a_job(**more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "700m"}}}
    made = template("w", restartPolicy="Never", schedulerName="cotenant", containers=[container])
    spec = {"parallelism": 3, "completions": 3, "template": made, **more}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work", "namespace": "default"}, "spec": spec}


async def with_job(c: Cluster, **more: Any) -> None:
    c.runner = controller_manager(c.informers, lambda: c.now[0], workload_with_job=True, cpu_s=no_cost)
    await c.runner.start()
    await c.make(JOBS, a_job(**more))
    await c.settle()


def test_three_pods_of_a_plain_job_are_placed_at_once() -> None:
    async def case(c: Cluster) -> None:
        await with_job(c)
        (group,), (workload,), pods = await c.all(POD_GROUPS), await c.all(WORKLOADS), await c.all(PODS)
        assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
        assert group["spec"]["schedulingPolicy"] == {"basic": {}}
        assert group["spec"]["workloadRef"]["workloadName"] == workload["metadata"]["name"]
        assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {group["metadata"]["name"]}
        scheduler = Heard()
        for pod in pods:
            scheduler.tell(pod, "pods")
        key = f"default/{group['metadata']['name']}"
        why = f"there is no PodGroup {key} of scheduling.k8s.io"
        assert all(why in message for message in scheduler.decided().values())
        scheduler.tell(group, "podgroups")
        found = set(scheduler.decided().values())
        assert len(found) == 3
        assert found < set(NODES)

    serve(case)


def test_a_job_whose_gang_does_not_fit_is_not_placed_in_part() -> None:
    async def case(c: Cluster) -> None:
        asks = {"schedulingPolicy": {"gang": {}}}
        await with_job(c, parallelism=5, completions=5, scheduling=asks)
        (group,), pods = await c.all(POD_GROUPS), await c.all(PODS)
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 5}}
        scheduler = Heard()
        scheduler.tell(group, "podgroups")
        for pod in pods:
            scheduler.tell(pod, "pods")
        assert all("4 of 5 members fit" in one for one in scheduler.decided().values())
        await c.patch(JOBS, "work", {"spec": {"parallelism": 4}})  # the minimum follows
        await c.later(2)
        (group,) = await c.all(POD_GROUPS)
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 4}}
        scheduler.tell(group, "podgroups")
        assert sorted(scheduler.decided().values()) == list(NODES)

    serve(case)


@pytest.mark.parametrize("first", ["v1alpha2", "v1beta1"])
def test_either_version_may_vanish_while_a_server_is_upgraded(first: str) -> None:
    second = {"v1alpha2": "v1beta1", "v1beta1": "v1alpha2"}[first]

    async def case(c: Cluster) -> None:
        for resource in WORKLOAD_API_OF_1_36:
            c.api.registry.add(with_schema(resource))
        await with_job(c, parallelism=5, completions=5, scheduling={"schedulingPolicy": {"gang": {"minCount": 5}}})
        scheduler = Heard()
        for version in (first, second):
            found = c.api.registry.find("scheduling.k8s.io", version, "podgroups")
            assert found is not None
            (stored,) = (await c.api.list(RequestTarget(found, "default"), ListOptions())).items
            hub = c.api.registry.hub(found)
            obj = outward(stored.decode(), found, hub)
            assert obj["apiVersion"] == f"scheduling.k8s.io/{version}"
            scheduler.tell(obj, "podgroups")
        for pod in (await c.all(PODS))[:4]:
            scheduler.tell(pod, "pods")
        key = f"default/{stored.decode()['metadata']['name']}"
        waits = f"gang {key} has 4 of 5 members; waits for 1 more"
        assert set(scheduler.decided().values()) == {waits}
        view = scheduler.engine.plugins.gangs.describe(key)
        assert view is not None
        assert view.problems == ()
        scheduler.gone("scheduling.k8s.io", first, "podgroups", key)  # served no more
        assert scheduler.engine.plugins.gangs.describe(key).spec.min_available == 5  # type: ignore[union-attr]
        scheduler.gone("scheduling.k8s.io", second, "podgroups", key)
        assert scheduler.engine.plugins.gangs.describe(key).spec is None  # type: ignore[union-attr]
        scheduler.engine.validate()

    serve(case)


def test_the_local_server_serves_the_kinds_and_only_a_minimum_may_change() -> None:
    async def case(c: Cluster) -> None:
        group = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }
        made = await c.make(POD_GROUPS, group)
        assert made["spec"]["disruptionMode"] == {"single": {}}
        assert (made["spec"]["priority"], made["status"]) == (0, {})
        await c.patch(POD_GROUPS, "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
        for wrong in ({"priorityClassName": "x"}, {"schedulingPolicy": {"gang": None, "basic": {}}}):
            with pytest.raises(ApiError):
                await c.patch(POD_GROUPS, "g", {"spec": wrong})
        for name, spec, message in (
            ("a", {"schedulingPolicy": {}}, "exactly one"),
            ("b", {"schedulingPolicy": {"gang": {"minCount": 0}}}, "greater than or equal to 1"),
            (
                "c",
                {"schedulingPolicy": {"basic": {}}, "workloadRef": {"workloadName": "w", "templateName": "t"}},
                "not found",
            ),
            ("d", {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}, "one by one"),
        ):
            with pytest.raises(ApiError, match=message):
                await c.make(POD_GROUPS, {**group, "metadata": {"name": name, "namespace": "default"}, "spec": spec})

    serve(case)
