"""CronJobs, quotas and autoscalers on the local server with all of its controllers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.fakes.processes.plain_cluster import template
from tests.fault.local_controllers.test_running import Cluster, deployment, serve

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.controllers.autoscaler_controllers import Autoscalers
from cotenant_local.controllers.registry import controller_manager
from cotenant_local.controllers.runtime.actions import (
    AUTOSCALERS,
    CRON_JOBS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    PODS,
    QUOTAS,
    REPLICA_SETS,
)
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.controllers.workload_controllers import Deployments, ReplicaSets
from cotenant_local.controllers.workloads.replica_count import MetricPodUse

pytestmark = pytest.mark.slow
CONFIG_MAPS = ("", "configmaps")


def quota(**hard: str) -> dict[str, Any]:
    spec = {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": spec,
    }


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


def cron_job(**spec: Any) -> dict[str, Any]:
    job = {"spec": {"template": template("w", restartPolicy="Never")}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec},
    }


def test_a_deployment_beyond_a_quota_says_so_and_grows_when_there_is_room() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(QUOTAS, quota(pods="2"))
        await c.make(DEPLOYMENTS, deployment(3))
        await c.settle()
        await c.later(1)
        assert len(await c.all(PODS)) == 2
        (found,) = await c.all(QUOTAS)
        assert found["status"] == {"hard": {"pods": "2"}, "used": {"pods": "2"}}
        (replica_set,) = await c.all(REPLICA_SETS)
        said = [
            event["message"]
            for event in await c.all(EVENTS)
            if event["reason"] == "FailedCreate" and event["involvedObject"]["uid"] == replica_set["metadata"]["uid"]
        ]
        assert "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in said[0]
        await c.patch(QUOTAS, "q", {"spec": {"hard": {"pods": "5"}}})
        await c.later(120)
        assert len(await c.all(PODS)) == 3

    serve(case)


def test_what_has_ended_or_is_gone_is_not_counted() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(QUOTAS, {**quota(pods="5"), "spec": {"hard": {"pods": "5", "count/configmaps": "2"}}})
        await c.make(DEPLOYMENTS, deployment(2))
        await c.make(CONFIG_MAPS, config("a"))
        await c.make(CONFIG_MAPS, config("b"))
        with pytest.raises(ApiError, match="exceeded quota"):
            await c.make(CONFIG_MAPS, config("c"))
        await c.api.delete(c.api.target(*CONFIG_MAPS, "default", "a"))
        await c.later(12)
        (found,) = await c.all(QUOTAS)
        assert found["status"]["used"] == {"pods": "2", "count/configmaps": "1"}
        name = (await c.all(PODS))[0]["metadata"]["name"]
        await c.patch(PODS, name, {"status": {"phase": "Succeeded"}}, "status")
        await c.make(CONFIG_MAPS, config("c"))
        await c.later(12)
        (found,) = await c.all(QUOTAS)
        assert found["status"]["used"] == {"pods": "2", "count/configmaps": "2"}  # the ended pod was replaced

    serve(case)


def test_a_cron_job_makes_a_job_each_minute_also_after_a_restart() -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(CRON_JOBS, cron_job())
        await c.settle()
        assert await c.all(JOBS) == []
        await c.later(61)
        (first,) = await c.all(JOBS)
        assert first["metadata"]["ownerReferences"][0]["name"] == "tick"
        assert len(await c.all(PODS)) == 1
        assert c.runner is not None
        await c.runner.stop()
        await c.informers.stop()
        c.now[0] += 60
        c.informers = type(c.informers)(c.api)
        c.runner = controller_manager(c.informers, lambda: c.now[0], cpu_s=lambda: 0.0)
        await c.runner.start()
        await c.settle()
        await c.later(1)
        assert len(await c.all(JOBS)) == 2
        (found,) = await c.all(CRON_JOBS)
        assert len(found["status"]["active"]) == 2
        await c.patch(CRON_JOBS, "tick", {"spec": {"suspend": True}})
        await c.later(61)
        assert len(await c.all(JOBS)) == 2

    serve(case)


def scaler(**spec: Any) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 8, **spec},
    }


async def ready_pods(c: Cluster, started_s: float) -> None:
    """Every pod runs and has been ready since."""
    for pod in await c.all(PODS):
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(started_s)}
        status = {"phase": "Running", "startTime": stamp(started_s), "conditions": [condition]}
        await c.patch(PODS, pod["metadata"]["name"], {"status": status}, "status")


def test_an_autoscaler_follows_a_shared_load_up_and_down() -> None:
    async def case(c: Cluster) -> None:
        cores = [4.0]  # shared by all pods that run

        def uses(pods: Sequence[PodObjectView]) -> Mapping[str, MetricPodUse]:
            running = [pod for pod in pods if pod.status.phase == "Running"]
            used = {"cpu": round(1000 * cores[0] / max(1, len(running)))}
            return {
                pod.metadata.name: MetricPodUse({one.name: used for one in pod.spec.containers}, c.now[0], 15.0)
                for pod in running
            }

        async def size() -> tuple[int, str]:
            (found,) = await c.all(DEPLOYMENTS)
            (one,) = await c.all(AUTOSCALERS)
            said = {condition["type"]: condition["reason"] for condition in one["status"]["conditions"]}
            return found["spec"]["replicas"], said["AbleToScale"]

        clock = lambda: c.now[0]  # noqa: E731
        await c.run([controller(c.informers, clock) for controller in (Deployments, ReplicaSets)]
                    + [Autoscalers(c.informers, clock, uses)])  # fmt: skip
        web = deployment(1)
        web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await c.make(DEPLOYMENTS, web)
        await c.make(AUTOSCALERS, scaler())
        await c.later(1)
        assert await size() == (2, "SucceededRescale")  # its minimum
        await ready_pods(c, c.now[0] - 400)
        await c.later(16)
        assert await size() == (5, "SucceededRescale")  # 200 % of each request, 80 % wanted
        await ready_pods(c, c.now[0] - 400)
        await c.later(60)
        assert (await size())[0] == 5
        cores[0] = 1.0
        await c.later(200)
        assert await size() == (5, "ScaleDownStabilized")
        await c.later(130)
        assert (await size())[0] == 2
        (found,) = await c.all(AUTOSCALERS)
        assert found["status"]["desiredReplicas"] == 2
        reasons = [event["reason"] for event in await c.all(EVENTS) if event["involvedObject"]["name"] == "web"]
        assert reasons.count("SuccessfulRescale") == 3

    serve(case)


@pytest.mark.parametrize(
    ("spec", "condition", "reason", "why"),
    [
        ({}, "ScalingActive", "FailedGetResourceMetric", "unable to get metrics for resource cpu"),
        (
            {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web"}},
            "AbleToScale",
            "FailedGetScale",
            "not found",
        ),
        (
            {
                "metrics": [
                    {
                        "type": "External",
                        "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}},
                    }
                ]
            },
            "ScalingActive",
            "FailedGetExternalMetric",
            "no External metrics are served here",
        ),
    ],
)
def test_an_autoscaler_that_cannot_judge_says_why_and_leaves_the_number(
    spec: dict[str, Any], condition: str, reason: str, why: str
) -> None:
    async def case(c: Cluster) -> None:
        await c.run()
        await c.make(DEPLOYMENTS, deployment(3))
        await c.make(AUTOSCALERS, scaler(**spec))
        await c.later(40)
        (found,) = await c.all(AUTOSCALERS)
        said = {one["type"]: one for one in found["status"]["conditions"]}[condition]
        assert (said["status"], said["reason"]) == ("False", reason)
        assert why in said["message"]
        assert [one["spec"]["replicas"] for one in await c.all(DEPLOYMENTS)] == [3]
        assert found["metadata"]["resourceVersion"] == (await c.all(AUTOSCALERS))[0]["metadata"]["resourceVersion"]

    serve(case)
