"""The shadow process against an API server: it reads only, compares what another scheduler binds, and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import ClientSession
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.engine.rehearsal import rehearse
from cotenant.model.cluster.extender import Extender
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.shadow.shadow_process import STANDING, ShadowProcess
from cotenant.services.scheduling.options import Options

PROFILE = "least-allocated"


class Beside:
    """A shadow of the scheduler `cotenant`, and what it says."""

    def __init__(self, api: FakeApi, process: ShadowProcess) -> None:
        self.api, self.process = api, process

    def outcomes(self) -> dict[str, int]:
        return {one.what: one.pods for one in self.process.shadow.report(0.0).outcomes if one.pods}

    def pending(self) -> dict[str, int]:
        return {one.what: one.pods for one in self.process.shadow.report(0.0).pending if one.pods}

    async def page(self, path: str) -> tuple[int, str]:
        async with ClientSession() as session, session.get(self.process.server.url.rstrip("/") + path) as answer:
            return answer.status, await answer.text()

    async def bound(self, name: str, node: str, cpu: str = "1") -> None:
        """A pod, the only one that waits, is judged, then bound by another, and that is compared."""
        before = sum(self.outcomes().values())
        self.api.pod(name, cpu)
        await soon(f"{name} is judged", lambda: list(self.pending().values()) == [1] and "unseen" not in self.pending())
        self.api.pod(name, cpu, on=node)
        await soon(f"{name} is compared", lambda: sum(self.outcomes().values()) == before + 1)


@asynccontextmanager
async def beside(options: Options | None = None) -> AsyncIterator[Beside]:
    rehearse(profile(PROFILE))  # what compiles in the event loop would hold up the server too
    async with FakeApi() as api:
        api.node("a")
        api.node("b")
        given = options or Options()
        process = ShadowProcess(
            Access(api.url, FixedCredential(Credential(""))),
            profile(PROFILE),
            replace(given, schedulers=("cotenant",), listen=Address("127.0.0.1", 0)),
            "shadow-1",
            0.5,
        )
        stop = asyncio.Event()
        running = asyncio.create_task(process.run(stop))
        try:
            await soon("all is listed", lambda: process.kube.watches.synced)
            yield Beside(api, process)
            assert {method for method, _ in api.requests} == {"GET"}
        finally:
            stop.set()
            await running


def play(scene: Callable[[], Awaitable[None]]) -> None:
    async def played() -> None:
        await scene()

    asyncio.run(played())


def test_each_bind_of_another_is_compared_and_nothing_is_written() -> None:
    async def scene() -> None:
        async with beside() as shadow:
            for number in range(4):
                await shadow.bound(f"p{number}", "a")
            assert set(shadow.outcomes()) != {"agreed"}  # the emptier node is another for most of them
            shadow.api.pod("large", "64")
            await soon("the one without room is judged", lambda: sum(shadow.pending().values()) == 1)
            status, page = await shadow.page("/debug/shadow")
            found = json.loads(page)
            assert status == 200
            assert (found["of"], found["nodes"], found["share"]) == (["cotenant"], 2, 0.5)
            assert found["differences"]
            assert json.loads((await shadow.page("/debug/shadow?last=0"))[1])["differences"] == []
            assert len(json.loads((await shadow.page("/debug/shadow?last=1"))[1])["differences"]) == 1
            for last in ("-1", "x", "100000", "%C2%B2"):
                assert (await shadow.page(f"/debug/shadow?last={last}"))[0] == 400
            text = (await shadow.page("/metrics"))[1]
            counted = [line for line in text.splitlines() if line.startswith("cotenant_shadow_pods_total{")]
            assert sum(float(line.rpartition(" ")[2]) for line in counted) == 4
            pending = [line for line in text.splitlines() if line.startswith("cotenant_shadow_pending_pods{")]
            assert sum(float(line.rpartition(" ")[2]) for line in pending) == 1
            judged = next(line for line in text.splitlines() if line.startswith("cotenant_shadow_judgements_total "))
            assert float(judged.rpartition(" ")[2]) >= 5

    play(scene)


def test_it_is_ready_and_says_that_it_does_not_lead() -> None:
    async def scene() -> None:
        async with beside() as shadow:

            async def is_ready() -> bool:
                return (await shadow.page("/readyz"))[0] == 200

            await soon("it is ready", is_ready)
            await soon("both nodes are known", lambda: shadow.process.cluster.size()[0] == 2)
            state = shadow.process._state()
            assert (state.identity, state.leading, state.standing, state.synced) == ("shadow-1", False, STANDING, True)
            assert (state.nodes, state.pods, state.binds_under_way) == (2, 0, 0)
            status, page = await shadow.page("/debug/state")
            assert (status, STANDING in page) == (200, True)

    play(scene)


def test_no_extender_is_asked_and_that_is_said() -> None:
    async def scene() -> None:
        async with beside(Options(extenders=(Extender("http://127.0.0.1:1/x", filter_verb="f"),))) as shadow:
            assert shadow.process.options.extenders == ()
            await shadow.bound("p", "a")
            assert json.loads((await shadow.page("/debug/shadow"))[1])["extenders_left_out"] == 1

    play(scene)


@pytest.mark.parametrize("scheduler", ["default-scheduler", "another"])
def test_pods_of_other_schedulers_are_not_compared(scheduler: str) -> None:
    async def scene() -> None:
        async with beside() as shadow:
            shadow.api.pod("theirs", schedulerName=scheduler)
            shadow.api.pod("theirs", schedulerName=scheduler, on="a")
            await shadow.bound("ours", "a")
            assert sum(shadow.outcomes().values()) == 1

    play(scene)
