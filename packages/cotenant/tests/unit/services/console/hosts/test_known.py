"""A fleet is asked only while somebody looks, and viewers are told of each new list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.fakes.processes.fake_fleet import FakeFleet, host
from tests.fakes.waiting import soon

from cotenant.model.errors import Transient
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.hosts import known
from cotenant.services.console.hosts.known import WANTED_S, KnownFleet
from cotenant.services.console.live import Live
from cotenant.services.console.sources import ConsoleSources


def running(scene: Callable[[FakeFleet, KnownFleet, list[float], list[int]], object]) -> None:
    async def play() -> None:
        now_s, versions, fleet = [100.0], list[int](), FakeFleet(hosts=(host(1),))
        kept = KnownFleet(fleet, ConsoleSources(lambda: now_s[0]), lambda: now_s[0], versions.append, period_s=0.001)
        task = asyncio.create_task(kept.run())
        await scene(fleet, kept, now_s, versions)  # type: ignore[misc]
        task.cancel()

    asyncio.run(play())


def test_nobody_asks_while_nobody_looks() -> None:
    async def scene(fleet: FakeFleet, kept: KnownFleet, now_s: list[float], versions: list[int]) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        assert fleet.asked == []
        await kept.listing()
        await soon("it goes on listing", lambda: len(versions) >= 3)
        now_s[0] += WANTED_S + 1
        await soon("it stops", lambda: not kept.is_wanted)
        count = len(fleet.asked)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(fleet.asked) == count
        await kept.listing()
        await soon("it begins again", lambda: len(fleet.asked) > count)

    running(scene)


def test_a_failure_does_not_end_it() -> None:
    async def scene(fleet: FakeFleet, kept: KnownFleet, now_s: list[float], versions: list[int]) -> None:
        await kept.listing()
        fleet.error = Transient("away")
        count = len(fleet.asked)
        await soon("it tries", lambda: len(fleet.asked) > count + 1)
        fleet.error = None
        before = len(versions)
        await soon("it is back", lambda: len(versions) > before)

    running(scene)


def test_a_new_list_is_told_to_viewers_without_making_frames_anew() -> None:
    async def look() -> None:
        fleet = MeasuredFleet()
        live = Live(fleet, ConsoleSources(lambda: 5.0), lambda: 5.0)
        said: list[bytes] = []

        async def send(message: dict[str, object]) -> None:
            said.append(message.get("body", b""))  # type: ignore[arg-type]

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            return {}

        viewer = asyncio.create_task(live.stream(live.tag, receive, send, lambda: True))  # type: ignore[arg-type]
        await soon("the viewer is there", lambda: live.viewers == 1)
        live.hosts_changed(3)
        await soon("it is told", lambda: any(b"event: hosts\ndata: 3\n\n" in frame for frame in said))
        assert not any(b"event: change" in frame for frame in said)
        viewer.cancel()

    asyncio.run(look())


def test_periods_fit_each_other() -> None:
    assert known.PERIOD_S < known.STALE_S < known.WANTED_S
