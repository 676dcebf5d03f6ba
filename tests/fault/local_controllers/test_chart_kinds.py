"""CronJobs and quotas on the local server with all of its controllers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.processes.plain_cluster import template
from tests.fault.local_controllers.test_running import Cluster, deployment, serve

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.controllers.registry import controller_manager
from cotenant_local.controllers.runtime.actions import CRON_JOBS, DEPLOYMENTS, EVENTS, JOBS, PODS, QUOTAS, REPLICA_SETS

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
