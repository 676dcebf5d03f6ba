"""What waits for a collector: in order, again where it is away, not again where it refuses, to where it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from tests.fakes.waiting import soon

from cotenant.engine.fleet.backlog import Export
from cotenant.services.export_sending import ExportSender
from cotenant.services.running import cancelled


class Collector:
    """What came at which path. `status`: of the next answers."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.asked = 0
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        body = await request.read()
        if self.status == 200:
            self.got.append((request.path, body))
        return web.Response(status=self.status)


def export(body: bytes, items: int = 1) -> Export:
    return Export("/v1/logs", body, "application/json", "", items)


def played(scene: Callable[[Collector, str], Awaitable[None]]) -> None:
    async def play() -> None:
        collector, application = Collector(), web.Application()
        application.add_routes([web.post("/{path:.*}", collector.answer)])
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            await scene(collector, f"http://127.0.0.1:{runner.addresses[0][1]}")
        finally:
            await runner.cleanup()

    asyncio.run(play())


def test_each_is_sent_once_in_order_to_where_it_is_told() -> None:
    async def scene(collector: Collector, url: str) -> None:
        sender = ExportSender(again_s=0.0)
        for body in (b"1", b"2"):
            sender.put(export(body, 3))
        task = asyncio.create_task(sender.run())
        await asyncio.sleep(0)
        assert sender.backlog.first() is not None
        sender.send_to(f"{url}/a/")
        await soon("it is sent", lambda: sender.backlog.first() is None)
        sender.send_to(f"{url}/b")
        sender.put(export(b"3"))
        await soon("it is sent", lambda: sender.sent == 7)
        await cancelled((task,))
        assert collector.got == [("/a/v1/logs", b"1"), ("/a/v1/logs", b"2"), ("/b/v1/logs", b"3")]
        assert (sender.fault, sender.refused, sender.dropped, sender.backlog.first()) == ("", 0, 0, None)

    played(scene)


def test_a_collector_that_is_away_is_asked_again_and_one_that_refuses_is_not() -> None:
    async def scene(collector: Collector, url: str) -> None:
        sender = ExportSender(url, again_s=0.0)
        collector.status = 503
        task = asyncio.create_task(sender.run())
        sender.put(export(b"1", 2))
        await soon("asked three times", lambda: collector.asked >= 3)
        assert (sender.sent, sender.refused) == (0, 0)
        assert sender.fault
        collector.status = 200
        await soon("it is sent", lambda: sender.backlog.first() is None)
        assert (sender.sent, sender.fault) == (2, "")
        collector.status, asked = 400, collector.asked
        sender.put(export(b"2", 5))
        await soon("it is sent", lambda: sender.backlog.first() is None)
        assert (sender.sent, sender.refused, collector.asked) == (2, 5, asked + 1)
        assert sender.fault
        collector.status = 200
        sender.put(export(b"3"))
        await soon("it is sent", lambda: sender.backlog.first() is None)
        await cancelled((task,))
        assert [body for _, body in collector.got] == [b"1", b"3"]

    played(scene)
