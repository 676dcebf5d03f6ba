"""When a period is booked, when it is tried again, and which standings are written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from tests.fakes.virtual_time import run_virtually

from cotenant.model.errors import Transient
from cotenant.services.credit.credit_process import RETRY_S, SAMPLE_S, CreditOptions, CreditProcess

PERIOD_S = 60.0
START_S = 6_000.0  # a period begins


class Booking:
    """What is booked, by period; `faults`: what the next attempts raise."""

    def __init__(self) -> None:
        self.booked: list[tuple[int, float]] = []
        self.faults: list[Exception] = []
        self.failures = self.outdated = self.refreshed = 0
        self.standings = {"a": "good", "b": "poor"}
        self.accounts = SimpleNamespace(
            period_ended=lambda *ended: ended, standing_of=lambda tenant: self.standings[tenant]
        )

    def outdate(self) -> None:
        self.outdated += 1

    async def refresh(self) -> None:
        self.refreshed += 1
        if self.faults:
            raise self.faults.pop(0)

    async def book(self, post: Callable[[Any], Any]) -> Any:
        if self.faults:
            raise self.faults.pop(0)
        period, at_ms, lasted_ms, uses = post(self.accounts)
        assert (lasted_ms, uses) == (1234, {"a": 1})
        self.booked.append((period, at_ms / 1000 - START_S))
        return None


class Process:
    """A replica whose clock is the loop's; its parts are given."""

    def __init__(self, **options: Any) -> None:
        self.booking, self.puts, self.resets = Booking(), list[Any](), list[str]()
        self.leads = True
        self.process = found = cast(Any, object.__new__(CreditProcess))
        found._options = CreditOptions(period_s=PERIOD_S, **options)
        found.booking = self.booking
        found.kube = self
        found._observed = SimpleNamespace(
            forget=lambda: self.resets.append("forget"),
            sample=lambda uses, at_ms: None,
            means=lambda: {"a": 1},
            observed_ms=1234,
            reset=lambda: self.resets.append("reset"),
        )
        quotas = {
            "a": SimpleNamespace(key="ns/a", uid="ua", standing="good"),
            "b": SimpleNamespace(key="ns/b", uid="ub", standing="good"),
        }
        found.facts = SimpleNamespace(uses=tuple, quotas=lambda: quotas)
        found.writer = SimpleNamespace(put=lambda key, write: self.puts.append((key, write)))
        found._wall = lambda: START_S + self.now()

    def turn(self) -> None:
        pass

    def now(self) -> float:
        return asyncio.get_running_loop().time() - self.began_s

    def play(self, seconds: float, scene: Callable[[], Awaitable[None]] | None = None, work: str = "_work") -> None:
        async def run() -> None:
            self.began_s = asyncio.get_running_loop().time()
            working = asyncio.create_task(getattr(self.process, work)())
            if scene is not None:
                await scene()
            await asyncio.sleep(seconds)
            working.cancel()

        run_virtually(run())


def test_a_period_is_booked_once_when_it_has_ended() -> None:
    found = Process()
    found.play(3 * PERIOD_S + SAMPLE_S / 2)
    assert found.booking.booked == [(100, 60.0), (101, 120.0), (102, 180.0)]
    assert found.resets == ["forget", "reset", "reset", "reset"]
    assert found.booking.outdated == 1


def test_one_that_could_not_be_booked_is_tried_again_after_a_rest() -> None:
    found = Process(sample_s=1.0)
    found.booking.faults = [Transient("busy"), Transient("busy")]
    found.play(PERIOD_S + 3 * RETRY_S)
    assert found.booking.booked == [(100, PERIOD_S + 2 * RETRY_S)]
    assert found.resets == ["forget", "reset"]


def test_a_replica_that_does_not_lead_books_and_writes_nothing() -> None:
    found = Process()
    found.leads = False
    found.play(2 * PERIOD_S)
    assert (found.booking.booked, found.puts) == ([], [])


def test_standings_that_differ_are_written_to_the_quota_that_was_read() -> None:
    found = Process()
    found.play(SAMPLE_S / 2)
    ((key, write),) = found.puts
    assert (key, write.key, write.uid, write.standing) == ("ns/b", "ns/b", "ub", "poor")
    silent = Process(writes_standing=False)
    silent.play(SAMPLE_S / 2)
    assert silent.puts == []


def test_who_does_not_lead_reads_what_was_booked_and_counts_what_it_could_not_read() -> None:
    found = Process()
    found.leads = False
    found.booking.faults = [Transient("away")]
    found.play(2.5 * RETRY_S, work="_follow")
    assert (found.booking.refreshed, found.booking.failures) == (3, 1)
    leading = Process()
    leading.play(2.5 * RETRY_S, work="_follow")
    assert leading.booking.refreshed == 0
