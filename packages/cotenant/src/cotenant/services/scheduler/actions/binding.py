"""Binding pods: many requests under way at once, each reported to the engine exactly once.

An answer may be lost after the bind took effect, the pod may be gone or bound by another scheduler, and the right of
this replica to bind may end at any moment. A few workers take binds from one queue; a bind that is not sent yet can be
withheld until the last moment (`BindOutcomes.sending`). What each answer of the API server leads to:

    201                     bound
    404                     the pod is gone: not tried again
    409                     the pod is read (below)
    429                     sent again once Retry-After is over, while this replica leads
    5xx                     it may have taken effect: once Retry-After is over, the pod is read
    no answer, cut          it may have taken effect: the pod is read
    no connection, other    not bound: the engine tries again after its back-off

A pod that is read is bound (by an earlier request of ours, or by another scheduler), unbound (the engine tries again),
gone, or another pod: a pod with another UID under the same name is never taken for ours. Where reading fails and may
succeed later, it is repeated until the server answers. Limits: claims that wait for their volume wait beside the
workers, each up to `VOLUMES_WITHIN_S`, like kube-scheduler's bindTimeoutSeconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Protocol

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound, Throttled, Unavailable
from cotenant.drivers.kube.kinds.pod.demands import written_holdings
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.seals.seals import Sealer
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.rules.claims.instructions import ReleaseClaim
from cotenant.model.cluster.annotations import DECISION
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.seal import SEAL, SETTLED
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.scheduler.actions.extenders import ExtenderBind, NoAnswer
from cotenant.services.scheduler.actions.pod_status import PodStatuses
from cotenant.services.scheduler.decision_annotation import written
from cotenant.services.scheduler.metrics import SchedulerMetrics
from cotenant.services.scheduling.claim_writer import DeviceClaimWriter
from cotenant.services.scheduling.claims import VOLUMES_WITHIN_S, ClaimBinder

_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_MAX_LOOKS = 3
TOLD_AFTER_S = 1.0  # a pod whose claims take longer is told that it has a node and waits for them

_log = logging.getLogger(__name__)


class BindOutcomes(Protocol):
    """The engine, as far as binds are reported to it, each by its pod's UID and its number. Times are those of the
    process's clock.
    """

    def sending(self, uid: str, now_s: float, number: int) -> bool:
        """The bind is about to be sent. False = it was withdrawn meanwhile, do not send it."""
        ...

    def bound(self, uid: str, now_s: float, number: int) -> None:
        """The pod is bound to the node that the engine chose."""
        ...

    def bind_failed(self, uid: str, why: str, now_s: float, retry: bool = True, number: int = 0) -> None:
        """The pod is not bound. `retry` False = that pod no longer exists."""
        ...

    def bound_elsewhere(self, seen: ObservedPod, now_s: float, number: int) -> None:
        """A request found the pod on another node."""
        ...


class Binder:
    """Sends binds, at most `in_flight` at once."""

    def __init__(
        self,
        client: Client,
        outcomes: BindOutcomes,
        reader: PodReader,
        claims: ClaimBinder,
        statuses: PodStatuses,
        metrics: SchedulerMetrics,
        now: Callable[[], float],
        *,
        in_flight: int,
        may_bind: Callable[[], bool],
        changed: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        sealer: Sealer | None = None,
        volumes_within_s: float = VOLUMES_WITHIN_S,
        bound_by: Callable[[str], ExtenderBind | None] | None = None,
        version_of: Callable[[str, str], str] | None = None,
    ) -> None:
        """`may_bind`: whether this replica leads; `changed` is called when the engine should be asked again.
        `bound_by`: who else binds a pod. `version_of`: by key and UID, the version of a pod as last seen; a bind names
        it then, so that one that is sent too late is refused where the pod was changed since.
        """
        self._version_of = version_of
        self._bound_by = bound_by
        self._client = client
        self._outcomes = outcomes
        self._reader = reader
        self._claim_binder = claims
        self._statuses = statuses
        self._metrics = metrics
        self._now = now
        self._in_flight = in_flight
        self._may_bind = may_bind
        self._sealer = sealer
        self.devices: DeviceClaimWriter | None = None  # set with the watches of claims
        self._volumes_within_s = volumes_within_s
        self._changed = changed
        self._sleep = sleep
        self._waiting: deque[Bind] = deque()
        self._queued = asyncio.Semaphore(0)  # wakes one worker a bind; an event would wake all of them
        self._claims: set[asyncio.Task[None]] = set()
        self.under_way = 0

    @property
    def backlog(self) -> int:
        """Binds decided and not answered."""
        return len(self._waiting) + self.under_way

    def add(self, bind: Bind) -> None:
        """Queue a bind."""
        self._waiting.append(bind)
        self._queued.release()

    def release(self, given: ReleaseClaim) -> None:
        """Give a claim back."""
        if self.devices is not None:
            self._beside(self.devices.release(given))

    def _beside(self, work: Coroutine[None, None, None]) -> None:
        """Run something that takes long beside the workers."""
        task = asyncio.create_task(work)
        self._claims.add(task)
        task.add_done_callback(self._claims.discard)

    async def run(self) -> None:
        """Until cancelled; then nothing more is sent, and what is under way is cut."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._in_flight):
                    group.create_task(self._work())
        finally:
            for task in self._claims:
                task.cancel()

    async def drain(self, within_s: float) -> None:
        """Wait until binds under way are answered, at most so long."""
        deadline = asyncio.get_running_loop().time() + within_s
        while self.under_way and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)

    def withhold(self, why: str) -> None:
        """Report every bind that was not sent as failed."""
        while self._waiting:
            self._not_bound(self._waiting.popleft(), why)

    def _not_bound(self, bind: Bind, why: str, retry: bool = True) -> None:
        self._outcomes.bind_failed(bind.uid, why, self._now(), retry, bind.number)

    async def _work(self) -> None:
        while True:
            await self._queued.acquire()
            if not self._waiting:
                continue  # withheld meanwhile
            bind = self._waiting.popleft()
            if not self._may_bind():
                self._not_bound(bind, "not leading")
                continue
            if bind.claims or bind.holds.claims:
                self._beside(self._with_claims(bind))
                continue
            await self._guarded(bind)

    async def _with_claims(self, bind: Bind) -> None:
        if not self._outcomes.sending(bind.uid, self._now(), bind.number):
            return
        loop = asyncio.get_running_loop()
        telling = loop.call_later(TOLD_AFTER_S, self._statuses.awaits_claims, bind)
        try:
            ready = await self._claimed(bind)
        finally:
            telling.cancel()
        if ready is not None:
            await self._guarded(ready, sent=True)

    async def _claimed(self, bind: Bind) -> Bind | None:
        """The bind once its claims are as it needs them; None where that failed, which is reported."""
        what = "volumes"
        try:
            if bind.claims:
                await self._claim_binder.bind_claims(bind, self._volumes_within_s)
            what = "device claims"
            if bind.holds.claims and self.devices is not None:
                return await self.devices.write_claims(bind)
        except CotenantError as error:
            self._report(bind, f"{what}: {error}", what)
            return None
        return bind

    async def _guarded(self, bind: Bind, sent: bool = False) -> None:
        self.under_way += 1
        try:
            await self._bind(bind, sent)
        except CotenantError as error:
            self._failed(bind, str(error), type(error).__name__)
        except Exception:  # an error with one pod must not end the others' binds
            self._metrics.loop_errors.inc()
            _log.exception("bind of %s", bind.key)
            self._not_bound(bind, "unforeseen error")
        finally:
            self.under_way -= 1
            self._changed()

    async def _bind(self, bind: Bind, sent: bool) -> None:
        begun_s = self._now()
        if not sent and not self._outcomes.sending(bind.uid, begun_s, bind.number):
            return  # withdrawn meanwhile
        if self._statuses.conditions.writing is not None:  # why it waited must not be stored after the bind
            await self._statuses.answered(bind.uid)
        namespace, _, name = bind.key.partition("/")
        annotations = {DECISION: written(bind.record, bind.waited_s, bind.attempts)}
        if bind.written or bind.holds != NO_HOLDINGS:
            annotations |= written_holdings(bind.holds, bind.written)
        if self._sealer is not None and replace(bind.holds, claims=()) != NO_HOLDINGS:
            annotations[SEAL] = self._sealer.seal(bind.uid, bind.node, annotations)
        if self._sealer is not None and bind.settled:
            annotations[SETTLED] = self._sealer.statement(bind.uid, bind.node, dict(bind.settled))
        pause_s, version, looks = _PAUSE_S, "", 0
        while True:
            if self._version_of is not None:  # no wait between these two: what is sent late has an old version
                if not self._may_bind():
                    self._not_bound(bind, "not leading")
                    return
                version = version or self._version_of(bind.key, bind.uid)
            try:
                other = self._bound_by(bind.uid) if self._bound_by is not None else None
                if other is not None:
                    await other(bind)
                else:
                    await self._client.bind(namespace, name, bind.uid, bind.node, annotations, resource_version=version)
            except NotFound:
                self._not_bound(bind, "pod not found", retry=False)
                self._metrics.error.inc()
            except Conflict as error:
                looks += 1
                version = await self._look(bind, error, again=self._version_of is not None and looks < _MAX_LOOKS)
                if version:
                    continue
            except Throttled as error:
                await self._sleep(max(error.retry_after_s, pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                if not self._may_bind():
                    raise
                begun_s = self._now()
                continue
            except Unavailable as error:
                if not error.maybe_done:
                    raise
                if (asked_s := _asked_s(error)) > 0:
                    await self._sleep(asked_s)
                await self._look(bind, error)
            except NoAnswer as error:
                await self._look(bind, error)
            else:
                self._done(bind, begun_s)
            return

    def _done(self, bind: Bind, begun_s: float) -> None:
        metrics, now_s = self._metrics, self._now()
        self._outcomes.bound(bind.uid, now_s, bind.number)
        metrics.scheduled.inc()
        metrics.binding_duration.observe(max(0.0, now_s - begun_s))
        metrics.attempt_duration.observe(max(0.0, now_s - bind.record.at_s))
        metrics.sli_duration.labels(_attempts(bind.attempts)).observe(
            max(0.0, bind.waited_s + now_s - bind.record.at_s)
        )
        metrics.attempts.observe(bind.attempts)
        self._statuses.scheduled(bind)

    async def _look(self, bind: Bind, error: CotenantError, again: bool = False) -> str:
        """Read the pod until the server says how it stands: it is not known how the bind ended, or another
        scheduler was faster. `again`: where it is still unbound, its version is returned, and nothing reported.
        """
        namespace, _, name = bind.key.partition("/")
        pause_s = _PAUSE_S
        while True:
            try:
                pod = await self._client.get(PODS, namespace, name)
                break
            except NotFound:
                self._not_bound(bind, "pod not found", retry=False)
                return ""
            except Transient as failure:
                _log.warning("bind of %s to %s: %s; then %s; asking again", bind.key, bind.node, error, failure)
                await self._sleep(max(_asked_s(failure), pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        seen = self._reader.pod(pod)
        if seen.uid != bind.uid:
            self._not_bound(bind, "another pod of that name", retry=False)
        elif seen.node == bind.node:
            self._outcomes.bound(bind.uid, self._now(), bind.number)
            self._metrics.scheduled.inc()
            self._statuses.scheduled(bind)
        elif seen.node:
            self._outcomes.bound_elsewhere(seen, self._now(), bind.number)
        elif again and not seen.gates and not seen.terminating:
            return pod.metadata.resource_version or ""
        else:
            self._failed(bind, str(error), type(error).__name__)
        return ""

    def _failed(self, bind: Bind, why: str, kind: str) -> None:
        """The pod is not bound: first what its claims got is taken back."""
        if not bind.holds.claims or self.devices is None:
            self._report(bind, why, kind)
            return
        self._beside(self._take_back(bind, why, kind))

    async def _take_back(self, bind: Bind, why: str, kind: str) -> None:
        assert self.devices is not None
        await self.devices.take_back(bind)
        self._report(bind, why, kind)
        self._changed()

    def _report(self, bind: Bind, why: str, kind: str) -> None:
        self._metrics.error.inc()
        self._not_bound(bind, kind)
        self._statuses.failed(bind.uid, bind.key, f"binding to {bind.node}: {why}")
        _log.warning("bind of %s to %s: %s", bind.key, bind.node, why)


def _asked_s(error: Transient) -> float:
    """For how long the server asked to wait; 0 where it did not answer."""
    answered = isinstance(error, Throttled) or (isinstance(error, Unavailable) and error.code > 0)
    return error.retry_after_s if answered else 0.0


def _attempts(count: int) -> str:
    return str(count) if count < 16 else "16+"
