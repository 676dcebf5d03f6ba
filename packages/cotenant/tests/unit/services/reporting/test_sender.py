"""One POST, and what a receiver's ways of failing are taken for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.services.reporting import payload
from cotenant.services.reporting.sender import ReportSender

TOKEN = "a-token-of-sixteen-or-more"
REPORT = NodeReport("n1", 32.0, 8.0, 2.0**37, 2.0**35, 12.5, 0.25, 0.4, 0.9, 1_000_000.0)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def deliver(handler: Handler, token_file: Path | None = None, within_s: float = 5.0) -> None:
    async def scenario() -> None:
        app = web.Application()
        app.router.add_post("/metrics/report", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            async with ReportSender(token_file, within_s) as sender:
                await sender.post(f"http://127.0.0.1:{port}/metrics/report", payload.write(REPORT))
        finally:
            await runner.cleanup()

    asyncio.run(scenario())


def test_what_is_written_is_what_the_endpoint_reads() -> None:
    taken: list[NodeReport] = []

    async def take(request: web.Request) -> web.StreamResponse:
        assert request.content_type == "application/json"
        taken.append(payload.read(await request.read()))
        return web.Response(status=204)

    deliver(take)
    assert taken == [REPORT]


def test_the_token_is_read_for_each_report(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    seen: list[str] = []

    async def take(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.Response(status=204)

    deliver(take, file)
    file.write_text(TOKEN.upper())
    deliver(take, file)
    assert seen == [f"Bearer {TOKEN}", f"Bearer {TOKEN.upper()}"]
    file.unlink()
    with pytest.raises(InvalidInput, match="report token file"):
        deliver(take, file)


@pytest.mark.parametrize(("status", "passes"), [(503, True), (429, True), (408, True), (422, False), (401, False)])
def test_only_some_refusals_pass(status: int, passes: bool) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="no\nthanks", headers={"Retry-After": "7"})

    with pytest.raises(Transient if passes else Permanent, match=f"{status} no thanks") as caught:
        deliver(refuse)
    if passes:
        assert isinstance(caught.value, Transient)
        assert caught.value.retry_after_s == 7.0


def test_a_receiver_that_hangs_costs_the_bound_and_no_more() -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    with pytest.raises(Transient):
        deliver(hang, within_s=0.05)


def test_nobody_listens() -> None:
    async def scenario() -> None:
        async with ReportSender() as sender:
            await sender.post("http://127.0.0.1:9/metrics/report", b"{}")

    with pytest.raises(Transient, match="Cannot connect"):
        asyncio.run(scenario())
