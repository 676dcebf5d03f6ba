"""The task that gives back what expires ends when it is told to, also in the moment of news."""

from __future__ import annotations

import asyncio

from tests.fakes.fake_knobs import FakeKnobs

from cotenant.model.machine.knob import Knob, Scope, SetKnob, Target
from cotenant.model.machine.node_decision import Reason
from cotenant.services.keeper.allowed import Rules
from cotenant.services.keeper.carrying import Carrier, Clock
from cotenant.services.keeper.dry import NoMemory
from cotenant.services.keeper.here import KeptHere


class _NoTrail:
    def write(self, changes: object) -> None:
        pass


def test_a_cancellation_together_with_news_is_heard() -> None:
    async def run() -> bool:
        knobs = FakeKnobs(["a", "a/b"])
        clock = Clock(lambda: 1_000_000, lambda: 1.7e9)
        kept = KeptHere(Carrier({Scope.CGROUP: knobs}, NoMemory(), _NoTrail(), clock, Rules(("a",))))
        running = asyncio.create_task(kept.run())
        wish = SetKnob(Target("a/b", Knob.CPU_IDLE), "1", Reason("r", "test"))
        await kept.hold([wish])
        for _ in range(4):
            await kept.leases()  # rounds are in one thread's order: by now `run` has had its own, and rests
        await kept.hold([wish])  # news
        running.cancel()  # before anybody heard them
        done, _ = await asyncio.wait([running], timeout=2.0)
        ended = bool(done)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await kept.stop()
        return ended

    assert asyncio.run(run())
