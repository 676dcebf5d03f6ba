"""Leader election on a thread of its own, so that a busy event loop does not lose the lease.

Renewals that share the event loop with decisions stop while a decision takes long, and a leader that is merely slow is
replaced in the middle of its work. A `LeaderElector` with a client of its own runs in a second event loop on a thread;
the process's loop only learns that leadership was gained or lost. Each look at the lease also asks the process's loop
for a sign of life: without one for `dead_after_s` the lease is no longer renewed, so that another replica takes over
from a process that hangs; if its loop turns again before, it leads on. The lease is released only after the work has
ended.
Limits: code that holds the interpreter's lock for longer than the renew deadline without a pause stops the thread too.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.drivers.kube.leaderelection.lease import LeaderElector
from cotenant.services.kube_process.health import STUCK_S


class ThreadedElection:
    """Competes for the Lease `namespace/name` from a thread (`Leadership`)."""

    def __init__(
        self,
        connect: Callable[[], Client],
        namespace: str,
        name: str,
        identity: str,
        timing: Timing | None = None,
        dead_after_s: float = STUCK_S,
    ) -> None:
        """`connect` is called on the thread, for a client that only the election uses."""
        self._connect = connect
        self._lease = (namespace, name, identity, timing)
        self._dead_after_s = dead_after_s
        self._elector: LeaderElector | None = None
        self._lapses = 0  # of earlier terms

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease now; may be asked from any thread."""
        elector = self._elector
        return elector is not None and elector.leading

    @property
    def lapses(self) -> int:
        """How often this term went on after a renewal that came too late."""
        return self._lapses + (self._elector.lapses if self._elector is not None else 0)

    def standing(self) -> str:
        """As `Leadership.standing`."""
        elector = self._elector
        return elector.standing() if elector is not None else "has not yet asked for the lease"

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        """As `Leadership.run`. Raises what `work` raises, after the lease was released."""
        term = _Term(asyncio.get_running_loop(), self._dead_after_s, changed)
        electing: Future[bool] = Future()
        thread = threading.Thread(target=self._elect, args=(term, electing), name="leader election", daemon=True)
        thread.start()
        elected = asyncio.ensure_future(asyncio.wrap_future(electing))
        gained = asyncio.ensure_future(term.gained.wait())
        working: asyncio.Future[None] | None = None
        try:
            await asyncio.wait((gained, elected), return_when=asyncio.FIRST_COMPLETED)
            if gained.done():
                working = asyncio.ensure_future(_run(work))
                lost = asyncio.ensure_future(term.lost.wait())
                try:
                    await asyncio.wait((working, lost), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    lost.cancel()
        finally:
            gained.cancel()
            ended = working is not None and working.done()
            if working is not None and not ended:
                working.cancel()
                await asyncio.wait((working,))
            term.end()
            await asyncio.wait((elected,))
        if working is not None and ended:
            working.result()
            return True
        elected.result()
        return False

    def _elect(self, term: _Term, done: Future[bool]) -> None:
        try:
            done.set_result(asyncio.run(self._campaign(term)))
        except BaseException as error:
            done.set_exception(error)

    async def _campaign(self, term: _Term) -> bool:
        """On the thread: one campaign and one term. Whether the term was ended by the work rather than lost."""
        namespace, name, identity, timing = self._lease
        async with self._connect() as client:
            self._lapses = self.lapses
            self._elector = elector = LeaderElector(client, namespace, name, identity, timing, may_renew=term.is_alive)
            running = asyncio.ensure_future(elector.run(term.lead, term.changed))
            term.started(running)
            try:
                return await running
            except asyncio.CancelledError:  # ended during the campaign
                return True


class _Term:
    """What the two loops tell each other during one campaign and one term."""

    def __init__(self, loop: asyncio.AbstractEventLoop, dead_after_s: float, changed: Callable[[], None]) -> None:
        self.gained = asyncio.Event()  # both are of the process's loop
        self.lost = asyncio.Event()
        self._loop = loop
        self._changed = changed
        self._dead_after_s = dead_after_s
        self._alive_s = time.monotonic()
        self._lock = threading.Lock()
        self._over = False
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Future[bool] | None = None
        self._worked: asyncio.Event | None = None

    # ---- on the process's loop

    def end(self) -> None:
        """The work has ended, or is no longer wanted: release the lease, or give up the campaign."""
        with self._lock:
            self._over = True
            if self._thread_loop is not None:
                with suppress(RuntimeError):  # the loop is closed: the campaign has failed
                    self._thread_loop.call_soon_threadsafe(self._stop)

    # ---- on the thread

    def started(self, running: asyncio.Future[bool]) -> None:
        """The campaign has begun."""
        with self._lock:
            self._thread_loop, self._running = asyncio.get_running_loop(), running
            if self._over:
                running.cancel()

    async def lead(self) -> None:
        """The elector's work: until the real one has ended. The elector releases the lease when this returns."""
        self._worked = asyncio.Event()
        self._tell(self.gained)
        try:
            await self._worked.wait()
        except asyncio.CancelledError:
            self._tell(self.lost)
            await self._worked.wait()
            raise

    def is_alive(self) -> bool:
        """Whether the process's loop has turned lately; asks it for the next sign of life."""
        self._loop.call_soon_threadsafe(self._beat)
        return time.monotonic() - self._alive_s < self._dead_after_s

    def changed(self) -> None:
        """Leading has ended or goes on during the term."""
        self._loop.call_soon_threadsafe(self._changed)

    def _beat(self) -> None:
        self._alive_s = time.monotonic()

    def _tell(self, event: asyncio.Event) -> None:
        self._loop.call_soon_threadsafe(event.set)

    def _stop(self) -> None:
        if self._worked is not None:
            self._worked.set()
        elif self._running is not None:
            self._running.cancel()


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()
