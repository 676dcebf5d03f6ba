"""The loop: read the node, run the engine, execute its instructions, and repeat one period later.

This loop holds a machine's knobs, and no error inside a tick may end it or make it late for ever. One tick is sample,
decision, leases; a failed tick is counted and logged once, and the next one starts afresh. Leases that are not renewed
for that reason expire at the keeper, so a loop that fails for good releases everything. Reading is done in this thread,
where it is cheapest, and in a separate thread once it was slow, so that requests and triggers are served meanwhile.
Limits: the kernel may block a reader of cgroup files for as long as it likes; that shows as missed ticks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.interfaces import KnobPort, Sensor
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import LogicalCpu, NodeSample
from cotenant.model.machine.knob import KnobTarget
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.pace import Pace

SLOW_S = 0.05  # after a sample that took longer, the next is taken outside the event loop
FAILING = 5  # consecutive failed ticks after which the agent is not ready
_log = logging.getLogger(__name__)

Observe = Callable[[str, float], None]  # part of a tick, seconds


class Ticker:
    """The loop of one node. The counts are for metrics."""

    def __init__(
        self,
        agent: Agent,
        actor: Actor,
        sensor: Sensor,
        knobs: KnobPort,
        *,
        monotonic: Callable[[], float],
        observe: Observe = lambda part, seconds: None,
        sampled: Callable[[NodeSample], None] = lambda sample: None,
        cpus: Sequence[LogicalCpu] = (),
        before_sample: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.agent = agent
        self.actor = actor
        self.sensor = sensor
        self.knobs = knobs
        self.ticks = 0
        self.failures = 0
        self.failing = 0  # in a row
        self.missed = 0
        self.unread_knobs = 0
        self.succeeded_s = monotonic()  # when the last tick succeeded
        self.last: NodeSample | None = None
        self._monotonic = monotonic
        self._observe = observe
        self._sampled = sampled
        self._cpus = tuple(cpus)
        self._before_sample = before_sample
        self._is_slow = False
        self._began_s = float("-inf")
        self._lock = asyncio.Lock()
        self._logged: set[tuple[str, str]] = set()  # policies that failed, with the line

    async def run(self, period_s: Callable[[], float], stop: asyncio.Event) -> None:
        """Tick until `stop`. The period may change."""
        pace = Pace(period_s(), self._monotonic())
        while not stop.is_set():
            await self.try_tick()
            if pace.period_s != period_s():
                pace = Pace(period_s(), self._monotonic())
            wait_s = pace.wait_s(self._monotonic())
            self.missed += pace.missed
            pace.missed = 0
            try:
                async with asyncio.timeout(wait_s):
                    await stop.wait()
            except TimeoutError:
                pass

    def age_s(self) -> float:
        """Seconds since the last sample was started."""
        return self._monotonic() - self._began_s

    async def try_tick(self) -> bool:
        """Tick; False, counted, where it failed. A call during another tick waits for its end."""
        async with self._lock:
            return await self._try_tick()

    async def _try_tick(self) -> bool:
        self.ticks += 1
        try:
            await self.tick()
        except Exception as error:
            self.failures += 1
            self.failing += 1
            if self.failing == 1:
                expected = isinstance(error, CotenantError | OSError)
                _log.error("a tick failed: %s", error, exc_info=None if expected else error)
            return False
        if self.failing:
            _log.info("ticks succeed again after %d failures", self.failing)
        self.failing = 0
        self.succeeded_s = self._monotonic()
        return True

    async def tick(self) -> None:
        """One tick. Raises any error."""
        self._began_s = self._monotonic()
        if self._before_sample is not None:
            await self._before_sample()
        began_s = self._monotonic()
        sample, values = await self._read(self.agent.groups(), self.agent.knobs_to_read())
        read_s = self._monotonic()
        self._is_slow = read_s - began_s > SLOW_S
        self._observe("read", read_s - began_s)
        self.last = sample
        self._sampled(sample)

        def decide() -> Instructions:
            began_s = self._monotonic()
            instructions = self.agent.sampled(sample, values, self._cpus)
            self._observe("judge", self._monotonic() - began_s)
            self._log_failing(instructions)
            return instructions

        await self.actor.exchange(decide)
        self._observe("turn", self._monotonic() - read_s)

    def _log_failing(self, instructions: Instructions) -> None:
        for failure in instructions.failing:
            if (failure.policy, failure.where) not in self._logged:  # once: one that fails in turns would fill the log
                self._logged.add((failure.policy, failure.where))
                _log.error("%s; its last values stay for one lease", failure)

    async def _read(
        self, groups: Sequence[str], targets: Sequence[KnobTarget]
    ) -> tuple[NodeSample, Mapping[KnobTarget, str]]:
        if self._is_slow:
            return await asyncio.to_thread(self._read_now, groups, targets)
        return self._read_now(groups, targets)

    def _read_now(
        self, groups: Sequence[str], targets: Sequence[KnobTarget]
    ) -> tuple[NodeSample, Mapping[KnobTarget, str]]:
        values: dict[KnobTarget, str] = {}
        for target in targets:
            try:
                values[target] = self.knobs.read(target)
            except CotenantError:  # gone, absent here, or unreadable: unknown
                self.unread_knobs += 1
        return self.sensor.sample(groups), values
