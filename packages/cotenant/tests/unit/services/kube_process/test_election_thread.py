"""The lease is renewed while the process's own loop is busy, and left to run out when it is dead."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import patience

from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.services.kube_process import election_thread
from cotenant.services.kube_process.election_thread import ThreadedElection, _Term

QUICK = Timing(lease_s=0.6, renew_deadline_s=0.4, retry_s=0.05)
STEADY = Timing(lease_s=60.0, renew_deadline_s=30.0, retry_s=0.02)  # renews often, expires never


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


def blocked(until: Callable[[], bool]) -> None:
    """Keep this thread and its event loop busy until it holds."""
    end_s = time.monotonic() + 60.0
    while not until():
        assert time.monotonic() < end_s, "it never holds"
        sum(range(2000))


def renewals(api: FakeApi) -> int:
    return int(api.objects["leases"]["default/x"]["metadata"]["resourceVersion"])


@pytest.mark.slow
def test_a_busy_loop_keeps_the_lease() -> None:
    async def case() -> None:
        async with api_elsewhere() as api:
            elected = election(api, "one", STEADY)

            async def work() -> None:
                first = renewals(api)
                blocked(lambda: renewals(api) >= first + 5)
                assert elected.leading
                assert elected.standing() == ""

            assert await elected.run(work) is True
            assert not holder(api)  # released
            assert not elected.leading

    asyncio.run(case())


@pytest.mark.slow
def test_a_loop_that_hangs_lets_the_lease_run_out_and_leads_on_where_nobody_took_it() -> None:
    async def case() -> None:
        async with api_elsewhere() as api:
            elected, changes = election(api, "one", dead_after_s=0.3), asyncio.Event()

            async def work() -> None:
                blocked(lambda: "nobody else is known to hold it" in elected.standing())
                while not elected.leading:
                    changes.clear()
                    await asyncio.wait_for(changes.wait(), patience(60))

            assert await elected.run(work, changes.set) is True  # the same work, not a second term
            assert elected.lapses >= 1  # a loop that gets no CPU has hung

    asyncio.run(case())


@pytest.mark.slow
def test_a_loop_that_hangs_for_ever_loses_the_lease_to_another() -> None:
    async def case() -> None:
        async with api_elsewhere() as api:
            elected, cancelled = election(api, "one", dead_after_s=0.3), []
            rival = election(api, "two")
            second = threading.Thread(target=lambda: asyncio.run(rival.run(asyncio.Event().wait)), daemon=True)

            async def work() -> None:
                second.start()
                blocked(lambda: rival.leading)
                assert not elected.leading
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(True)
                    raise

            assert await elected.run(work) is False
            assert cancelled
            assert holder(api) == "two"
            assert elected.standing() == "waits for the lease default/x, held by two"

    asyncio.run(case())


def test_cancelling_while_working_stops_the_work_and_then_releases() -> None:
    async def case() -> None:
        async with FakeApi() as api:
            elected, seen, began = election(api, "one", STEADY), [], asyncio.Event()

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
                await election(api, "one", STEADY).run(work)
            assert not holder(api)

    asyncio.run(case())


def test_a_loop_that_has_not_turned_for_as_long_as_it_may_counts_as_dead_until_it_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(election_thread, "time", SimpleNamespace(monotonic=lambda: now_s[0]))

    async def case() -> list[bool]:
        term = _Term(asyncio.get_running_loop(), 5.0, lambda: None)
        found = []
        for at_s in (104.9, 105.0, 200.0):
            now_s[0] = at_s
            found.append(term.is_alive())
        await asyncio.sleep(0)  # the loop turns
        now_s[0] = 204.9
        return [*found, term.is_alive()]

    assert asyncio.run(case()) == [True, False, False, True]
