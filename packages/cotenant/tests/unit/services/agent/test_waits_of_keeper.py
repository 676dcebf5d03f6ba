"""What the agent makes of a keeper that says who ran while services waited."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from cotenant.model.errors import CotenantError, Transient, Unsupported
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.run_queue import BLAME, Blame, RunQueueReading
from cotenant.services.agent.waits_of_keeper import AGAIN_S, WaitsOfKeeper

READING = RunQueueReading(7, (), (Blame("web", "be/hog", 70),))


class Schedstat:
    def read(self, groups: Sequence[str], now_us: int) -> Mapping[str, int]:
        return dict.fromkeys(groups, now_us)

    def gaps(self) -> tuple[Gap, ...]:
        return (Gap("something else", "x"), Gap(BLAME, "root"))


class Asked:
    def __init__(self, *answers: RunQueueReading | CotenantError) -> None:
        self.answers = list(answers)
        self.groups: list[tuple[str, ...]] = []
        self.now_s = 0.0
        self.waits = WaitsOfKeeper(Schedstat(), self.ask, lambda: self.now_s)
        self.waits.watch(("web",), ("be",))

    async def ask(self, groups: Sequence[str]) -> RunQueueReading:
        self.groups.append(tuple(groups))
        answer = self.answers.pop(0)
        if isinstance(answer, CotenantError):
            raise answer
        return answer

    def refresh(self) -> RunQueueReading | None:
        asyncio.run(self.waits.refresh())
        return self.waits.reading


def test_a_sample_has_the_reading_that_was_asked_for_just_before_it_and_the_delays_of_the_other_source() -> None:
    keeper = Asked(READING)
    assert keeper.waits.gaps() == (Gap("something else", "x"), Gap(BLAME, "not asked yet"))
    assert keeper.refresh() == READING
    assert keeper.groups == [("web",)]
    assert keeper.waits.read(("web", "be"), 3) == {"web": 3, "be": 3}
    assert keeper.waits.gaps() == (Gap("something else", "x"),)


def test_one_that_is_away_costs_that_sample_only() -> None:
    keeper = Asked(READING, Transient("gone"), READING)
    assert [keeper.refresh() for _ in range(3)] == [READING, None, READING]


def test_one_that_cannot_measure_is_asked_again_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Asked(Unsupported("x", "a kernel with BTF"), READING)
    with caplog.at_level("INFO"):
        assert [keeper.refresh() for _ in range(5)] == [None] * 5
    assert len(keeper.groups) == 1
    assert [record.getMessage() for record in caplog.records] == [
        "who ran while services waited is not known: a kernel with BTF"
    ]
    assert keeper.waits.gaps()[-1] == Gap(BLAME, "a kernel with BTF")
    keeper.now_s = AGAIN_S
    assert keeper.refresh() == READING


def test_without_services_nobody_is_asked() -> None:
    keeper = Asked()
    keeper.waits.watch((), ("be",))
    assert keeper.refresh() is None
    assert keeper.groups == []
