"""Carries out what the engine asks for: leases through the keeper, evictions through whoever can.

Problem: the keeper is another process that may be away, slow or new since yesterday, and the engine must hear answers in the order in which
it asked. Choice: turns, one after another: the engine is asked, its wishes go to the keeper within a bound of time, the answers come back,
then the next turn. A keeper that fails rests for longer each time, and meanwhile the engine is told at once that nothing was reached, so
measuring and judging go on; what stays unrenewed, the keeper puts back by itself. Evictions run beside the turns: an API server may be slow.
Limits: a turn waits for a keeper that hangs, for `WITHIN_S` at most.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from cotenant.engine.framework.backoff import Backoff
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.engine.node.interfaces import Keeper
from cotenant.model.errors import CotenantError
from cotenant.model.machine.knob import Lease, LeaseAnswer, LeaseState, Target
from cotenant.model.machine.node_decision import EvictPod

WITHIN_S = 2.0
MOST_EVICTIONS = 16  # under way at once; the engine's own limits are lower
_log = logging.getLogger(__name__)


class Evictor(Protocol):
    """Asks a pod to leave."""

    async def evict(self, pod: EvictPod) -> tuple[bool, str]:
        """Whether the request was accepted, and what was said. Never raises for what a server or a kernel answers."""
        ...


class Actor:
    """The engine's hands. `keeper_up` and the counts are for metrics."""

    def __init__(
        self,
        agent: Agent,
        keeper: Keeper,
        evictor: Evictor,
        now_us: Callable[[], int],
        backoff: Backoff | None = None,
        within_s: float = WITHIN_S,
        leases_seen: Sequence[Callable[[Sequence[Lease]], None]] = (),
    ) -> None:
        """`leases_seen`: told what the keeper holds, beside the engine."""
        self.agent = agent
        self.keeper = keeper
        self.evictor = evictor
        self.keeper_up: bool | None = None  # None: not asked yet
        self.keeper_failures = 0
        self.keeper_said = ""
        self.eviction_failures = 0
        self.turned = 0  # knobs that were turned to another value, or given back
        self._now_us = now_us
        self._backoff = backoff or Backoff(0.5, 10.0)
        self._within_s = within_s
        self._leases_seen = tuple(leases_seen)
        self._stands: dict[Target, str] = {}  # what is held, to tell news from renewals
        self._met = False  # the engine knows what the keeper holds
        self._failures = 0  # in a row
        self._rests_until_us = 0
        self._lock = asyncio.Lock()
        self._evictions: set[asyncio.Task[None]] = set()

    async def meet(self) -> None:
        """Learn what the keeper holds, if that is not known; where it cannot be reached, the next turn tries again."""
        if not self._met:
            async with self._lock:
                await self._meet()

    async def turn(self, ask: Callable[[], Instructions], *, insist: bool = False) -> Instructions:
        """Ask the engine, carry out, answer. `insist`: ask the keeper even while it rests (at the end)."""
        async with self._lock:
            await self._meet(insist)  # what is held already decides what is asked for
            instructions = ask()
            if instructions.hold or instructions.give_back:
                await self._keep(instructions, insist)
            for pod in instructions.evict:
                self._start_eviction(pod, dry=instructions.dry)
            return instructions

    async def serve(self, agent: Agent) -> None:
        """Another engine from now on; it hears what the keeper holds before its first wish."""
        async with self._lock:
            self.agent = agent
            self._met = False

    async def close(self) -> None:
        """Stop waiting for evictions under way."""
        for task in self._evictions:
            task.cancel()
        await asyncio.gather(*self._evictions, return_exceptions=True)

    # ---- the keeper

    async def _keep(self, instructions: Instructions, insist: bool) -> None:
        answers: list[LeaseAnswer] = []
        if not self._met or (self._now_us() < self._rests_until_us and not insist):
            self.agent.unreachable(self._now_us())
            return
        try:
            async with asyncio.timeout(self._within_s):
                if instructions.give_back:
                    answers += await self.keeper.give_back(instructions.give_back)
                if instructions.hold:
                    answers += await self.keeper.hold(instructions.hold)
        except (CotenantError, OSError) as error:  # TimeoutError among them
            self._failed(error)
            if answers:
                self.agent.answered(answers, self._now_us())
            self.agent.unreachable(self._now_us())
        else:
            self.agent.answered(answers, self._now_us())
            self._count(instructions, answers)

    def _count(self, instructions: Instructions, answers: Sequence[LeaseAnswer]) -> None:
        """Count what was turned; renewals of what stands are no news."""
        for request in instructions.give_back:
            self.turned += self._stands.pop(request.target, None) is not None
        for wish, answer in zip(instructions.hold, answers[len(instructions.give_back) :], strict=False):
            if answer.state is LeaseState.HELD and self._stands.get(wish.target) != wish.value:
                self._stands[wish.target] = wish.value
                self.turned += 1

    async def _meet(self, insist: bool = False) -> None:
        if self._met or (self._now_us() < self._rests_until_us and not insist):
            return
        try:
            async with asyncio.timeout(self._within_s):
                leases = await self.keeper.leases()
        except (CotenantError, OSError) as error:
            self._failed(error)
            return
        if self._failures:
            _log.info("the keeper answers again, and holds %d leases", len(leases))
        self._failures, self._rests_until_us = 0, 0
        self.keeper_up, self.keeper_said, self._met = True, "", True
        self._stands = {lease.target: lease.value for lease in leases}
        self.agent.leases_found(leases, self._now_us())
        for tell in self._leases_seen:
            tell(leases)

    def _failed(self, error: Exception) -> None:
        self.keeper_failures += 1
        self._failures += 1
        self._rests_until_us = self._now_us() + round(self._backoff.rest_s(self._failures) * 1e6)
        self.keeper_said = str(error) or f"no answer within {self._within_s:g} s"
        if self.keeper_up is not False:
            _log.warning("the keeper cannot be reached: %s", self.keeper_said)
        self.keeper_up = self._met = False

    # ---- evictions

    def _start_eviction(self, pod: EvictPod, *, dry: bool) -> None:
        if dry:
            _log.info("dry run: %s would be evicted: %s", pod.key, pod.reason.text)
            self.agent.evicted(pod.uid, False, "dry run", self._now_us())
        elif len(self._evictions) >= MOST_EVICTIONS:
            self.agent.evicted(pod.uid, False, f"{MOST_EVICTIONS} evictions are under way", self._now_us())
        else:
            task = asyncio.create_task(self._evict(pod), name=f"eviction of {pod.key}")
            self._evictions.add(task)
            task.add_done_callback(self._evictions.discard)

    async def _evict(self, pod: EvictPod) -> None:
        _log.warning("%s is to leave: %s", pod.key, pod.reason.text)
        try:
            accepted, detail = await self.evictor.evict(pod)
        except Exception as error:
            self.eviction_failures += 1
            _log.exception("eviction of %s", pod.key)
            accepted, detail = False, f"{type(error).__name__}: {error}"
        self.agent.evicted(pod.uid, accepted, detail, self._now_us())
