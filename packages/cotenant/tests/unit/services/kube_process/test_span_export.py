"""Spans wait in a bounded queue, go out in batches about once a second, and are never waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.fakes.virtual_time import run_virtually

from cotenant.drivers.otlp.encoding import OwnSpan
from cotenant.model.errors import Permanent, Transient
from cotenant.services.kube_process import span_export
from cotenant.services.kube_process.span_export import BATCH, EVERY_S, LAST_S, MAX_WAITING, SpanExporter, exporter
from cotenant.services.kube_process.span_target import SpanTarget

SPAN = OwnSpan("0" * 32, "1" * 16, "", "bind", 1.0, 2.0)


class Receiver:
    """Keeps how many spans each post had; `answers`: what the next ones raise, None = they are taken."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.posts: list[tuple[float, int]] = []
        self.is_closed = self.hangs = False

    def __call__(self, token_file: Any, ca_file: Any) -> Receiver:
        return self

    async def post(self, url: str, body: bytes) -> None:
        assert url == "http://a/v1/traces"
        self.posts.append((asyncio.get_running_loop().time(), body.count(b"bind")))
        if self.hangs:
            await asyncio.Event().wait()
        error = self.answers.pop(0) if self.answers else None
        if error is not None:
            raise error

    async def close(self) -> None:
        self.is_closed = True


def played(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver, scene: Callable[[SpanExporter], Awaitable[None]]
) -> dict[str, int]:
    """The counts after a scene and the end of the task."""
    monkeypatch.setattr(span_export, "ReportSender", receiver)
    found = SpanExporter(SpanTarget("http://a/v1/traces"), "scheduler", "me")

    async def run() -> None:
        running = asyncio.create_task(found.run())
        await asyncio.sleep(0)
        await scene(found)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_virtually(run())
    assert receiver.is_closed
    assert dict(found.samples()) == {(key,): float(count) for key, count in found.counts.items()}
    return found.counts


def counts(**given: int) -> dict[str, int]:
    return {"exported": 0, "refused": 0, "dropped": 0, **given}


def test_spans_go_out_together_after_a_second_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver()

    async def scene(found: SpanExporter) -> None:
        began_s = asyncio.get_running_loop().time()
        found.add([SPAN] * BATCH)
        await asyncio.sleep(0.5)
        found.add([SPAN])
        assert receiver.posts == []
        await asyncio.sleep(1.0)
        assert [spans for _, spans in receiver.posts] == [BATCH, 1]
        assert [at - began_s for at, _ in receiver.posts] == pytest.approx([EVERY_S, EVERY_S])
        await asyncio.sleep(60)
        assert len(receiver.posts) == 2
        found.add([SPAN])
        await asyncio.sleep(1.5)
        assert len(receiver.posts) == 3

    assert played(monkeypatch, receiver, scene) == counts(exported=BATCH + 2)


def test_what_a_full_queue_cannot_take_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(found: SpanExporter) -> None:
        found.add([SPAN] * (MAX_WAITING - 1))
        found.add([SPAN] * 2)  # all of them or none
        found.add([SPAN])
        found.add([SPAN])
        await asyncio.sleep(1.5)

    assert played(monkeypatch, Receiver(), scene) == counts(exported=MAX_WAITING, dropped=3)


def test_what_cannot_be_delivered_is_sent_again_with_growing_rests(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver(Transient("away"), Transient("away"), Transient("away"))

    async def scene(found: SpanExporter) -> None:
        found.add([SPAN])
        await asyncio.sleep(60)
        rests_s = [after - before for (before, _), (after, _) in pairwise(receiver.posts)]
        assert rests_s == pytest.approx([1.0, 2.0, 4.0])
        found.add([SPAN])
        began_s = asyncio.get_running_loop().time()
        await asyncio.sleep(1.5)
        assert receiver.posts[-1][0] - began_s == pytest.approx(EVERY_S)

    with caplog.at_level("INFO"):
        assert played(monkeypatch, receiver, scene) == counts(exported=2)
    assert [record.message for record in caplog.records] == ["spans wait: away", "spans are delivered again"]


def test_what_the_receiver_refuses_is_dropped_and_the_rest_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(found: SpanExporter) -> None:
        found.add([SPAN] * (BATCH + 1))
        await asyncio.sleep(1.5)

    assert played(monkeypatch, Receiver(Permanent("400")), scene) == counts(refused=BATCH, exported=1)


def test_what_waits_at_the_end_gets_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(found: SpanExporter) -> None:
        found.add([SPAN] * 2)

    assert played(monkeypatch, Receiver(), scene) == counts(exported=2)
    away = Receiver(Transient("away"))
    assert played(monkeypatch, away, scene) == counts(dropped=2)
    assert len(away.posts) == 1
    hanging = Receiver()
    hanging.hangs = True
    assert played(monkeypatch, hanging, scene) == counts(dropped=2)
    assert LAST_S <= 1.0


def test_there_is_a_sender_where_there_is_a_target() -> None:
    class Process:
        identity = "me"

        def __init__(self) -> None:
            self.tasks: dict[str, object] = {}

        def background(self, name: str, run: object) -> None:
            self.tasks[name] = run

    process: Any = Process()
    assert exporter(process, "scheduler", None) is None
    assert process.tasks == {}
    found = exporter(process, "scheduler", SpanTarget("http://a"))
    assert found is not None
    assert process.tasks == {"spans": found.run}
