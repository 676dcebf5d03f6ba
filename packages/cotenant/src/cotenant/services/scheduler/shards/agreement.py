"""Reads and replaces the table of shards, and looks after the Leases of its members.

All reads are of single objects and therefore consistent: an answer is at least as new as the request. A member's Lease
is read after the member was seen in the table. One that stands unchanged for its duration is taken from its holder by a
write on its version, as another candidate for it would do; only then do others count the member as lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, NotFound
from cotenant.drivers.kube.kinds.lease import LEASES, Lease, LeaseSpec
from cotenant.drivers.kube.kinds.parts import ObjectMeta
from cotenant.drivers.kube.kinds.shard_table import read_table, written_table
from cotenant.drivers.kube.leaderelection.election import Timing
from cotenant.model.errors import CotenantError, Permanent
from cotenant.model.shards.table import ShardTable, SlotMember
from cotenant.services.scheduler.shards.slot_election import slot_lease

_log = logging.getLogger(__name__)


class Agreement:
    """The table and the Leases beside it. `now`: seconds of a clock that also runs while the machine sleeps."""

    def __init__(
        self, client: Client, namespace: str, lease: str, now: Callable[[], float], timing: Timing | None = None
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._lease = lease
        self._now = now
        self._timing = timing or Timing()
        self._meta = ObjectMeta(name=f"{lease}-shards", namespace=namespace)
        self._watched: dict[str, tuple[str, float, float]] = {}  # Lease -> version, seen unchanged for, last read
        self.conflicts = 0

    async def read(self) -> tuple[ShardTable, int]:
        """The table and its version, 0 where there is none yet. Raises the client's errors, and `Permanent` where there
        was one: what it said is lost, and who makes it anew cannot know who acts.
        """
        try:
            lease = await self._client.get(LEASES, self._namespace, self._meta.name or "")
        except NotFound:
            if self._meta.resource_version:
                where = f"{self._namespace}/{self._meta.name}"
                raise Permanent(f"Lease {where} was deleted: stop all shards, then start them again") from None
            return ShardTable(), 0
        return self._taken(lease)

    async def replace(self, table: ShardTable, version: int) -> tuple[ShardTable, int] | None:
        """The table as stored; None where this version is no longer the newest. Raises the client's errors."""
        if version and version != int(self._meta.resource_version or 0):
            return None
        lease = written_table(table, self._meta)
        try:
            if version:
                stored = await self._client.update(LEASES, self._namespace, self._meta.name or "", lease)
            else:
                stored = await self._client.create(LEASES, self._namespace, lease)
        except (AlreadyExists, Conflict, NotFound):
            self.conflicts += 1
            return None
        return self._taken(stored)

    def _taken(self, lease: Lease) -> tuple[ShardTable, int]:
        self._meta = lease.metadata
        return read_table(lease), int(lease.metadata.resource_version or 0)

    async def holder(self, member: SlotMember) -> str:
        """Who holds a member's Lease; "" = nobody. One that ran out is taken from its holder. Raises the client's
        errors.
        """
        name = slot_lease(self._lease, member.slot)
        try:
            lease = await self._client.get(LEASES, self._namespace, name)
        except NotFound:
            return ""
        spec = lease.spec or LeaseSpec()
        holder, version, now_s = spec.holder_identity or "", lease.metadata.resource_version or "", self._now()
        known, unchanged_s, read_s = self._watched.get(name, ("", 0.0, now_s))
        step_s = min(max(0.0, now_s - read_s), 2 * self._timing.retry_s)  # a clock that jumps does not expire a Lease
        unchanged_s = unchanged_s + step_s if known == version else 0.0
        self._watched[name] = (version, unchanged_s, now_s)
        if not holder or unchanged_s < (spec.lease_duration_seconds or self._timing.lease_s):
            return holder
        over = msgspec.structs.replace(lease, spec=msgspec.structs.replace(spec, holder_identity=""))
        try:
            await self._client.update(LEASES, self._namespace, name, over)
        except Conflict:
            return holder  # renewed at the last moment
        except CotenantError as error:
            _log.warning("the lease of shard %d cannot be taken from %s: %s", member.slot, holder, error)
            return holder
        _log.warning("shard %d, %s, has not renewed its lease for %.1f s: it is lost", member.slot, holder, unchanged_s)
        return ""
