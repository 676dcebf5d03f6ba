"""The right to act as one of N shards: the Lease of any free slot.

Each slot is an election like that of a lone scheduler, with the same rules about time. A replica takes the first slot
whose Lease nobody holds; where all are held it waits for one, and goes to another that becomes free meanwhile, so that
more replicas than slots are stand-bys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.lease import LEASES
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.errors import CotenantError
from cotenant.policy.sharding.rendezvous import owner
from cotenant.services.kube_process.election_thread import ThreadedElection


def slot_lease(lease: str, slot: int) -> str:
    """The Lease of a slot."""
    return f"{lease}-shard-{slot}"


class SlotElection:
    """A `Leadership` for one of `slots` Leases. `slot` is that of the term, -1 before the first."""

    def __init__(
        self,
        client: Client,
        connect: Callable[[], Client],
        namespace: str,
        lease: str,
        slots: int,
        identity: str,
        timing: Timing | None = None,
    ) -> None:
        """`connect` makes the client of one election, on its thread."""
        self._client = client
        self._connect = connect
        self._namespace = namespace
        self._lease = lease
        self._slots = slots
        self._identity = identity
        self._timing = timing or Timing()
        self._election: ThreadedElection | None = None
        self._lapses = 0  # of earlier elections
        self.slot = -1

    @property
    def leading(self) -> bool:
        """Whether this process holds its slot now; may be asked from any thread."""
        return self._election is not None and self._election.leading

    @property
    def lapses(self) -> int:
        """As `Leadership.lapses`."""
        return self._lapses + (self._election.lapses if self._election is not None else 0)

    def standing(self) -> str:
        """As `Leadership.standing`."""
        return "has not yet asked for a shard's lease" if self._election is None else self._election.standing()

    async def run(self, work: Callable[[], Awaitable[None]], changed: Callable[[], None] = lambda: None) -> bool:
        """As `Leadership.run`."""
        while True:
            free = await self._free()
            slot = free[0] if free else owner(self._identity, range(self._slots))
            ended = await self._campaign(slot, work, changed)
            if ended is not None:
                return ended

    async def _campaign(
        self, slot: int, work: Callable[[], Awaitable[None]], changed: Callable[[], None]
    ) -> bool | None:
        """What the election of a slot came to; None = another slot became free before this one did."""
        name = slot_lease(self._lease, slot)
        self._lapses = self.lapses
        self.slot = slot
        self._election = election = ThreadedElection(self._connect, self._namespace, name, self._identity, self._timing)
        begun = asyncio.Event()

        async def working() -> None:
            begun.set()
            await work()

        running = asyncio.ensure_future(election.run(working, changed))
        try:
            while not begun.is_set():
                done, _ = await asyncio.wait((running,), timeout=2 * self._timing.retry_s)
                if done:
                    break
                if not begun.is_set() and any(other != slot for other in await self._free()):
                    if begun.is_set() or election.leading:
                        break
                    running.cancel()
                    await asyncio.wait((running,))
                    return None
            return await asyncio.shield(running)
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))

    async def _free(self) -> list[int]:
        """Slots that nobody holds, or this identity does; none where the server does not say."""
        found: list[int] = []
        for slot in range(self._slots):
            try:
                lease = await self._client.get(LEASES, self._namespace, slot_lease(self._lease, slot))
            except NotFound:
                found.append(slot)
                continue
            except CotenantError:
                continue
            if lease.spec is None or lease.spec.holder_identity in (None, "", self._identity):
                found.append(slot)
        return found
