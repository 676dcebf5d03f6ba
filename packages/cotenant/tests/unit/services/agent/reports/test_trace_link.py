"""What an agent sends to a trace process: in order, again where it was not taken, and what is left out when too much
waits. The trace process is a server that answers what it is told to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.fakes.waiting import soon

from cotenant.engine.node.recovery.story import ServiceStory
from cotenant.services.agent.trace_link import MAX_WAITING, RETRY_S, TraceLink
from cotenant.services.reporting.signals import ACTIONS, MAX_PODS, SIGNALS, ActionTaken, SignalLine, encode_line
from cotenant.services.reporting.stories import STORIES, StoryReport


def action(number: int) -> ActionTaken:
    return ActionTaken("shop/fast", "n1", f"shop/cart-{number}", "cap", "capped", 1.0)


def story(service: str, at_s: float) -> StoryReport:
    return StoryReport("n1", at_s, ServiceStory(service, "n1", 0, True, (), (), ()))


class Traces:
    """A trace process that answers each delivery with the next of `statuses`, 200 after them, once `open` is set.
    Subscriptions get `lines` and stay.
    """

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.came: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.asked: list[list[list[str]]] = []
        self.lines: list[bytes] = []
        self.open = asyncio.Event()
        self.open.set()
        self.waits: list[float] = []

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.came.append((request.path, json.loads(await request.read())))
        self.headers.append(dict(request.headers))
        await self.open.wait()
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)

    async def signals(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(json.loads(await request.read())["pods"])
        answer = web.StreamResponse()
        await answer.prepare(request)
        for line in self.lines:
            await answer.write(line)
        await asyncio.Event().wait()
        return answer

    async def slept(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0.001)


@asynccontextmanager
async def linked(
    traces: Traces, token: Path | None = None, pods: Callable[[], list[tuple[str, str]]] = list
) -> AsyncIterator[tuple[TraceLink, list[SignalLine], Callable[[], None]]]:
    """The link, the lines that came, and what lets it run."""
    app = web.Application()
    app.add_routes([web.post(SIGNALS, traces.signals), web.post(ACTIONS, traces.take), web.post(STORIES, traces.take)])
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    link = TraceLink(f"http://127.0.0.1:{runner.addresses[0][1]}/", "n1", token, sleep=traces.slept)
    lines: list[SignalLine] = []
    running: list[asyncio.Task[None]] = []
    try:
        yield link, lines, lambda: running.append(asyncio.create_task(link.run(pods, lines.append)))
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await link.close()
        await runner.cleanup()


def played(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_the_oldest_are_left_out_where_too_many_wait_and_the_rest_is_sent_in_order() -> None:
    async def scenario() -> None:
        traces = Traces()
        async with linked(traces) as (link, _, run):
            for number in range(MAX_WAITING + 2):
                link.acted(action(number))
            assert link.actions == {"delivered": 0, "refused": 0, "dropped": 2}
            run()
            await soon("all arrived", lambda: link.actions["delivered"] == MAX_WAITING)
            assert [body["pod"] for _, body in traces.came] == [
                f"shop/cart-{number}" for number in range(2, MAX_WAITING + 2)
            ]
            assert {path for path, _ in traces.came} == {ACTIONS}

    played(scenario)


def test_a_story_takes_the_place_of_an_earlier_one_of_its_service() -> None:
    async def scenario() -> None:
        traces = Traces()
        async with linked(traces) as (link, _, run):
            for number in range(MAX_WAITING - 2):
                link.acted(action(number))
            for service, at_s in (("shop/cart", 1.0), ("shop/pay", 2.0), ("shop/cart", 3.0)):
                link.report_story(story(service, at_s))
            assert link.actions["dropped"] == 0
            run()
            await soon("all arrived", lambda: link.actions["delivered"] == MAX_WAITING)
            told = [(path, body["atS"], body["story"]["service"]) for path, body in traces.came[-2:]]
            assert told == [(STORIES, 3.0, "shop/cart"), (STORIES, 2.0, "shop/pay")]

    played(scenario)


def test_a_story_that_changed_while_it_was_sent_is_sent_again() -> None:
    async def scenario() -> None:
        traces = Traces()
        traces.open.clear()
        async with linked(traces) as (link, _, run):
            link.report_story(story("shop/cart", 1.0))
            run()
            await soon("it is on its way", lambda: bool(traces.came))
            link.report_story(story("shop/cart", 2.0))
            traces.open.set()
            await soon("both arrived", lambda: link.actions["delivered"] == 2)
            assert [body["atS"] for _, body in traces.came] == [1.0, 2.0]
            link.acted(action(7))
            await soon("the next one arrived", lambda: link.actions["delivered"] == 3)
            assert len(traces.came) == 3

    played(scenario)


def test_what_was_not_taken_is_sent_again_and_what_was_refused_is_not(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")

    async def scenario() -> None:
        traces = Traces(500, 503, 408, 429, 200, 400, 299, 300)
        async with linked(traces, tmp_path / "token") as (link, _, run):
            for number in range(4):
                link.acted(action(number))
            run()
            await soon("all were answered", lambda: sum(link.actions.values()) == 4)
            assert link.actions == {"delivered": 2, "refused": 2, "dropped": 0}
            assert traces.waits == [RETRY_S] * 4
            assert [body["pod"][-1] for _, body in traces.came] == ["0"] * 5 + ["1", "2", "3"]
            assert {found["Authorization"] for found in traces.headers} == {"Bearer 0123456789abcdef"}
            assert {found["Content-Type"] for found in traces.headers} == {"application/json"}

    played(scenario)


def test_a_token_that_cannot_be_read_yet_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        traces = Traces()
        async with linked(traces, tmp_path / "token") as (link, _, run):
            link.acted(action(0))
            run()
            await soon("it was tried", lambda: len(traces.waits) >= 2)
            (tmp_path / "token").write_text("late-0123456789abcdef")
            await soon("it arrived", lambda: link.actions["delivered"] == 1)
            assert traces.headers[0]["Authorization"] == "Bearer late-0123456789abcdef"

    played(scenario)


def test_other_pods_are_asked_for_anew_and_none_are_not_asked_for() -> None:
    pods: list[tuple[str, str]] = []

    async def scenario() -> None:
        traces = Traces()
        traces.lines = [encode_line(SignalLine((), ())), b"\n"]
        async with linked(traces, pods=lambda: list(pods)) as (link, lines, run):
            run()
            await soon("it waits for pods", lambda: link.problem == "no pods to ask for")
            assert (link.connections, traces.asked) == (0, [])
            pods.append(("shop/cart-1", "u1"))
            link.pods_changed()
            await soon("a line came", lambda: len(lines) == 1)
            assert (link.connected, link.problem, link.connections) == (True, "", 1)
            assert (link.lines, link.signals, link.failures) == (1, 0, 0)
            pods.extend((f"shop/cart-{number}", "") for number in range(2, MAX_PODS + 5))
            link.pods_changed()
            await soon("another line came", lambda: len(lines) == 2)
            assert traces.asked[0] == [["shop/cart-1", "u1"]]
            assert len(traces.asked[1]) == MAX_PODS
            assert (link.connections, link.failures) == (2, 0)
            pods.clear()
            link.pods_changed()
            await soon("it waits for pods", lambda: link.problem == "no pods to ask for")
            assert not link.connected

    played(scenario)


def test_a_source_that_refuses_is_named_with_its_words_and_tried_with_growing_pauses() -> None:
    async def scenario() -> None:
        traces = Traces()

        async def refused(request: web.Request) -> web.StreamResponse:
            return web.Response(status=403, text="not\n this   token" + "x" * 500)

        traces.signals = refused  # type: ignore[method-assign]
        async with linked(traces, pods=lambda: [("shop/cart-1", "")]) as (link, _, run):
            run()
            await soon("it was tried", lambda: len(traces.waits) >= 3)
            assert link.problem.startswith(f"{link.url}: 403 not this token")
            assert len(link.problem) < len(link.url) + 220
            assert traces.waits[:3] == [0.5, 1.0, 2.0]
            assert not link.connected

    played(scenario)
