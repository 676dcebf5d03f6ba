"""A console beside a small API server, until everything was listed and after."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.fakes.servers.fake_api import FakeApi

from cotenant.drivers.http.address import Address
from cotenant.drivers.kube.client.access import Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.services.console.console_process import ConsoleOptions, ConsoleProcess
from cotenant.services.console.sources import CLUSTER


def console(url: str, **options: Any) -> ConsoleProcess:
    now = iter(range(10**6))
    return ConsoleProcess(
        Access(url, FixedCredential(Credential(""))),
        ConsoleOptions(listen=Address("127.0.0.1", 0), **options),
        now=lambda: 1000.0 + next(now),
    )


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/readyz", 503), ("/metrics", 200)])
def test_pages_before_anything_was_listed(path: str, status: int, ask: Any) -> None:
    process = console("http://127.0.0.1:1")
    answer = ask(process.app, path, method="GET")
    assert answer.status == status
    if path == "/readyz":
        assert answer.body == b"not everything has been listed yet\n"
    if path == "/metrics":
        assert b"\ncotenant_console_viewers 0.0\n" in answer.body


def test_what_the_cluster_has_is_shown_at_the_first_look_and_kept_for_the_slider(ask: Any) -> None:
    async def scenario() -> ConsoleProcess:
        async with FakeApi() as api:
            api.node("n1", "4")
            api.node("n2", "8")
            api.pod("web", "2", on="n1")
            api.pod("late", "1")
            process = console(api.url)
            stop = asyncio.Event()
            running = asyncio.create_task(process.run(stop))
            async with asyncio.timeout(60):
                while not process.history.times():
                    await asyncio.sleep(0)
            stop.set()
            await running
            assert {method for method, _ in api.requests} <= {"GET", "POST"}
            assert not [path for method, path in api.requests if method == "POST" and "reviews" not in path]
            return process

    process = asyncio.run(scenario())
    assert ask(process.app, "/readyz", method="GET").status == 200
    curves = process.history.curves()
    assert (curves["pending"], curves["requested"]) == ([1.0], [2 / 12])
    (at,) = process.history.times()
    snapshot = process.history.at(at)
    assert snapshot == process.live.snapshot()
    page = ask(process.app, "/metrics", method="GET").body.decode()
    assert f'cotenant_console_source_up{{source="{CLUSTER}"}} 1.0' in page
