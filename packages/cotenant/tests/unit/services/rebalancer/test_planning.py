"""A plan against an API server: what is read, that nothing is written, and what is said where there is no answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.processes.manager_process import measure
from tests.fakes.servers.fake_api import FakeApi

from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.services.rebalancer.planning import plan
from cotenant.services.rebalancer.rebalancer_arguments import PlanArguments

CONFIG = """
kind: DeschedulerConfiguration
profiles:
- plugins: {balance: {enabled: [{name: LowNodeLoad}]}}
  pluginConfig:
  - {name: LowNodeLoad, args: {lowThresholds: {cpu: 30}, highThresholds: {cpu: 60}}}
  - {name: MigrationController, args: {skipCheckExpectedReplicas: true}}
"""
MISSED = """
kind: DeschedulerConfiguration
profiles:
- plugins: {deschedule: {enabled: [{name: MissedObjectives}]}}
  pluginConfig:
  - {name: MigrationController, args: {skipCheckExpectedReplicas: true}}
"""
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}


def node(api: FakeApi, name: str, raw: str = "") -> None:
    size = {"cpu": "10", "memory": "64Gi", "pods": "20"}
    notes = {"node.koordinator.sh/raw-allocatable": raw} if raw else {}
    api.put("nodes", {"metadata": {"name": name, "annotations": notes}, "status": {"allocatable": size}})


def pod(api: FakeApi, name: str, on: str, use_m: int, **spec: Any) -> None:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    api.put(
        "pods",
        {
            "metadata": {"name": name, "namespace": "default", "ownerReferences": [OWNER]},
            "spec": {
                "nodeName": on,
                "schedulerName": "cotenant",
                "containers": [{"name": "c", "resources": resources}],
                **spec,
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        },
    )
    metric = api.objects["nodemetrics"][on]["status"]
    used = {"resources": {"cpu": f"{use_m}m", "memory": "1Gi"}}
    metric.setdefault("podsMetric", []).append({"namespace": "default", "name": name, "podUsage": used})


async def planned(api: FakeApi, folder: Path, config: str = CONFIG, **more: Any) -> MovePlan:
    (folder / "config.yaml").write_text(config)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        f"{{clusters: [{{name: c, cluster: {{server: '{api.url}'}}}}], contexts: [{{name: c, context: {{cluster: "
        f"c}}}}], current-context: c}}"
    )
    return await asyncio.to_thread(plan, PlanArguments(kubeconfig=kubeconfig, config=folder / "config.yaml", **more))


async def hot(api: FakeApi) -> None:
    for name, use_m in (("a", 8000), ("b", 0)):
        node(api, name)
        measure(api, name, use_m)
        api.objects["nodemetrics"][name]["status"]["podsMetric"] = []
    for i in range(4):
        pod(api, f"p{i}", "a", 2000)


def test_a_plan_reads_and_writes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            found = await planned(api, tmp_path)
            assert [(move.node, move.target, move.owner) for move in found.moves] == [("a", "b", "ReplicaSet/web")]
            assert {method for method, _ in api.requests} == {"GET"}
            assert found.notes == (
                "anomalyCondition: one look counts no rounds, so every overloaded node is considered",
            )

    asyncio.run(scenario())


@pytest.mark.slow
def test_local_storage_and_raw_allocatable_are_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            for i in range(4):
                pod(api, f"p{i}", "a", 0, volumes=[{"name": "v", "emptyDir": {}}])
            found = await planned(api, tmp_path)
            assert {kept_pod.reason for kept_pod in found.kept} == {"it has local storage"}
            node(api, "a", '{"cpu": "100"}')
            assert (await planned(api, tmp_path)).pools[0].note == "no node is overloaded"
            node(api, "a", "[]")
            assert any("raw-allocatable" in note for note in (await planned(api, tmp_path)).notes)

    asyncio.run(scenario())


def objective(api: FakeApi, worst: str) -> None:
    spec = {"service": {"name": "web"}, "indicator": {"latency": {"below": "200ms"}}, "target": "99.9"}
    alert = {"severity": "critical", "window": "1h", "shortWindow": "5m", "factor": "14.4"}
    status = {
        "state": "burning",
        "burn": {"5m": "30", "1h": "20"},
        "alerts": [alert],
        "worstReplica": {"pod": worst, "node": "a", "burn": "55"},
    }
    api.put("serviceobjectives", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec, "status": status})


@pytest.mark.parametrize("installed", [True, False])
def test_objectives_that_burn_are_read_where_the_kind_is_installed(tmp_path: Path, installed: bool) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            objective(api, "default/p1")
            if not installed:
                api.faults.refuse = lambda method, path: 404 if path.endswith("/serviceobjectives") else 0
            found = await planned(api, tmp_path, MISSED)
            assert [(move.pod, move.target, move.about) for move in found.moves] == (
                [("default/p1", "b", "objective default/web")] if installed else []
            )
            assert {method for method, _ in api.requests} == {"GET"}

    asyncio.run(scenario())


def test_objectives_are_not_listed_where_no_plugin_reads_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            await hot(api)
            await planned(api, tmp_path)
            assert not [path for _, path in api.requests if "serviceobjectives" in path]
            await planned(api, tmp_path, MISSED)
            assert [path for _, path in api.requests if "serviceobjectives" in path]

    asyncio.run(scenario())


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        api = FakeApi()
        api.url = "http://127.0.0.1:1"
        with pytest.raises(Transient, match=r"the API server http://127\.0\.0\.1:1 does not answer"):
            await planned(api, tmp_path)

    asyncio.run(scenario())


def test_a_server_that_refuses(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.faults.refuse = lambda method, path: 403
            with pytest.raises(Permanent):
                await planned(api, tmp_path)

    asyncio.run(scenario())


@pytest.mark.parametrize("within_s", [0.0, -1.0, float("nan"), 1e9])
def test_the_time_for_reading(within_s: float) -> None:
    with pytest.raises(InvalidInput, match="--within-s"):
        plan(PlanArguments(within_s=within_s))
