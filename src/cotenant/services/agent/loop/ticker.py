"""The loop: read the node, let the engine judge, carry out, and again a period later.

Problem: this loop holds a machine's knobs, and whatever goes wrong inside of a tick must neither end it nor make it late for ever. Choice:
one tick is sample, judgement, leases; a tick that fails is counted and told once, and the next one starts anew. What is not renewed for
that reason runs out at the keeper, so a loop that fails for good lets go by itself. Reading is done in this thread, where it costs least,
and in a thread of its own once it was seen to be slow, so that requests and triggers are answered meanwhile.
Limits: the kernel may hold a reader of cgroup files for as long as it likes; that shows as missed ticks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.interfaces import KnobPort, Sensor
from cotenant.model.errors import CotenantError
from cotenant.model.machine.counters import LogicalCpu, NodeSample
from cotenant.model.machine.knob import Target
from cotenant.services.agent.loop.actor import Actor
from cotenant.services.agent.loop.pace import Pace

SLOW_S = 0.05  # a sample that took longer is taken beside the event loop
FAILING = 5  # ticks in a row that failed: not ready
_log = logging.getLogger(__name__)

Observe = Callable[[str, float], None]  # part of a tick, seconds


class Ticker:
    """One node's loop. The counts are for metrics."""

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
        self.turned_s = monotonic()  # when the last tick ended well
        self.last: NodeSample | None = None
        self._monotonic = monotonic
        self._observe = observe
        self._sampled = sampled
        self._cpus = tuple(cpus)
        self._is_slow = False
        self._began_s = float("-inf")
        self._turn = asyncio.Lock()

    async def run(self, period_s: Callable[[], float], stop: asyncio.Event) -> None:
        """Until told to stop. The period may change."""
        pace = Pace(period_s(), self._monotonic())
        while not stop.is_set():
            await self.try_tick()
            if pace.period_s != period_s():
                pace = Pace(period_s(), self._monotonic())
            rest_s = pace.rest_s(self._monotonic())
            self.missed += pace.missed
            pace.missed = 0
            try:
                async with asyncio.timeout(rest_s):
                    await stop.wait()
            except TimeoutError:
                pass

    def age_s(self) -> float:
        """Since the last sample was asked for."""
        return self._monotonic() - self._began_s

    async def try_tick(self) -> bool:
        """A tick; False, counted, where it failed. One that is asked for while another is under way waits for its turn."""
        async with self._turn:
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
            _log.info("ticks go well again, after %d that failed", self.failing)
        self.failing = 0
        self.turned_s = self._monotonic()
        return True

    async def tick(self) -> None:
        """One tick. Raises whatever goes wrong."""
        began_s = self._began_s = self._monotonic()
        sample, values = await self._read(self.agent.groups(), self.agent.knobs_to_read())
        read_s = self._monotonic()
        self._is_slow = read_s - began_s > SLOW_S
        self._observe("read", read_s - began_s)
        self.last = sample
        self._sampled(sample)

        def judge() -> Instructions:
            began_s = self._monotonic()
            instructions = self.agent.sampled(sample, values, self._cpus)
            self._observe("judge", self._monotonic() - began_s)
            return instructions

        await self.actor.turn(judge)
        self._observe("turn", self._monotonic() - read_s)

    async def _read(self, groups: Sequence[str], watched: Sequence[Target]) -> tuple[NodeSample, Mapping[Target, str]]:
        if self._is_slow:
            return await asyncio.to_thread(self._read_now, groups, watched)
        return self._read_now(groups, watched)

    def _read_now(self, groups: Sequence[str], watched: Sequence[Target]) -> tuple[NodeSample, Mapping[Target, str]]:
        values: dict[Target, str] = {}
        for target in watched:
            try:
                values[target] = self.knobs.read(target)
            except CotenantError:  # gone, absent here, or not to be read: not known
                self.unread_knobs += 1
        return self.sensor.sample(groups), values
