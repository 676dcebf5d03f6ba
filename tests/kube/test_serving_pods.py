"""The replicas of a model server found on an API server: by labels, from when they are ready until they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.fakes.waiting import soon
from tests.kube.conftest import pod

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.services.kube_process.watches import Watches
from cotenant.services.running import TaskSet
from cotenant.services.traces.model_servers.server_file import ModelServer, ModelServerFile, ServingPods
from cotenant.services.traces.model_servers.serving_pods import FoundServers


def test_replicas_are_found_by_their_labels_and_lost_with_their_pods(kube: Any, namespace: str) -> None:
    told: list[Sequence[ModelServer]] = []
    found = FoundServers(ModelServerFile(pods=(ServingPods(f"{namespace}/llm", {"app": "llm"}, 8000),)), told.append)
    path = f"/api/v1/namespaces/{namespace}/pods"
    ready = {"phase": "Running", "podIP": "10.9.8.7", "podIPs": [{"ip": "10.9.8.7"}]}

    def make(name: str, labels: dict[str, str]) -> None:
        made = pod(name)
        made["metadata"]["labels"] = labels
        kube.create(path, made)
        kube.patch(f"{path}/{name}/status", {"status": {**ready, "conditions": [{"type": "Ready", "status": "True"}]}})

    async def until(what: Callable[[], bool]) -> None:
        await soon("it holds", what)

    async def scenario() -> None:
        async with Client(load_access(kube.kubeconfig), qps=1000, burst=1000, in_flight=4) as client:
            watches, tasks = Watches(client), TaskSet()
            found.watch(watches)
            tasks.start("watches", watches.run())
            await asyncio.to_thread(make, "other", {"app": "other"})
            await asyncio.to_thread(make, "llm-0", {"app": "llm", "tier": "gpu"})
            await until(lambda: bool(told))
            assert [(server.url, server.pod) for server in told[-1]] == [("http://10.9.8.7:8000/metrics", "llm-0")]
            await asyncio.to_thread(kube.delete, f"{path}/llm-0", {"gracePeriodSeconds": 0})
            await until(lambda: not told[-1])
            await tasks.cancel()

    asyncio.run(scenario())
