"""Telling custom objects how they stand: PodGroups, quotas, reservations, in the background and never twice.

Problem: a gang of 512 changes its counts with every member, and writes of status must not stand before binds. Choice: the newest status of each object
waits in one place, equal ones are not written again, and one slow worker writes so many a second. Each kind has its own form of the
patch (`WRITERS`). Limits: a status may be late by as many seconds as there are objects over the rate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.client.limits import TokenBucket
from cotenant.drivers.kube.kinds.pod_group import write_pod_group
from cotenant.engine.framework.instructions import Status
from cotenant.engine.plugins.quotas.status import QuotaStatus
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.groups.gang import PodGroupStatus
from cotenant.services.scheduler.actions import reservations as reserving
from cotenant.services.scheduler.actions.quota_status import write_quota_status

Writer = Callable[[Client, Any], Awaitable[None]]

WRITERS: Mapping[type, Writer] = {
    QuotaStatus: write_quota_status,
    ReservationStatus: reserving.write_status,
    DeleteReservation: reserving.delete,
    PodGroupStatus: write_pod_group,
}

_log = logging.getLogger(__name__)


class Statuses:
    """Writes statuses, at most `per_s` a second."""

    def __init__(
        self,
        client: Client,
        *,
        per_s: float,
        monotonic: Callable[[], float],
        writers: Mapping[type, Writer] = WRITERS,
        refused: Callable[[Status, str], None] = lambda status, why: None,
    ) -> None:
        """`refused` is told of a status that the server will not take."""
        self._client = client
        self._monotonic = monotonic
        self._writers = writers
        self._refused = refused
        self._waiting: dict[tuple[str, str], Status] = {}
        self._bucket = TokenBucket(per_s, max(1, int(per_s)))
        self._some = asyncio.Event()
        self.written = 0

    def add(self, status: Status) -> None:
        """Tell the object; an older status of it that is not written yet is forgotten."""
        self._waiting[status.kind, status.key] = status
        self._some.set()

    def waiting(self) -> int:
        """Statuses that are not written yet."""
        return len(self._waiting)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            wait_s = self._bucket.take(self._monotonic())
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            key = next(iter(self._waiting), None)
            if key is None:
                continue
            status = self._waiting.pop(key)
            try:
                await self._writers[type(status)](self._client, status)
                self.written += 1
            except (NotFound, Conflict):
                continue  # gone, or another object has its name: the watch says so too
            except Transient as error:
                self._waiting.setdefault(key, status)
                await asyncio.sleep(min(5.0, max(0.5, error.retry_after_s)))
            except CotenantError as error:
                _log.warning("status of %s %s: %s", status.kind, status.key, error)
                self._refused(status, str(error))
