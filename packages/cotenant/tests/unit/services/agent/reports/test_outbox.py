"""One receiver: the newest report is delivered, failures back off longer each time, refused reports are dropped."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from cotenant.model.cluster.report import NodeReport
from cotenant.model.errors import Permanent, Transient
from cotenant.services.agent.reports.outbox import ReportOutbox
from cotenant.services.reporting import payload

URL = "http://scheduler.example/metrics/report"
REPORT = NodeReport("n1", 32.0, 8.0, 2.0**37, 2.0**35, 12.5, 0.25, 0.4, 0.9, 1_000_000.0)


class Receiver:
    def __init__(self) -> None:
        self.taken: list[float] = []
        self.fails: Exception | None = None
        self.hangs: asyncio.Event | None = None

    async def post(self, url: str, body: bytes) -> None:
        if self.hangs is not None:
            await self.hangs.wait()
        if self.fails is not None:
            raise self.fails
        self.taken.append(payload.read(body).at_s)


def at(second: float) -> NodeReport:
    return replace(REPORT, at_s=1_000_000.0 + second)


def test_the_newest_is_delivered_when_the_receiver_is_back() -> None:
    async def scenario() -> tuple[Receiver, ReportOutbox]:
        receiver = Receiver()
        outbox = ReportOutbox(URL, receiver.post, lambda: 5.0)
        receiver.fails = Transient("connection refused")
        for second in range(3):
            outbox.put(at(second))
            await outbox.deliver()
        receiver.fails = None
        await outbox.deliver()
        await outbox.deliver()  # nothing waits
        return receiver, outbox

    receiver, outbox = asyncio.run(scenario())
    assert receiver.taken == [1_000_002.0]
    assert (outbox.delivered, outbox.failed, outbox.replaced, outbox.refused) == (1, 3, 2, 0)
    assert outbox.delivered_s == 5.0


def test_a_report_that_comes_while_one_is_under_way_goes_next() -> None:
    async def scenario() -> tuple[Receiver, ReportOutbox]:
        receiver = Receiver()
        receiver.hangs = asyncio.Event()
        outbox = ReportOutbox(URL, receiver.post, lambda: 5.0)
        outbox.put(at(0))
        delivering = asyncio.create_task(outbox.deliver())
        await asyncio.sleep(0)
        outbox.put(at(1))
        receiver.fails = Transient("cut")
        receiver.hangs.set()
        await delivering
        receiver.fails = None
        await outbox.deliver()
        return receiver, outbox

    receiver, outbox = asyncio.run(scenario())
    assert receiver.taken == [1_000_001.0]
    assert outbox.replaced == 1


def test_it_backs_off_up_to_half_a_reports_time_to_live() -> None:
    rests: list[float] = []

    async def scenario() -> None:
        receiver = Receiver()
        receiver.fails = Transient("connection refused")

        async def sleep(seconds: float) -> None:
            rests.append(seconds)
            if len(rests) == 8:
                receiver.fails = None
            if len(rests) == 9:
                await asyncio.Event().wait()

        outbox = ReportOutbox(URL, receiver.post, lambda: 5.0, sleep=sleep)
        outbox.put(at(0))
        running = asyncio.create_task(outbox.run())
        while not receiver.taken:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(scenario())
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_refused_report_is_dropped_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> ReportOutbox:
        receiver = Receiver()
        receiver.fails = Permanent("422 timestamp")
        outbox = ReportOutbox(URL, receiver.post, lambda: 5.0)
        for second in range(3):
            outbox.put(at(second))
            await outbox.deliver()
            assert outbox.waiting is None
        return outbox

    assert asyncio.run(scenario()).refused == 3
    assert sum("is refused" in record.message for record in caplog.records) == 1
