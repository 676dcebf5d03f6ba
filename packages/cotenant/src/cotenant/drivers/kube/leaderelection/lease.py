"""Leader election by a Lease: the I/O, and a clean hand-over.

Work must start only once the lease is held, stop before another may hold it, and be stopped before it is released.
`run` campaigns, runs the work as a task, and renews beside it; election.py decides every step. A request that hangs is
abandoned when the leadership it should prolong runs out. While the lease cannot be renewed the work must not write
(`leading`), but it stays: where nobody else took the lease meanwhile it goes on with the next renewal, else it is
stopped. On cancellation the work is stopped first, then the lease is released.
Limits: work that does not let itself be cancelled delays the hand-over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.kinds.lease import LEASES, Lease
from cotenant.drivers.kube.leaderelection.election import Election, Instruction, ReadLease, Timing, Wait
from cotenant.model.errors import CotenantError

RELEASE_S = 5.0  # what a clean stop waits for the server

_log = logging.getLogger(__name__)


def awake_or_asleep_s() -> float:
    """Seconds of a clock that never goes back and that also runs while the machine is suspended, where the system
    has one.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class LeaderElector:
    """Competes for one Lease. `identity` must be unique among all candidates, also after a restart (host name and a
    random part).
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing | None = None,
        *,
        now: Callable[[], float] = awake_or_asleep_s,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        may_renew: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_renew`: asked before each look at a held lease; False = let it run out."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._now = now
        self._wall = wall
        self._sleep = sleep
        self._may_renew = may_renew
        self._changed: Callable[[], None] = lambda: None
        self._shown = f"the lease {namespace}/{name}"
        self.lapses = 0  # how often a term went on after a renewal that came too late
        self._election = Election(namespace, name, identity, timing)

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease now."""
        return self._election.left_s(self._now()) > 0

    @property
    def holder(self) -> str:
        """The last known holder."""
        return self._election.holder

    def standing(self) -> str:
        """Why this process does not lead, for a person; empty while it leads. May be asked from any thread."""
        if self.leading:
            return ""
        if self._election.in_term:
            late_s = max(0.0, self._election.unrenewed_s(self._now()))
            return f"{self._shown} has not been renewed for {late_s:.0f} s; nobody else is known to hold it"
        return f"waits for {self._shown}, held by {self.holder or 'no process'}"

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        """Campaign, then do the work during the term. True when the work ended by itself, False when another took the
        lease (the work is stopped).

        `changed` is called where `leading` turns False during the term, and True again. An error of the work is raised
        again, after the lease has been released.
        """
        self._changed = changed
        await self._campaign()
        _log.info("leading: %s holds %s", self._election.identity, self._shown)
        working: asyncio.Future[None] = asyncio.ensure_future(_run(work))
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended, lost = working.done(), renewing.done()
            await _stop(renewing)
            await _stop(working)
            if not lost:
                await self._release()
        if ended:
            working.result()
            return True
        if not renewing.cancelled():
            renewing.result()
        _log.warning("no longer leading: %s is held by %r", self._shown, self.holder)
        return False

    async def _campaign(self) -> None:
        shown = None
        while not self._election.leading:
            await self._follow(self._election.step(self._now(), self._wall()))
            if self.holder != shown and not self._election.leading:
                shown = self.holder
                held = f"held by {shown!r}" if shown else "held by no process"
                _log.info("waiting for %s, %s", self._shown, held)

    async def _renew(self) -> None:
        """Until another is seen to have held the lease."""
        election, timing, led, alive = self._election, self._election.timing, True, True
        while election.in_term:
            if alive != self._may_renew():
                alive = not alive
                if not alive:
                    _log.error("the event loop does not turn: %s is left to run out", self._shown)
            if not alive:
                await self._sleep(timing.retry_s)
                continue
            instruction = election.step(self._now(), self._wall())
            led = self._tell(led)
            try:
                async with asyncio.timeout(election.left_s(self._now()) or timing.renew_deadline_s):
                    await self._follow(instruction)
            except TimeoutError:
                election.failed(self._now())
            led = self._tell(led)

    def _tell(self, led: bool) -> bool:
        """Say that leading has ended or goes on during a term. Whether this process leads."""
        leads = self._election.leading
        if leads == led or not self._election.in_term:
            return leads
        if leads:
            _log.warning("%s is renewed again and nobody held it meanwhile: the work goes on", self._shown)
        else:
            self.lapses += 1
            late_s = self._election.unrenewed_s(self._now())
            _log.warning("%s was not renewed for %.1f s: nothing is written until it is", self._shown, late_s)
        self._changed()
        return leads

    async def _follow(self, instruction: Instruction) -> None:
        election = self._election
        if isinstance(instruction, Wait):
            await self._sleep(instruction.seconds)
            return
        began_s = self._now()
        try:
            if isinstance(instruction, ReadLease):
                found = await self._read()
                election.observe(found, self._now())
            else:
                stored = await self._write(instruction.lease, instruction.creates)
                election.wrote(stored, began_s, self._now())
        except CotenantError as error:
            _log.log(self._client.outage.level, "%s: %s", self._shown, error)
            election.failed(self._now())

    async def _read(self) -> Lease | None:
        try:
            return await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            return None

    async def _write(self, lease: Lease, creates: bool) -> Lease:
        if creates:
            return await self._client.create(LEASES, self._namespace, lease)
        return await self._client.update(LEASES, self._namespace, self._name, lease)

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(RELEASE_S):
                while (write := self._election.release(self._wall())) is not None:
                    try:
                        await self._write(write.lease, write.creates)
                    except Conflict:
                        # A renewal that was in flight at the stop has been written after all.
                        self._election.observe(await self._read(), self._now())
                        continue
                    _log.info("gave up %s", self._shown)
                    return
        except (CotenantError, TimeoutError) as error:
            _log.warning("could not give up %s, it will run out: %s", self._shown, error)


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()


async def _stop(task: asyncio.Future[Any]) -> None:
    """Cancel it and wait until it has ended."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
