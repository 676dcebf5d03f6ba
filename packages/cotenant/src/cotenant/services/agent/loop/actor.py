"""Executes the engine's instructions: leases through the keeper, evictions through the evictor.

The keeper is another process that may be down, slow or restarted, and the engine must receive answers in the order of
its requests. Serialized exchanges: the engine is run, its requests go to the keeper within a time limit, the answers
are reported, then the next exchange starts. A keeper that fails is backed off from, longer each time, and meanwhile the
engine records at once that it was unreachable, so measuring and deciding go on; leases that are not renewed expire at
the keeper. Evictions run beside the exchanges: an API server may be slow.
Limits: an exchange waits for a hanging keeper for `WITHIN_S` at most.
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
from cotenant.model.machine.knob import KnobLease, KnobTarget, LeaseAnswer, LeaseState
from cotenant.model.machine.node_decision import EvictPod

WITHIN_S = 2.0
MAX_EVICTIONS = 16  # under way at once; the engine's own limits are lower
_log = logging.getLogger(__name__)


class Evictor(Protocol):
    """Evicts a pod."""

    async def evict(self, pod: EvictPod) -> tuple[bool, str]:
        """Whether the request was accepted, and the detail. Never raises for answers of a server or a kernel."""
        ...


class Actor:
    """Executes the engine's instructions. `keeper_up` and the counts are for metrics."""

    def __init__(
        self,
        agent: Agent,
        keeper: Keeper,
        evictor: Evictor,
        now_us: Callable[[], int],
        backoff: Backoff | None = None,
        within_s: float = WITHIN_S,
        leases_seen: Sequence[Callable[[Sequence[KnobLease]], None]] = (),
    ) -> None:
        """`leases_seen`: further receivers of the keeper's leases, beside the engine."""
        self.agent = agent
        self.keeper = keeper
        self.evictor = evictor
        self.keeper_up: bool | None = None  # None: not known yet
        self.keeper_failures = 0
        self.keeper_said = ""
        self.eviction_failures = 0
        self.knobs_changed = 0  # knobs that were set to another value, or given back
        self._now_us = now_us
        self._backoff = backoff or Backoff(0.5, 10.0)
        self._within_s = within_s
        self._leases_seen = tuple(leases_seen)
        self._held: dict[KnobTarget, str] = {}  # held values, to distinguish changes from renewals
        self._leases_known = False  # whether the engine knows the keeper's leases
        self._failures = 0  # in a row
        self._retry_at_us = 0
        self._lock = asyncio.Lock()
        self._evictions: set[asyncio.Task[None]] = set()

    async def fetch_leases(self) -> None:
        """Fetch the keeper's leases, if they are not known; where it cannot be reached, the next exchange retries."""
        if not self._leases_known:
            async with self._lock:
                await self._fetch_leases()

    async def exchange(self, decide: Callable[[], Instructions], *, insist: bool = False) -> Instructions:
        """Run the engine, execute its instructions, report the answers. `insist`: use the keeper even during a
        back-off (at the end).
        """
        async with self._lock:
            await self._fetch_leases(insist)  # what is held already determines what is requested
            instructions = decide()
            if instructions.hold or instructions.give_back:
                await self._request(instructions, insist)
            for pod in instructions.evict:
                self._start_eviction(pod, dry=instructions.dry)
            return instructions

    async def use_agent(self, agent: Agent) -> None:
        """Use another engine from now on; it gets the keeper's leases before its first request."""
        async with self._lock:
            self.agent = agent
            self._leases_known = False

    async def close(self) -> None:
        """Cancel evictions under way."""
        for task in self._evictions:
            task.cancel()
        await asyncio.gather(*self._evictions, return_exceptions=True)

    # Keeper

    async def _request(self, instructions: Instructions, insist: bool) -> None:
        answers: list[LeaseAnswer] = []
        if not self._leases_known or (self._now_us() < self._retry_at_us and not insist):
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
        """Count changed knobs; renewals do not count."""
        for request in instructions.give_back:
            self.knobs_changed += self._held.pop(request.target, None) is not None
        for wish, answer in zip(instructions.hold, answers[len(instructions.give_back) :], strict=False):
            if answer.state is LeaseState.HELD and self._held.get(wish.target) != wish.value:
                self._held[wish.target] = wish.value
                self.knobs_changed += 1

    async def _fetch_leases(self, insist: bool = False) -> None:
        if self._leases_known or (self._now_us() < self._retry_at_us and not insist):
            return
        try:
            async with asyncio.timeout(self._within_s):
                leases = await self.keeper.leases()
        except (CotenantError, OSError) as error:
            self._failed(error)
            return
        if self._failures:
            _log.info("the keeper is reachable again and holds %d leases", len(leases))
        self._failures, self._retry_at_us = 0, 0
        self.keeper_up, self.keeper_said, self._leases_known = True, "", True
        self._held = {lease.target: lease.value for lease in leases}
        self.agent.leases_found(leases, self._now_us())
        for receive in self._leases_seen:
            receive(leases)

    def _failed(self, error: Exception) -> None:
        self.keeper_failures += 1
        self._failures += 1
        self._retry_at_us = self._now_us() + round(self._backoff.rest_s(self._failures) * 1e6)
        self.keeper_said = str(error) or f"no answer within {self._within_s:g} s"
        if self.keeper_up is not False:
            _log.warning("the keeper cannot be reached: %s", self.keeper_said)
        self.keeper_up = self._leases_known = False

    # Evictions

    def _start_eviction(self, pod: EvictPod, *, dry: bool) -> None:
        if dry:
            _log.info("dry run: %s would be evicted: %s", pod.key, pod.reason.text)
            self.agent.evicted(pod.uid, False, "dry run", self._now_us())
        elif len(self._evictions) >= MAX_EVICTIONS:
            self.agent.evicted(pod.uid, False, f"{MAX_EVICTIONS} evictions are under way", self._now_us())
        else:
            task = asyncio.create_task(self._evict(pod), name=f"eviction of {pod.key}")
            self._evictions.add(task)
            task.add_done_callback(self._evictions.discard)

    async def _evict(self, pod: EvictPod) -> None:
        _log.warning("evicting %s: %s", pod.key, pod.reason.text)
        try:
            accepted, detail = await self.evictor.evict(pod)
        except Exception as error:
            self.eviction_failures += 1
            _log.exception("eviction of %s", pod.key)
            accepted, detail = False, f"{type(error).__name__}: {error}"
        self.agent.evicted(pod.uid, accepted, detail, self._now_us())
