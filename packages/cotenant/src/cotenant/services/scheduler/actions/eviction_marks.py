"""Evictions of a shard, fenced as its binds are: by the version of the pod.

A pending pod has a version that its shard knows, and a lost shard's pending pods are few. A victim runs, and any pod of
the cluster may be one. So the shard first writes its term on the pod, and then evicts the version that this write made,
if it still leads when the answer is there. A mark of a shard that leads is stored before others count it as lost; they
change the pods that have it (`ShardFence`), and an eviction that is still on its way names an old version.
Limits: EvictionRequests name no version; one that comes late stands until one that nobody repeats is withdrawn. A pod
that changes all the time is evicted in whatever version it has, as without shards.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.kube.kinds.shard_table import EVICTS
from cotenant.engine.framework.instructions import Victim
from cotenant.model.errors import CotenantError, Transient

_TRIES = 5  # a kubelet writes a pod's status now and then


class EvictionMarks:
    """`term`: that of this shard, "" = none; `may_act`: whether it leads at this moment."""

    def __init__(self, client: Client, term: Callable[[], str], may_act: Callable[[], bool]) -> None:
        self._client = client
        self._term = term
        self._may_act = may_act

    async def evict(
        self, victim: Victim, status: Mapping[str, object], evict: Callable[[str], Awaitable[object]]
    ) -> None:
        """Mark the pod, with this status beside it, then `evict` the version that has the mark. `NotFound`, `Conflict`:
        it is gone, or another pod has its name. `Transient`: this shard may not evict any more. Raises what `evict`
        raises.
        """
        for _ in range(_TRIES):
            term = self._term()
            self._check(victim, term)
            namespace, _, name = victim.key.partition("/")
            body: dict[str, object] = {"metadata": {"uid": victim.uid, "labels": {EVICTS: term}}}
            marked = await self._client.patch_status(
                PODS, namespace, name, {**body, "status": status} if status else body
            )
            self._check(victim, term)
            try:
                await evict(marked.metadata.resource_version or "0")
                return
            except Conflict:
                continue
            except CotenantError:
                await self._unmark(victim)
                raise
        self._check(victim, self._term())
        try:
            await evict("")  # in any version: who writes on a pod all the time, its owner maybe, must not keep it
        except CotenantError:
            await self._unmark(victim)
            raise

    def _check(self, victim: Victim, term: str) -> None:
        if not term or term != self._term() or not self._may_act():
            raise Transient(f"{victim.key} is not evicted: this shard's lease is over")

    async def _unmark(self, victim: Victim) -> None:
        namespace, _, name = victim.key.partition("/")
        if self._may_act():
            with suppress(CotenantError):  # a mark that stays says only who wanted it
                body = {"metadata": {"uid": victim.uid, "labels": {EVICTS: None}}}
                await self._client.patch_status(PODS, namespace, name, body)
