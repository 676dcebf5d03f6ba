"""Live changes: one merged frame for a slow viewer, the same bytes for all at one position, a reload where nothing
else is right.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from cotenant.model.machine.node_metric import Use
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.live import Live, read_position
from cotenant.services.console.pod_rows import pod_row
from cotenant.services.console.sources import CLUSTER, ConsoleSources

from .test_fleet import GIB, node, pod


def world() -> tuple[MeasuredFleet, Live]:
    fleet, sources = MeasuredFleet(), ConsoleSources(lambda: 5.0)
    live = Live(fleet, sources, lambda: 5.0)
    sources.changed = live.wake
    for name in ("a", "b"):
        fleet.node_seen(node(name))
        fleet.pod_seen(pod_row(pod(f"p-{name}", name)))
    fleet.recompute()
    return fleet, live


def use(fleet: MeasuredFleet, live: Live, name: str, cpu_m: int) -> None:
    fleet.measured({name: Use(cpu_m, GIB)}, {})
    assert fleet.recompute()
    live.wake()


def test_viewers_at_one_position_get_the_same_bytes_and_others_what_they_lack() -> None:
    fleet, live = world()
    first = fleet.seq
    use(fleet, live, "a", 100)
    second = fleet.seq
    use(fleet, live, "b", 200)
    one = live.frame(fleet.epoch, first)
    assert one is live.frame(fleet.epoch, first)
    rows = json.loads(one.split(b"data: ")[1])["rows"]
    assert [row[0] for row in rows] == [0, 1]
    rows = json.loads(live.frame(fleet.epoch, second).split(b"data: ")[1])["rows"]
    assert [row[0] for row in rows] == [1]
    assert live.frame(fleet.epoch, fleet.seq) == b""
    assert f"id: {live.tag}\n".encode() in one


def test_another_set_of_nodes_is_a_reload() -> None:
    fleet, live = world()
    at = (fleet.epoch, fleet.seq)
    fleet.node_seen(node("c"))
    fleet.recompute()
    assert live.frame(*at).startswith(b"event: reload")
    assert live.frame(0, 0).startswith(b"event: reload")
    assert live.frame(fleet.epoch, fleet.seq + 1).startswith(b"event: reload")  # of another run of the process


def test_ids_of_browsers() -> None:
    assert read_position("3-14") == (3, 14)
    for wrong in ("", "3", "-", "a-b", "3-14-15", "²-3", "1" * 30 + "-1"):
        assert read_position(wrong) == (0, 0)


def test_a_viewer_that_does_not_read_gets_one_frame_with_everything_once_it_does() -> None:
    async def run() -> list[bytes]:
        fleet, live = world()
        sent: list[bytes] = []
        reading, gone = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))
            await reading.wait()

        stream = asyncio.create_task(live.stream(f"{fleet.epoch}-{fleet.seq}", receive, send, lambda: True))
        await asyncio.sleep(0)
        for k in range(1, 50):
            use(fleet, live, "a", 100 * k)
            await asyncio.sleep(0)
        reading.set()
        while not any(b"event: change" in part for part in sent):
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        gone.set()
        await stream
        assert live.viewers == 0
        return sent

    changes = [part for part in asyncio.run(run()) if b"event: change" in part]
    assert len(changes) == 1
    assert json.loads(changes[0].split(b"data: ")[-1])["rows"][0][3] == 4900


def test_a_viewer_is_told_of_the_sources_at_once_and_when_they_change() -> None:
    async def run() -> list[bytes]:
        fleet, sources = MeasuredFleet(), ConsoleSources(lambda: 5.0)
        live = Live(fleet, sources, lambda: 5.0)
        sources.changed = live.wake
        sources.ok(CLUSTER)
        sent: list[bytes] = []
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))

        stream = asyncio.create_task(live.stream(f"{fleet.epoch}-{fleet.seq}", receive, send, lambda: True))
        for k in range(60):
            if k == 20:
                sources.failed(CLUSTER, "no answer")
            if k == 40:
                sources.failed(CLUSTER, "no answer")  # nothing new
            await asyncio.sleep(0)
        gone.set()
        await stream
        return sent

    told = [json.loads(part.split(b"data: ")[1]) for part in asyncio.run(run()) if part.startswith(b"event: sources")]
    assert [entry["cluster"]["ok"] for entry in told] == [True, False]


def test_a_session_that_ends_closes_the_stream() -> None:
    async def run() -> list[Any]:
        fleet, live = world()
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return await asyncio.Future()

        async def send(message: Any) -> None:
            sent.append(message)

        await live.stream(f"{fleet.epoch}-{fleet.seq}", receive, send, lambda: False)
        return sent

    assert asyncio.run(run())[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


def test_a_source_that_fails_is_said_once_with_the_time_of_the_first_failure() -> None:
    now = [10.0]
    said: list[int] = []
    sources = ConsoleSources(lambda: now[0])
    sources.changed = lambda: said.append(sources.version)
    sources.ok(CLUSTER)
    now[0] = 20.0
    sources.failed(CLUSTER, "no answer", 3.0)
    sources.failed(CLUSTER, "no answer", 4.0)
    assert sources.view() == {"cluster": {"ok": False, "since": 17.0, "why": "no answer"}}
    sources.ok(CLUSTER)
    assert said == [1, 2, 3]
