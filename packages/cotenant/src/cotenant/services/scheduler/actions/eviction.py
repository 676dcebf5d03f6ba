"""Preemptions: the nomination, then the eviction of the victims.

Problem: a preemptor whose nomination was lost is forgotten after a restart, and a victim that cannot be evicted blocks
it. Choice: the nomination is written first, so that a scheduler that restarts keeps the room; then every victim gets
the DisruptionTarget condition and is deleted with its own grace period, with its UID as a precondition. Limits: budgets
were respected as far as possible when the victims were chosen; like kube-scheduler, a preemption without a better
choice deletes all the same.
Source: Kubernetes documentation, "Pod Priority and Preemption" and "Pod disruption conditions".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict, Preempt, Victim
from cotenant.model.errors import CotenantError
from cotenant.services.scheduler.actions.pod_status import PodStatuses
from cotenant.services.scheduler.metrics import SchedulerMetrics

_log = logging.getLogger(__name__)


class Evictor:
    """Carries out preemptions, several at once."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        statuses: PodStatuses,
        metrics: SchedulerMetrics,
        scheduler: str,
        now: Callable[[], float],
        changed: Callable[[], None],
        agreed: Callable[[Preempt], Awaitable[Preempt | None]] | None = None,
    ) -> None:
        """`agreed`: asks extenders about victims; None = they spare them."""
        self._agreed = agreed
        self._client = client
        self._cluster = cluster
        self._statuses = statuses
        self._metrics = metrics
        self._scheduler = scheduler
        self._now = now
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, preempt: Preempt) -> None:
        """Start a preemption."""
        self._metrics.preemptions.inc()
        self._metrics.victims.observe(len(preempt.victims))
        task = asyncio.create_task(self._carry_out(preempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def evict(self, evict: Evict) -> None:
        """Evict one pod through the API's eviction, which honours its disruption budgets."""
        task = asyncio.create_task(self._evict_within_budgets(evict))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _evict_within_budgets(self, evict: Evict) -> None:
        namespace, _, name = evict.victim.key.partition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": evict.victim.uid}},
        }
        try:
            await self._client.request("POST", PODS.path(namespace, name, "eviction"), body)
        except (NotFound, Conflict):
            return  # gone, or another pod has its name
        except CotenantError as error:
            _log.info("%s is not evicted now (%s): %s", evict.victim.key, evict.reason, error)
            return
        finally:
            self._changed()
        self._statuses.evicted(evict)

    def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()

    async def _carry_out(self, preempt: Preempt) -> None:
        try:
            proposed = preempt if self._agreed is None else await self._agreed(preempt)
            if proposed is None:
                self._cluster.preempt_failed(preempt.uid, self._now())
                return
            preempt = proposed
            await self._nominate(preempt)
            async with asyncio.TaskGroup() as group:
                for victim in preempt.victims:
                    group.create_task(self._evict(victim, preempt))
        except NotFound:
            pass  # the preemptor is gone: the watch reports it
        except CotenantError as error:
            self._failed(preempt, error)
        except ExceptionGroup as errors:
            if errors.split(CotenantError)[1] is not None:
                self._metrics.loop_errors.inc()
                _log.exception("preemption for %s", preempt.key)
            self._failed(preempt, errors.exceptions[0])
        finally:
            self._changed()

    def _failed(self, preempt: Preempt, error: Exception) -> None:
        _log.warning("preemption for %s on %s: %s", preempt.key, preempt.node, error)
        self._cluster.preempt_failed(preempt.uid, self._now())

    async def _nominate(self, preempt: Preempt) -> None:
        namespace, _, name = preempt.key.partition("/")
        body = {"metadata": {"uid": preempt.uid}, "status": {"nominatedNodeName": preempt.node}}
        await self._client.patch_status(PODS, namespace, name, body)

    async def _evict(self, victim: Victim, preempt: Preempt) -> None:
        namespace, _, name = victim.key.partition("/")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        try:
            await self._client.patch_status(
                PODS, namespace, name, {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
            )
            await self._client.delete(PODS, namespace, name, uid=victim.uid)
        except (NotFound, Conflict):
            return  # gone, or another pod has its name: the watch reports it
        self._statuses.preempted(victim, preempt)
