"""The lease is renewed while the process's own loop is busy, and left to run out when it is dead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.fakes.servers.fake_api import FakeApi

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.services.kube_process.election_thread import ThreadedElection

QUICK = Timing(lease_s=0.6, renew_deadline_s=0.4, retry_s=0.05)


@asynccontextmanager
async def api_elsewhere() -> AsyncIterator[FakeApi]:
    """A server whose loop turns while the case blocks its own."""
    started: asyncio.Future[FakeApi] = asyncio.get_running_loop().create_future()
    here = asyncio.get_running_loop()
    end = asyncio.Event()
    there: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        there.append(asyncio.get_running_loop())
        async with FakeApi() as api:
            here.call_soon_threadsafe(started.set_result, api)
            await end.wait()

    serving = asyncio.ensure_future(asyncio.to_thread(lambda: asyncio.run(serve())))
    try:
        yield await started
    finally:
        there[0].call_soon_threadsafe(end.set)
        await serving


def election(api: FakeApi, identity: str, timing: Timing = QUICK, dead_after_s: float = 60.0) -> ThreadedElection:
    access = Access(api.url, FixedCredential(Credential()))
    return ThreadedElection(
        lambda: Client(access, qps=1000.0, burst=100, in_flight=2, user_agent="test"),
        *("default", "x", identity),
        timing,
        dead_after_s,
    )


def holder(api: FakeApi) -> str | None:
    lease = api.objects["leases"].get("default/x")
    return lease["spec"].get("holderIdentity") if lease else None


@pytest.mark.slow
def test_a_busy_loop_keeps_the_lease() -> None:
    async def case() -> None:
        async with api_elsewhere() as api:
            elected = election(api, "one")

            async def work() -> None:
                time.sleep(1.0)
                assert elected.leading

            assert await elected.run(work) is True
            assert not holder(api)  # released
            assert not elected.leading

    asyncio.run(case())


@pytest.mark.slow
def test_a_dead_loop_lets_the_lease_run_out_and_its_work_is_stopped_when_it_turns_again() -> None:
    async def case() -> None:
        async with api_elsewhere() as api:
            elected, cancelled = election(api, "one", dead_after_s=0.3), []

            async def work() -> None:
                time.sleep(1.0)
                assert not elected.leading
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(True)
                    raise

            assert await elected.run(work) is False
            assert cancelled
            assert holder(api) == "one"  # nobody released it: it ran out

    asyncio.run(case())


def test_cancelling_while_working_stops_the_work_and_then_releases() -> None:
    async def case() -> None:
        async with FakeApi() as api:
            elected, seen, began = election(api, "one"), [], asyncio.Event()

            async def work() -> None:
                began.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    await asyncio.sleep(0.05)
                    seen.append(holder(api))

            running = asyncio.ensure_future(elected.run(work))
            await began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert seen == ["one"]
            assert not holder(api)

    asyncio.run(case())


def test_cancelling_a_campaign_leaves_the_holder_alone() -> None:
    async def case() -> None:
        async with FakeApi() as api:
            first, began, end = election(api, "one", Timing()), asyncio.Event(), asyncio.Event()

            async def work() -> None:
                began.set()
                await end.wait()

            leading = asyncio.ensure_future(first.run(work))
            await began.wait()
            second = asyncio.ensure_future(election(api, "two").run(work))
            await asyncio.sleep(0.2)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            assert holder(api) == "one"
            end.set()
            assert await leading is True

    asyncio.run(case())


def test_a_client_that_cannot_be_made_is_an_error_of_the_election() -> None:
    def connect() -> Client:
        raise OSError("no sockets")

    async def work() -> None:
        raise AssertionError("it leads")

    with pytest.raises(OSError, match="no sockets"):
        asyncio.run(ThreadedElection(connect, "default", "x", "one", QUICK).run(work))


def test_an_error_of_the_work_is_raised_after_the_release() -> None:
    async def case() -> None:
        async with FakeApi() as api:

            async def work() -> None:
                raise RuntimeError("of the work")

            with pytest.raises(RuntimeError, match="of the work"):
                await election(api, "one").run(work)
            assert not holder(api)

    asyncio.run(case())
