"""Reservations: the status that assigns one to its node, reported to the engine exactly once.

A reservation has no binding: its status is written, the answer may be lost, it may have been deleted or ended
meanwhile, and the right of this replica to write may end. What it was allocated by number is in annotations, which a
status write cannot carry. Annotations first, which count only once the status names the node; otherwise as for binds:
what is not sent can be withheld until the last moment (`Cluster.sending`), a lost answer is settled by reading the
object, and any other failure is reported as failed. A running pod that the reservation takes (preAllocation) is
annotated first.
One of several schedulers that act (`is_fenced`) reads the object, asks once more whether it may write, and writes only
over that version: a shard that lost its Lease meanwhile finds another, since pending reservations of a lost shard are
changed before its nodes are taken.
Limits: no limit of its own on what is under way; the client's limits apply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound, Unavailable
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationReader
from cotenant.drivers.kube.kinds.custom.reservation_writing import holdings_patch, written_status
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.seals.seals import Sealer
from cotenant.engine.cluster import Cluster
from cotenant.engine.plugins.reservations.instructions import DeleteReservation, ReservationStatus, ReserveNode
from cotenant.model.cluster.demands import GPU_SHARE
from cotenant.model.cluster.seal import SEAL
from cotenant.model.cpus.spec import RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.groups.reservation import CurrentOwner
from cotenant.model.groups.reservation_notes import ALLOCATED, AllocatedReservation

_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

_log = logging.getLogger(__name__)


async def write_status(client: Client, status: ReservationStatus, version: str = "") -> None:
    """Write the status of a reservation; with a version only over that one."""
    written = written_status(
        status.phase, status.node, status.allocatable, status.allocated, status.owners, status.conditions
    )
    await client.set_status(RESERVATIONS, "", status.key, status.uid, written, version=version)


async def delete(client: Client, gone: DeleteReservation) -> None:
    """Delete a reservation that ended long ago."""
    await client.delete(RESERVATIONS, "", gone.key, uid=gone.uid)


class Reserver:
    """Writes the assignments of reservations."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        now: Callable[[], float],
        *,
        may_write: Callable[[], bool],
        changed: Callable[[], None],
        sealer: Sealer | None = None,
        is_fenced: bool = False,
    ) -> None:
        """`may_write`: whether this replica leads; `changed` is called when the engine should be asked again.
        `is_fenced`: it is one of several that act.
        """
        self._client = client
        self._cluster = cluster
        self._reader = ReservationReader()
        self._now = now
        self._may_write = may_write
        self._sealer = sealer
        self._is_fenced = is_fenced
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, reserve: ReserveNode) -> None:
        """Start writing one."""
        task = asyncio.create_task(self._carry_out(reserve))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()

    async def _carry_out(self, reserve: ReserveNode) -> None:
        try:
            if not self._may_write():
                self._failed(reserve, "not leading")
            elif self._cluster.sending(reserve.uid, self._now(), reserve.number):
                await self._write(reserve)
        except CotenantError as error:
            self._failed(reserve, str(error), type(error).__name__)
        except Exception:  # an error with one reservation must not end the scheduler
            _log.exception("reservation %s", reserve.key)
            self._failed(reserve, "unforeseen error")
        finally:
            self._changed()

    async def _write(self, reserve: ReserveNode) -> None:
        version = ""
        try:
            if self._is_fenced:
                found = await self._client.get(RESERVATIONS, "", reserve.key)
                version = found.metadata.resource_version or ""
                if not self._may_write():
                    self._not_reserved(reserve, "not leading")
                    return
                if self._reader.read(found).node:
                    self._not_reserved(reserve, "it has a node", retry=False)
                    return
        except NotFound:
            self._not_reserved(reserve, "reservation not found", retry=False)
            return
        for pod in reserve.takes:
            await self._take(reserve, pod)
        try:
            if reserve.holds != reserve.has:  # before the status: without a node they mean nothing yet
                patch = holdings_patch(reserve.uid, reserve.holds, version)
                stored = await self._client.patch(RESERVATIONS, "", reserve.key, patch, content_type=MERGE_PATCH)
                version = (stored.metadata.resource_version or "") if version else ""
            await write_status(self._client, reserve.status, version)
        except NotFound:
            self._not_reserved(reserve, "reservation not found", retry=False)
        except Conflict:  # another has its name, or it is another version: the watch reports it
            self._not_reserved(reserve, "reservation changed", retry=self._is_fenced)
        except Unavailable as error:
            if not error.maybe_done:
                raise
            await self._look(reserve, str(error))
        else:
            self._cluster.bound(reserve.uid, self._now(), reserve.number)

    async def _take(self, reserve: ReserveNode, pod: CurrentOwner) -> None:
        """Name the reservation on a running pod that becomes its owner. Raises as `Client.patch`: then the
        reservation is tried again.
        """
        note: dict[str, str | None] = {ALLOCATED: AllocatedReservation(reserve.key, reserve.uid).format()}
        if self._sealer is not None:  # only pods that hold nothing else are taken: what else is written is not ours
            seal = self._sealer.seal(pod.uid, reserve.node, {ALLOCATED: note[ALLOCATED] or ""})
            note |= {SEAL: seal, RESOURCE_STATUS: None, DEVICE_ALLOCATED: None, GPU_SHARE: None}
        patch = {"metadata": {"uid": pod.uid, "annotations": note}}
        # the status subresource of a pod takes annotations too, so the role needs no right to patch pods
        await self._client.patch_status(PODS, pod.namespace, pod.name, patch)

    async def _look(self, reserve: ReserveNode, why: str) -> None:
        """It is not known how the write ended: read the object until the server answers."""
        pause_s = _PAUSE_S
        while True:
            try:
                found = self._reader.read(await self._client.get(RESERVATIONS, "", reserve.key))
                break
            except NotFound:
                self._not_reserved(reserve, "reservation not found", retry=False)
                return
            except Transient as error:
                _log.warning("reservation %s on %s: %s; then %s; asking again", reserve.key, reserve.node, why, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if found.uid == reserve.uid and found.node == reserve.node:
            self._cluster.bound(reserve.uid, self._now(), reserve.number)
        else:
            self._failed(reserve, why, "Unavailable")

    def _failed(self, reserve: ReserveNode, why: str, kind: str = "") -> None:
        _log.warning("reservation %s on %s: %s", reserve.key, reserve.node, why)
        self._not_reserved(reserve, kind or why)

    def _not_reserved(self, reserve: ReserveNode, why: str, retry: bool = True) -> None:
        self._cluster.bind_failed(reserve.uid, why, self._now(), retry, reserve.number)
