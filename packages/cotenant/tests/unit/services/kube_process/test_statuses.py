"""The writer of statuses: the newest of each object, and what becomes of refusals."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound, Throttled, Unavailable
from cotenant.services.kube_process.statuses import StatusWriter


@dataclass(frozen=True)
class Level:
    """A status."""

    value: int


class Server:
    """Takes statuses, after the failures that are set; records what it was asked to write, and for how long the
    writer slept.
    """

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked: list[int] = []
        self.slept: list[float] = []
        self.leading = True

    async def write(self, client: Client, level: Level) -> None:
        self.asked.append(level.value)
        if self.failures:
            raise self.failures.pop(0)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def writer(self, per_s: float = 1000.0, now_s: float = 0.0) -> StatusWriter:
        return StatusWriter(
            None,  # type: ignore[arg-type]  # the fake write needs no client
            {Level: self.write},
            per_s=per_s,
            may_write=lambda: self.leading,
            monotonic=lambda: now_s,
            sleep=self.sleep,
        )


def written(writer: StatusWriter) -> bool:
    """Run the writer until it is idle."""

    async def scenario() -> bool:
        running = asyncio.create_task(writer.run())
        idle = await writer.flush(5.0)
        running.cancel()
        return idle

    return asyncio.run(scenario())


def test_only_the_newest_status_of_an_object_is_written() -> None:
    server = Server()
    writer = server.writer()
    writer.put("a", Level(1))
    writer.put("b", Level(2))
    writer.put("a", Level(3))
    assert writer.waiting() == 2
    assert written(writer)
    assert server.asked == [3, 2]
    assert writer.written == 2


def test_what_comes_up_in_a_pause_is_written_after_it() -> None:
    server, pauses = Server(), [True, True, False]
    writer = StatusWriter(
        None,  # type: ignore[arg-type]  # the fake write needs no client
        {Level: server.write},
        per_s=1000.0,
        must_wait=lambda: pauses.pop(0),
        monotonic=lambda: 0.0,
        sleep=server.sleep,
    )
    writer.put("a", Level(1))
    assert written(writer)
    assert server.asked == [1]
    assert len(server.slept) == 2


def test_what_was_discarded_is_not_written() -> None:
    server = Server()
    writer = server.writer()
    writer.put("a", Level(1))
    writer.put("b", Level(2))
    writer.discard("a")
    writer.discard("c")
    assert written(writer)
    assert server.asked == [2]


@pytest.mark.parametrize(
    ("failure", "asked", "slept", "refused"),
    [
        (NotFound("gone", 404), [1], [], 0),
        (Conflict("another UID", 409), [1], [], 0),
        (Forbidden("no right", 403), [1], [], 1),
        (Throttled("later", 2.0), [1, 1], [2.0], 0),
        (Throttled("much later", 60.0), [1, 1], [5.0], 0),
        (Unavailable("cut", 0.0), [1, 1], [0.5], 0),
    ],
)
def test_a_refusal_is_final_or_tried_again_after_a_pause(
    failure: Exception, asked: list[int], slept: list[float], refused: int
) -> None:
    server = Server(failure)
    writer = server.writer()
    writer.put("a", Level(1))
    assert written(writer)
    assert (server.asked, server.slept, writer.refused) == (asked, slept, refused)
    assert writer.written == len(asked) - 1


def test_a_newer_status_replaces_one_that_is_to_be_tried_again() -> None:
    server = Server()
    writer = server.writer()

    async def newer(client: Client, level: Level) -> None:
        server.asked.append(level.value)
        if level.value == 1:
            writer.put("a", Level(2))
            raise Throttled("later", 1.0)

    writer._writers = {Level: newer}
    writer.put("a", Level(1))
    assert written(writer)
    assert server.asked == [1, 2]


def test_a_replica_that_does_not_lead_drops_what_comes_up_for_writing() -> None:
    server = Server()
    writer = server.writer()
    server.leading = False
    writer.put("a", Level(1))
    assert written(writer)
    assert (server.asked, writer.waiting()) == ([], 0)


def test_the_rate_is_kept() -> None:
    server = Server()
    writer = server.writer(per_s=2.0)
    for i in range(4):
        writer.put(i, Level(i))
    assert written(writer)
    assert server.slept == [0.5, 1.0]  # two at once, then by the rate of a clock that stands still


def test_a_flush_is_bounded() -> None:
    async def scenario() -> None:
        async def never(client: Client, level: Level) -> None:
            await asyncio.Event().wait()

        writer = Server().writer()
        writer._writers = {Level: never}
        writer.put("a", Level(1))
        running = asyncio.create_task(writer.run())
        assert not await writer.flush(0.01)
        running.cancel()

    asyncio.run(scenario())
