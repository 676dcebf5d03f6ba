"""Makes writes of a lost shard useless: every pending pod and reservation that it may have decided for is changed, and
every pod that it marked to evict.

Its binds name the version of the pod that it knew, its reservations are written over the version that it read, and its
evictions name the version that has its mark. One that is under way, or that a stopped process sends when it goes on, is
refused from then on. Pods that were created after its Lease ran out it cannot have decided for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex

from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import Conflict, Forbidden, NotFound
from cotenant.drivers.kube.kinds.custom.reservation import RESERVATIONS, ReservationReader
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS, PodObject
from cotenant.drivers.kube.kinds.shard_table import EVICTS, FENCED, STIRRED
from cotenant.engine.sharding.member import FenceLost
from cotenant.engine.sharding.territory import Territory
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.reservation import Reservation
from cotenant.policy.sharding.groups import Belonging, group_of

_AT_ONCE = 32
_PENDING = "spec.nodeName="

_log = logging.getLogger(__name__)


class ShardFence:
    """Carries out `FenceLost`."""

    def __init__(
        self,
        client: Client,
        reader: PodReader,
        schedulers: tuple[str, ...],
        groups: Callable[[ObservedPod], tuple[str, ...]],
    ) -> None:
        """`groups`: all by which a pod may have had its shard."""
        self._client = client
        self._reader = reader
        self._schedulers = schedulers
        self._groups = groups
        self.changed = 0  # pods, so far

    async def carry_out(self, asked: FenceLost) -> None:
        """Raises the client's errors: then it must be carried out again."""
        member = asked.member
        pods = await self._client.all_of(PODS, fields=_PENDING)
        lost = Territory(member.slot, (asked.slots,) if asked.slots else ())
        named = [pod for pod in pods if self._may_be_of(pod, lost)]
        limit = asyncio.Semaphore(_AT_ONCE)

        async def change(pod: PodObject) -> None:
            async with limit:
                await self._change(pod, member.token)

        async with asyncio.TaskGroup() as group:
            for pod in named:
                group.create_task(change(pod))
        reservations = await self._reservations(lost)
        for reservation in reservations:
            patch = {"metadata": {"uid": reservation.uid, "annotations": {FENCED: member.token}}}
            with suppress(Conflict, NotFound):
                await self._client.patch(RESERVATIONS, "", reservation.name, patch)
        victims = await self._client.all_of(PODS, labels=f"{EVICTS}={member.token}")
        for victim in victims:
            meta = victim.metadata
            unmarked = {"metadata": {"uid": meta.uid, "labels": {EVICTS: None}}}
            with suppress(Conflict, NotFound):
                await self._client.patch_status(PODS, meta.namespace or "", meta.name or "", unmarked)
        self.changed += len(named) + len(reservations) + len(victims)
        words = "nothing of lost shard %d counts any more: %d pending pods, %d reservations, %d victims were changed"
        _log.warning(words, member.slot, len(named), len(reservations), len(victims))

    async def _reservations(self, lost: Territory) -> list[Reservation]:
        """Those without a node that it may have decided for; none where the kind is not installed, or not read."""
        try:
            listed = await self._client.all_of(RESERVATIONS)
        except (NotFound, Forbidden):
            return []
        found = []
        for raw in listed:
            with suppress(InvalidInput):  # nobody can decide for one that cannot be read
                found.append(ReservationReader().read(raw))
        return [
            one
            for one in found
            if not one.node
            and not one.phase.is_final
            and (not lost.rings or lost.owns_group(group_of(Belonging(one.uid, reservation=one.name))))
        ]

    async def stir(self, pod: ObservedPod) -> None:
        """Change a pending pod, so that the watch of pods delivers a version of now: where no pod changes by itself,
        the next bookmark may be a minute away. A bind of it that is under way is sent again. Raises the errors of the
        client.
        """
        patch = {"metadata": {"uid": pod.uid, "annotations": {STIRRED: token_hex(4)}}}
        with suppress(Conflict, NotFound):
            await self._client.patch_status(PODS, pod.pod.namespace, pod.pod.name, patch, content_type=MERGE_PATCH)

    def _may_be_of(self, pod: PodObject, lost: Territory) -> bool:
        seen = self._reader.pod(pod)
        if seen.node or seen.has_ended or seen.scheduler not in self._schedulers:
            return False
        return not lost.rings or any(map(lost.owns_group, self._groups(seen)))

    async def _change(self, pod: PodObject, token: str) -> None:
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {FENCED: token}}}
        with suppress(Conflict, NotFound):  # gone, or another pod of that name, for which it did not decide
            # the status subresource of a pod takes annotations too, so the role needs no right to patch pods
            await self._client.patch_status(
                PODS, meta.namespace or "", meta.name or "", patch, content_type=MERGE_PATCH
            )
