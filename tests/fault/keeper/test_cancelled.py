"""The expiry task ends when cancelled, also at the moment of a change."""

from __future__ import annotations

import asyncio

from tests.fakes.node.fake_knobs import FakeKnobs
from tests.fakes.waiting import patience

from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.local_keeper import LocalKeeper
from cotenant.services.knobs.rules import KnobRules


class _NoTrail:
    def write(self, changes: object) -> None:
        pass


def test_a_cancellation_together_with_a_change_is_not_lost() -> None:
    async def run() -> bool:
        knobs = FakeKnobs(["a", "a/b"])
        clock = Clock(lambda: 1_000_000, lambda: 1.7e9)
        kept = LocalKeeper(
            LeaseExecutor({KnobScope.CGROUP: knobs}, NoStateFile(), _NoTrail(), clock, KnobRules(("a",)))
        )
        running = asyncio.create_task(kept.run())
        wanted = SetKnob(KnobTarget("a/b", Knob.CPU_IDLE), "1", Reason("r", "test"))
        await kept.hold([wanted])
        for _ in range(4):
            await kept.leases()  # rounds are serialized in one thread: by now `run` has had its own, and sleeps
        await kept.hold([wanted])  # a change
        running.cancel()  # before the change is processed
        done, _ = await asyncio.wait([running], timeout=patience(2.0))
        ended = bool(done)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await kept.stop()
        return ended

    assert asyncio.run(run())
