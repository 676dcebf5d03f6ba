"""A manager process beside a small API server: what it lends, says and serves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.fakes.processes.manager_process import configure, eventually, lent, measure, seen
from tests.fakes.servers.fake_api import FakeApi

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.engine.manager.settings import ManagerSettings
from cotenant.services.kube_process.leadership import Alone, Leadership
from cotenant.services.manager.manager_process import ManagerOptions, ManagerProcess

AT_ONCE = ManagerSettings(settle_s=0.0, first_look_s=0.0)


class Follower:
    """Another replica leads, for ever."""

    leading = False
    lapses = 0

    def standing(self) -> str:
        return "another leads"

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        return await asyncio.get_running_loop().create_future()


def process_of(url: str, leadership: Callable[[], Leadership] = Alone) -> ManagerProcess:
    options = ManagerOptions(listen=Address("127.0.0.1", 0), settings=AT_ONCE)
    return ManagerProcess(Access(url, FixedCredential(Credential(""))), options, "one", lambda client: leadership())


def test_it_lends_by_the_config_map_says_what_is_wrong_with_it_and_keeps_the_last_good_one() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            configure(api)
            api.node("n1", "100")
            measure(api, "n1", 20_000)
            process = process_of(api.url)
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            await api.until(lambda: lent(api, "n1") == "40000")
            await api.until(lambda: "n1" in api.objects["nodeslos"])
            assert not api.objects["events"]
            configure(api, "{")
            await api.until(lambda: bool(api.events("ColocationCfgUnmarshalFailed")))
            (said,) = api.events("ColocationCfgUnmarshalFailed")
            assert (said["type"], said["involvedObject"]["name"]) == ("Warning", "slo-controller-config")
            assert said["message"].startswith("the last good value stays: colocation-config")
            assert lent(api, "n1") == "40000"
            measure(api, "n1", 10_000)
            await api.until(lambda: lent(api, "n1") == "50000")
            configure(api)
            await api.until(lambda: bool(api.events("ConfigInForce")))
            assert api.events("ConfigInForce")[0]["type"] == "Normal"
            assert not api.events("SLOCfgUnmarshalFailed")
            stop.set()
            await running

    asyncio.run(scenario())


def test_one_that_does_not_lead_writes_nothing() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            configure(api, "{")
            api.node("n1", "100")
            measure(api, "n1", 20_000)
            process = process_of(api.url, Follower)
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            await eventually(process.manager.nodes)
            at = datetime.now(UTC)
            configure(api)
            measure(api, "n1", 10_000, at)
            await eventually(lambda: seen(process, "n1", at))
            stop.set()
            await running
            assert {method for method, _ in api.requests} == {"GET"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/healthz", 200, b"ok"),
        ("GET", "/readyz", 503, b""),
        ("GET", "/metrics", 200, b"# HELP"),
        ("POST", "/healthz", 405, b"only GET"),
        ("GET", "/debug", 404, b"not found"),
    ],
)
def test_pages_before_anything_was_listed(method: str, path: str, status: int, said: bytes, ask: Any) -> None:
    process = process_of("http://127.0.0.1:1")
    answer = ask(process._answer, path, method=method)
    assert (answer.status, answer.body[: len(said)]) == (status, said)
    if path == "/metrics":
        names = {line.split()[2] for line in answer.body.decode().splitlines() if line.startswith("# HELP")}
        assert {"cotenant_manager_nodes", "cotenant_manager_leading"} <= names


def test_a_pool_that_waits_for_approval_lends_once_it_is_given_and_not_after_an_undo() -> None:
    async def scenario() -> None:
        async with FakeApi() as api:

            def said() -> dict[str, Any]:
                status: dict[str, Any] = api.objects["poollendings"].get("cluster", {}).get("status", {})
                return status

            def writes(**spec: str) -> None:
                stored = api.objects["poollendings"]["cluster"]
                api.put("poollendings", {**stored, "spec": {**stored.get("spec", {}), **spec}})

            configure(api, lendMode="approve")
            api.node("n1", "100")
            measure(api, "n1", 20_000)
            process = process_of(api.url)
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            await api.until(lambda: said().get("suggestion", {}).get("cpuM") == 40_000)
            assert lent(api, "n1") is None
            assert said()["state"] == "suggested"
            writes(approved=said()["suggestion"]["id"], approvedBy="ada")
            await api.until(lambda: lent(api, "n1") == "40000")
            await api.until(lambda: said()["state"] == "lent")
            writes(undo=datetime.now(UTC).date().isoformat())
            await api.until(lambda: lent(api, "n1") is None and said()["state"] == "stopped")
            stop.set()
            await running

    asyncio.run(scenario())
