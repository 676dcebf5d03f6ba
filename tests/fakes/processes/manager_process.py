"""A manager process against a small API server, with nodes that are measured by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.services.kube_process.leadership import Alone, Leadership
from cotenant.services.kube_process.span_target import SpanTarget
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess

SETTINGS = ManagerSettings(confirm_s=0.5, settle_s=0.01, first_look_s=0.5)
CPU = "kubernetes.io/batch-cpu"


@asynccontextmanager
async def managing(
    api: FakeApi,
    leadership: Callable[[Client], Leadership] | None = None,
    identity: str = "one",
    span_target: SpanTarget | None = None,
) -> AsyncIterator[ManagerProcess]:
    """A manager that runs, and ends well."""
    process = ManagerProcess(
        Access(api.url, FixedCredential(Credential(""))),
        ManagerOptions(listen=Address("127.0.0.1", 0), writes_per_s=1000.0, settings=SETTINGS, span_target=span_target),
        identity,
        leadership or (lambda client: Alone()),
    )
    stop = asyncio.Event()
    running = asyncio.create_task(process.run(stop))
    try:
        yield process
    finally:
        stop.set()
        await running


def configure(api: FakeApi, text: str | None = None, **strategy: object) -> None:
    """The ConfigMap; a text as it is."""
    written = json.dumps({"enable": True, **strategy}) if text is None else text
    meta = {"name": "slo-controller-config", "namespace": "koordinator-system"}
    api.put("configmaps", {"metadata": meta, "data": {"colocation-config": written}})


def measure(api: FakeApi, node: str, cpu_m: int, at: datetime | None = None) -> None:
    """A NodeMetric: one prod pod that uses this much."""
    known = api.objects["nodemetrics"].get(node, {})
    api.put(
        "nodemetrics",
        {
            "metadata": {"name": node},
            "spec": known.get("spec", {}),
            "status": {
                "updateTime": (at or datetime.now(UTC)).isoformat(timespec="microseconds").replace("+00:00", "Z"),
                "nodeMetric": {"nodeUsage": {"resources": {"cpu": f"{cpu_m}m", "memory": "1Gi"}}},
                "podsMetric": [
                    {
                        "namespace": "default",
                        "name": "gone",
                        "priority": "koord-prod",
                        "podUsage": {"resources": {"cpu": f"{cpu_m}m", "memory": "1Gi"}},
                    }
                ],
            },
        },
    )


def lent(api: FakeApi, node: str) -> str | None:
    """batch-cpu on the node."""
    found: dict[str, Any] = api.objects["nodes"][node]["status"]["allocatable"]
    return found.get(CPU)


def amount_writes(api: FakeApi) -> int:
    """Writes of node statuses so far."""
    return sum(method == "PATCH" and path.endswith("/status") and "/nodes/" in path for method, path in api.requests)


def seen(process: ManagerProcess, node: str, at: datetime) -> bool:
    """Whether the measurement of this time has reached the engine."""
    metric = process.manager._nodes[node].metric if node in process.manager._nodes else None
    return metric is not None and metric.updated_s >= at.timestamp() - 0.001


async def eventually(holds: Callable[[], object], within_s: float = 30.0) -> None:
    """Until something holds that is not only in the store."""
    await soon("it holds", holds, within_s)
