"""From spans to the agent: the stream of signals, actions that come back, statuses, and counts over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.fakes.servers.spans import EPOCH_S, Given, batch_of
from tests.fakes.waiting import soon

from cotenant.drivers.http.address import Address
from cotenant.drivers.http.server import HttpServer
from cotenant.drivers.otlp.resources import span_tags
from cotenant.engine.traces.trace_engine import TraceEngine
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.model.traces.objective import ServiceObjective
from cotenant.model.traces.spans import SpanKind
from cotenant.services.agent.trace_link import TraceLink
from cotenant.services.reporting.signals import (
    ActionTaken,
    SignalLine,
    SignalSubscription,
    SubscribedPod,
    WireSignal,
    decode_line,
    encode_line,
    from_signal,
    to_signal,
)
from cotenant.services.traces.app import TracesApp
from cotenant.services.traces.metrics import TraceMetrics
from cotenant.services.traces.objective_board import status_of
from cotenant.services.traces.saved_counts import CountsFile

CART = ServiceObjective("shop/cart-latency", "shop", "cart", threshold_us=80_000, max_action=MaxAction.IDLE)
ACTION = ActionTaken("shop/cart-latency", "n1", "shop/cart-1", "cap", "cpu.max of /be: it burns", float(EPOCH_S))


@dataclass
class World:
    """A trace process without its loop, in this event loop."""

    now_s: float = float(EPOCH_S + 10)
    engine: TraceEngine = field(init=False)
    app: TracesApp = field(init=False)

    def __post_init__(self) -> None:
        self.engine = TraceEngine(self.now_s, span_tags)
        self.app = TracesApp(self.engine, TraceMetrics(self.engine), lambda: self.now_s)

    def requests(self, *ms: float, pod: str = "cart-1", host: str = "n1") -> None:
        spans = [
            Given(n + 1, 0, "GET", SpanKind.SERVER, 0, value, "cart", "shop", host, pod=pod, trace=n + 1)
            for n, value in enumerate(ms)
        ]
        self.engine.add(batch_of(*spans), self.now_s)


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[str]:
    server = HttpServer(world.app, Address.parse("--http", "127.0.0.1:0"))
    await server.start()
    try:
        yield server.url
    finally:
        world.app.streams.close()
        await server.stop()


async def until(holds: Callable[[], bool]) -> None:
    await soon("it holds", holds)


async def with_link(world: World, scenario: Callable[[TraceLink, list[SignalLine]], Awaitable[None]]) -> None:
    lines: list[SignalLine] = []
    async with serving(world) as url:
        link = TraceLink(url, "n1")
        running = asyncio.create_task(link.run(lambda: [("shop/cart-1", "u1")], lines.append))
        await until(lambda: len(world.app.streams) == 1)
        try:
            await scenario(link, lines)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await link.close()
    assert len(world.app.streams) == 0


def test_a_replicas_figures_reach_its_agent_in_one_line() -> None:
    world = World()
    world.engine.objectives.set(CART, world.now_s)

    async def scenario(link: TraceLink, lines: list[SignalLine]) -> None:
        world.requests(10, 20, 100)
        world.requests(500, pod="cart-2", host="n2")
        world.app.streams.publish()
        await until(lambda: bool(lines))
        (signal,) = lines[0].signals
        found = to_signal(signal)
        assert (found.pod, found.pod_uid, found.objective) == ("shop/cart-1", "u1", CART.key)
        assert (found.requests, found.bad, found.threshold_us, found.max_action) == (3, 1, 80_000, MaxAction.IDLE)
        assert found.p99_us == pytest.approx(100_000, rel=0.011)
        assert link.connected

    asyncio.run(with_link(world, scenario))


def test_own_time_leaves_out_calls_and_is_unknown_without_them() -> None:
    world = World()
    world.engine.objectives.set(CART, world.now_s)

    async def scenario(link: TraceLink, lines: list[SignalLine]) -> None:
        world.requests(100)
        world.app.streams.publish()
        await until(lambda: bool(lines))
        assert to_signal(lines[0].signals[0]).self_p99_us is None
        call = Given(8, 9, "POST", SpanKind.CLIENT, 10, 90, "cart", "shop", "n1", pod="cart-1", trace=99)
        served = Given(9, 0, "GET", SpanKind.SERVER, 0, 100, "cart", "shop", "n1", pod="cart-1", trace=99)
        world.now_s += 0.5
        world.engine.add(batch_of(served, call), world.now_s)
        world.app.streams.publish()
        await until(lambda: len(lines) > 1)
        assert to_signal(lines[1].signals[0]).self_p99_us == pytest.approx(100_000, rel=0.011)  # of the first request
        world.now_s += 9
        world.engine.add(batch_of(replace(call, trace=98), replace(served, trace=98)), world.now_s)
        world.app.streams.publish()
        await until(lambda: len(lines) > 2)
        assert to_signal(lines[2].signals[0]).self_p99_us == pytest.approx(20_000, rel=0.011)

    asyncio.run(with_link(world, scenario))


def test_idle_replicas_are_sent_once_a_second_and_withdrawn_with_their_objective() -> None:
    world = World()
    world.engine.objectives.set(CART, world.now_s)

    async def scenario(link: TraceLink, lines: list[SignalLine]) -> None:
        world.requests(10)
        for _ in range(4):
            world.app.streams.publish()
            world.now_s += 0.3
        await until(lambda: len(lines) == 1)
        world.app.streams.publish()
        await until(lambda: len(lines) == 2)
        assert len(lines[1].signals) == 1
        world.app.board.forget(CART.key)
        world.app.streams.publish()
        await until(lambda: len(lines) == 3)
        assert lines[2].withdrawn == (("shop/cart-1", CART.key),)

    asyncio.run(with_link(world, scenario))


def test_actions_come_back_and_show_in_the_status() -> None:
    world = World()
    world.engine.objectives.set(CART, world.now_s)

    async def scenario(link: TraceLink, lines: list[SignalLine]) -> None:
        link.acted(ACTION)
        link.acted(replace_action("shop/gone"))
        await until(lambda: link.actions["delivered"] == 1 and link.actions["refused"] == 1)

    asyncio.run(with_link(world, scenario))
    tracked = world.engine.objectives.get(CART.key)
    assert tracked is not None
    status = status_of(world.app.board.view(tracked), CART)
    assert status["lastAction"]["action"] == "cap"  # type: ignore[index]
    assert status["state"] == "noData"


def replace_action(objective: str) -> ActionTaken:
    return ActionTaken(objective, "n1", "p", "cap", "", 0.0)


def test_an_agent_survives_a_source_that_is_away_or_silent() -> None:
    waits: list[float] = []

    async def slept(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    async def scenario() -> None:
        link = TraceLink("http://127.0.0.1:1", "n1", sleep=slept)
        running = asyncio.create_task(link.run(lambda: [("shop/cart-1", "")], lambda line: None))
        await until(lambda: len(waits) >= 3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await link.close()
        assert waits[:3] == [0.5, 1.0, 2.0]
        assert not link.connected

        world = World()
        async with serving(world) as url:  # nothing publishes: the stream stays silent
            silent = TraceLink(url, "n1", silent_s=0.05, sleep=slept)
            running = asyncio.create_task(silent.run(lambda: [("shop/cart-1", "")], lambda line: None))
            await until(lambda: silent.failures >= 2)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await silent.close()
            await until(lambda: len(world.app.streams) == 0)

    asyncio.run(scenario())


def test_lines_are_read_as_they_were_written_and_others_refused() -> None:
    wire = WireSignal("o", "s", "p", "", None, 1000, MaxAction.EVICT, True, 9_000_000, 5, 1, 2, 3)
    line = SignalLine((wire,), (("p", "o"),))
    assert decode_line(encode_line(line)) == line
    assert from_signal(to_signal(wire)) == wire
    for wrong in (b"", b"[]", b'{"signals":[{}]}', b"\xff", b'{"signals":' + b"[" * 10_000):
        with pytest.raises(InvalidInput):
            decode_line(wrong)


def test_subscriptions_match_by_uid_then_name_then_host() -> None:
    world = World()
    world.engine.objectives.set(CART, world.now_s)
    world.requests(10)
    stream = world.app.streams._subscribe(SignalSubscription("n1", (SubscribedPod("other/cart-1", "u9"),)))
    world.app.streams.publish()
    assert b'"pod":"other/cart-1","podUid":"u9"' in stream.line
    elsewhere = world.app.streams._subscribe(SignalSubscription("n2", (SubscribedPod("other/cart-1", "u9"),)))
    world.app.streams.publish()
    assert b"cart-1" not in elsewhere.line


def test_counts_survive_a_restart(tmp_path: Path) -> None:
    world, file = World(), tmp_path / "counts"
    world.engine.objectives.set(CART, world.now_s)
    world.requests(10, 100)
    CountsFile(file).save(world.engine.objectives, world.engine.seen.saved())
    after = World(now_s=world.now_s + 60)
    saved = CountsFile(file)
    for objective, expected in ((CART, (2, 1)), (replace(CART, key="shop/other"), (0, 0))):
        after.engine.objectives.set(objective, after.now_s)
        tracked = after.engine.objectives.get(objective.key)
        assert tracked is not None
        saved.restore(tracked)
        standing = after.engine.objectives.standing(tracked, after.now_s)
        assert (standing.requests, standing.bad) == expected
    after.engine.seen.restore(saved.seen)
    after.requests(10, 100)  # its exporter did not hear the answer
    assert after.engine.counts.repeated == 2
    changed = replace(CART, threshold_us=1)
    after.engine.objectives.set(changed, after.now_s)
    tracked = after.engine.objectives.get(CART.key)
    assert tracked is not None
    CountsFile(file).restore(tracked)
    assert tracked.requests == 0


@pytest.mark.parametrize("content", [b"", b"\x00", b"not msgpack", b"\x82" * 100])
def test_a_damaged_file_of_counts_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "counts"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match="saved counts"):
        CountsFile(file)
