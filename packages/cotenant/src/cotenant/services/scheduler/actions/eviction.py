"""Preemptions: the nomination, then the eviction of the victims.

A preemptor whose nomination was lost is forgotten after a restart, and a victim that cannot be evicted blocks it. The
nomination is written first, so that a scheduler that restarts keeps the room; then every victim gets the
DisruptionTarget condition and is deleted with its own grace period, with its UID as a precondition.
Limits: budgets were respected as far as possible when the victims were chosen; like kube-scheduler, a preemption
without a better choice deletes all the same. A victim with responders of its own (`spec.evictionResponders`) has up to
`RESPONDERS_HAVE_S` from the request on to go in its own way, as long as the preemptor waits for it; then it is deleted:
a pod's owner must not hold back what is owed to a higher priority.
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
from cotenant.model.cluster.eviction_request import EvictionRequest
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.scheduler.actions.eviction_marks import EvictionMarks
from cotenant.services.scheduler.actions.eviction_requests import EvictionRequests
from cotenant.services.scheduler.actions.pod_status import PodStatuses
from cotenant.services.scheduler.metrics import SchedulerMetrics

RESPONDERS_HAVE_S = 60.0
BEGINS_WITHIN_S = 10.0  # a cluster that acts on requests makes the Eviction at once
_LOOKS_S = 1.0
_SWEEPS_S = 30.0
_log = logging.getLogger(__name__)


class Preemptor:
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
        requests: EvictionRequests,
        may_act: Callable[[], bool],
        agreed: Callable[[Preempt], Awaitable[Preempt | None]] | None = None,
        marks: EvictionMarks | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`changed` is called when the engine should be asked again; `may_act`: whether this replica leads; `agreed`
        asks extenders about victims, None = they spare them; `marks`: this replica is one shard of several.
        """
        self._marks = marks
        self._agreed = agreed
        self._client = client
        self._cluster = cluster
        self._statuses = statuses
        self._metrics = metrics
        self._scheduler = scheduler
        self._now = now
        self._changed = changed
        self._requests = requests
        self._may_act = may_act
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, preempt: Preempt) -> None:
        """Start a preemption."""
        self._metrics.preemptions.inc()
        self._metrics.victims.observe(len(preempt.victims))
        task = asyncio.create_task(self._carry_out(preempt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def evict(self, evict: Evict) -> None:
        """Evict one pod by an EvictionRequest where the server has them, else through the API's eviction; both honour
        its disruption budgets.
        """
        task = asyncio.create_task(self._evict_within_budgets(evict))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> None:
        """Withdraw requests that nobody wants any more, until cancelled."""
        while True:
            await self._sleep(_SWEEPS_S)
            if not self._may_act():
                continue
            for request in await self._requests.sweep(self._is_there):
                key = f"{request.namespace}/{request.pod_name}"
                self._statuses.eviction_said(request.pod_uid, key, "EvictionWithdrawn", "it is not wanted any more")

    def _is_there(self, request: EvictionRequest) -> bool:
        entry = self._cluster.find(f"{request.namespace}/{request.pod_name}")
        return entry is not None and entry.seen.uid == request.pod_uid and not entry.seen.phase.is_final

    async def _evict_within_budgets(self, evict: Evict) -> None:
        entry = self._cluster.find(evict.victim.key)
        takes = entry is not None and entry.seen.uid == evict.victim.uid and self._requests.takes(entry.seen)
        if takes and await self._ask(evict):
            return
        namespace, _, name = evict.victim.key.partition("/")

        async def send(version: str = "") -> None:
            await self._client.evict(namespace, name, evict.victim.uid, resource_version=version)

        try:
            await (send() if self._marks is None else self._marks.evict(evict.victim, {}, send))
        except (NotFound, Conflict):
            return  # gone, or another pod has its name
        except CotenantError as error:
            _log.info("%s is not evicted now (%s): %s", evict.victim.key, evict.reason, error)
            return
        finally:
            self._changed()
        self._statuses.evicted(evict)

    async def _ask(self, evict: Evict) -> bool:
        """Whether the request is all that is to be done: not where the cluster serves the kind and acts on none."""
        uid, key = evict.victim.uid, evict.victim.key
        try:
            if await self._requests.ask(key, uid):
                self._statuses.evicted(evict)
                self._statuses.eviction_said(uid, key, "EvictionRequested", evict.message)
            if await self._begins(uid, key):
                return True
            await self._requests.withdraw(uid)
            words = f"no Eviction began within {BEGINS_WITHIN_S:.0f} s: it is evicted by the API's eviction"
            self._statuses.eviction_said(uid, key, "EvictionWithdrawn", words)
            return False
        except (NotFound, Conflict):
            return True
        except (CotenantError, InvalidInput) as error:
            _log.info("the eviction of %s is not requested now (%s): %s", key, evict.reason, error)
            return True
        finally:
            self._changed()

    async def _begins(self, uid: str, key: str) -> bool:
        request = self._requests.of(uid)
        age_s = self._now() - request.created_s if request is not None else 0.0
        left_s = BEGINS_WITHIN_S - (age_s if age_s > 0 else 0.0)
        while True:
            entry = self._cluster.find(key)
            if entry is None or entry.seen.uid != uid or entry.seen.terminating or self._requests.has_begun(uid):
                return True
            if left_s <= 0:
                return False
            await self._sleep(_LOOKS_S)
            left_s -= _LOOKS_S

    async def _let_respond(self, victim: Victim, preempt: Preempt) -> bool:
        """Give a victim's responders their time. Whether it is still to be deleted."""
        entry = self._cluster.find(victim.key)
        if entry is None or entry.seen.uid != victim.uid or entry.seen.terminating:
            return True
        if not entry.seen.responders or not self._requests.takes(entry.seen):
            return True
        try:
            if await self._requests.ask(victim.key, victim.uid):
                words = f"pod {preempt.uid} is to have its room on node {victim.node}"
                self._statuses.eviction_said(victim.uid, victim.key, "EvictionRequested", words)
            asked = self._requests.of(victim.uid)
            began_s = asked.created_s if asked is not None and asked.created_s == asked.created_s else self._now()
            return await self._follow(victim, preempt, began_s)
        except (NotFound, Conflict):
            return True
        except (CotenantError, InvalidInput) as error:
            _log.info("the eviction of %s is not requested: %s", victim.key, error)
            return True
        finally:
            self._cluster.why.eviction_progress.pop(victim.uid, None)

    async def _follow(self, victim: Victim, preempt: Preempt, began_s: float) -> bool:
        said, reports = ("", ""), self._cluster.why.eviction_progress
        while True:
            entry = self._cluster.find(victim.key)
            if entry is None or entry.seen.uid != victim.uid or entry.seen.terminating:
                return False  # the watch wakes the preemptor
            no_more = self._cluster.reserved().get(preempt.uid) != preempt.node
            if no_more and not self._cluster.is_awaited(victim.uid):
                await self._requests.withdraw(victim.uid)
                self._cluster.eviction_withdrawn(victim.uid, self._now())
                self._statuses.eviction_said(victim.uid, victim.key, "EvictionWithdrawn", "its room is not needed")
                return False
            request, left_s = self._requests.of(victim.uid), began_s + RESPONDERS_HAVE_S - self._now()
            if left_s <= 0 or (request is not None and request.failed):
                why = request.failed if request is not None and request.failed else "its responders' time is over"
                self._statuses.eviction_said(victim.uid, victim.key, "EvictionForced", f"it is preempted now: {why}")
                return True
            words = self._requests.in_words(victim.uid)
            reports[victim.uid] = f"{words}; it is preempted in {left_s:.0f} s"
            if self._requests.responder(victim.uid) != said:
                said = self._requests.responder(victim.uid)
                self._statuses.eviction_said(victim.uid, victim.key, "EvictionProgress", words)
            await self._sleep(_LOOKS_S)

    def stop(self) -> None:
        """Cancel what is under way."""
        for task in self._tasks:
            task.cancel()

    async def _carry_out(self, preempt: Preempt) -> None:
        evicted: set[str] = set()
        try:
            proposed = preempt if self._agreed is None else await self._agreed(preempt)
            if proposed is None:
                self._cluster.preempt_failed(preempt.uid, self._now())
                return
            more = {victim.uid for victim in proposed.victims} - {victim.uid for victim in preempt.victims}
            preempt = proposed
            if not self._cluster.victims_added(preempt.uid, preempt.node, more, self._now()):
                for victim in preempt.victims:  # its node became of no use while extenders were asked
                    if not self._cluster.is_awaited(victim.uid):
                        self._cluster.eviction_withdrawn(victim.uid, self._now())
                return
            await self._nominate(preempt)
            async with asyncio.TaskGroup() as group:
                for victim in preempt.victims:
                    group.create_task(self._evict(victim, preempt, evicted))
        except NotFound:  # the preemptor is gone: the watch reports it
            self._cluster.preempt_failed(preempt.uid, self._now())
        except CotenantError as error:
            self._failed(preempt, error, evicted)
        except ExceptionGroup as errors:
            if errors.split(CotenantError)[1] is not None:
                self._metrics.loop_errors.inc()
                _log.exception("preemption for %s", preempt.key)
            self._failed(preempt, errors.exceptions[0], evicted)
        finally:
            self._changed()

    def _failed(self, preempt: Preempt, error: Exception, evicted: set[str]) -> None:
        _log.warning("preemption for %s on %s: %s", preempt.key, preempt.node, error)
        self._cluster.preempt_failed(preempt.uid, self._now(), evicted)
        self._statuses.failed(preempt.uid, preempt.key, f"preemption on {preempt.node}: {error}")

    async def _nominate(self, preempt: Preempt) -> None:
        namespace, _, name = preempt.key.partition("/")
        body = {"metadata": {"uid": preempt.uid}, "status": {"nominatedNodeName": preempt.node}}
        self._statuses.nominated(preempt.uid)
        await self._statuses.answered(preempt.uid)
        await self._client.patch_status(PODS, namespace, name, body)

    async def _evict(self, victim: Victim, preempt: Preempt, evicted: set[str]) -> None:
        if not await self._let_respond(victim, preempt):
            return
        namespace, _, name = victim.key.partition("/")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{self._scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        status = {"conditions": [condition]}

        async def send(version: str = "") -> None:
            await self._client.delete(PODS, namespace, name, uid=victim.uid, resource_version=version)

        try:
            if self._marks is None:
                await self._client.patch_status(
                    PODS, namespace, name, {"metadata": {"uid": victim.uid}, "status": status}
                )
                await send()
            else:
                await self._marks.evict(victim, status, send)
            evicted.add(victim.uid)
        except (NotFound, Conflict):
            return  # gone, or another pod has its name: the watch reports it
        self._statuses.preempted(victim, preempt)
