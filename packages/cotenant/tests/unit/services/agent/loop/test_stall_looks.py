"""Looks at what groups wait for: each hands on the conditions, and what the kernel refuses is asked for again."""

from __future__ import annotations

import asyncio

import pytest

from cotenant.engine.node.problems import NodeProblem
from cotenant.model.errors import Transient
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallReading
from cotenant.services.agent.loop.stall_looks import LOOK_S, StallLooks
from cotenant.services.nodeview.stalls import StallWatch


class Probe:
    """Fails at the second look."""

    def __init__(self) -> None:
        self.looks = 0

    def read(self) -> StallReading:
        self.looks += 1
        if self.looks == 2:
            raise Transient("busy")
        return StallReading(self.looks * 5_000_000, (GroupStalls("db", runnable=1),))

    def long_waits(self) -> list[LongWait]:
        return []


def test_a_look_that_fails_does_not_end_them() -> None:
    probe, told, slept = Probe(), list[tuple[NodeProblem, ...]](), list[float]()

    async def take(problems: tuple[NodeProblem, ...]) -> None:
        told.append(problems)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise asyncio.CancelledError

    watch = StallWatch(probe, cpus=1)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(StallLooks(watch, take, sleep).run())
    assert slept == [LOOK_S] * 4
    assert [len(problems) for problems in told] == [3, 3, 3]
    assert watch.last().loads["db"].runnable[0] > 0
    assert probe.looks == 4
