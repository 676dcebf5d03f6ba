"""Carrying out binds: many under way at once, each answered to the engine exactly once.

Problem: an answer may be lost after the bind took effect, the pod may be gone or bound by another, and the right of this replica to bind may
end at any moment. Choice: a few workers take binds from one queue; a bind that is not sent yet can be withheld until the last moment
(`Cluster.sending`); where an answer does not say what happened, the pod is read until the server says how it stands. Limits: claims
that wait for their volume wait beside the workers, each up to `VOLUMES_WITHIN_S`, as kube-scheduler's bindTimeoutSeconds has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Conflict, NotFound, Throttled, Unavailable
from cotenant.drivers.kube.kinds.pod.demands import written_holdings
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind
from cotenant.model.cluster.annotations import DECISION
from cotenant.model.errors import CotenantError, Transient
from cotenant.services.scheduler.actions.claims import Claiming
from cotenant.services.scheduler.actions.pod_status import PodStatuses
from cotenant.services.scheduler.decision_annotation import written
from cotenant.services.scheduler.metrics import Metrics

VOLUMES_WITHIN_S = 600.0
_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

_log = logging.getLogger(__name__)


class Binder:
    """Sends binds, at most `in_flight` at once."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        reader: PodReader,
        claiming: Claiming,
        statuses: PodStatuses,
        metrics: Metrics,
        now: Callable[[], float],
        *,
        in_flight: int,
        may_bind: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        """`may_bind`: whether this replica leads; `changed` is called when the engine should be asked again."""
        self._client = client
        self._cluster = cluster
        self._reader = reader
        self._claiming = claiming
        self._statuses = statuses
        self._metrics = metrics
        self._now = now
        self._in_flight = in_flight
        self._may_bind = may_bind
        self._changed = changed
        self._waiting: deque[Bind] = deque()
        self._some = asyncio.Event()
        self._claims: set[asyncio.Task[None]] = set()
        self.under_way = 0

    @property
    def backlog(self) -> int:
        """Binds decided and not answered."""
        return len(self._waiting) + self.under_way

    def add(self, bind: Bind) -> None:
        """Queue a bind."""
        self._waiting.append(bind)
        self._some.set()

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
        """Let binds under way be answered, for so long."""
        deadline = asyncio.get_running_loop().time() + within_s
        while self.under_way and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)

    def withhold(self, why: str) -> None:
        """Take back every bind that was not sent."""
        while self._waiting:
            self._cluster.bind_failed(self._waiting.popleft().uid, why, self._now())

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            bind = self._waiting.popleft()
            if not self._may_bind():
                self._cluster.bind_failed(bind.uid, "not leading", self._now())
                continue
            if bind.claims:
                task = asyncio.create_task(self._with_claims(bind))
                self._claims.add(task)
                task.add_done_callback(self._claims.discard)
                continue
            await self._guarded(bind)

    async def _with_claims(self, bind: Bind) -> None:
        if not self._cluster.sending(bind.uid, self._now()):
            return
        try:
            await self._claiming.settle(bind, VOLUMES_WITHIN_S)
        except CotenantError as error:
            self._failed(bind, f"volumes: {error}", "volumes")
            return
        await self._guarded(bind, sent=True)

    async def _guarded(self, bind: Bind, sent: bool = False) -> None:
        self.under_way += 1
        try:
            await self._bind(bind, sent)
        except CotenantError as error:
            self._failed(bind, str(error), type(error).__name__)
        except Exception:  # one pod's trouble must not end the others' binds
            self._metrics.loop_errors.inc()
            _log.exception("bind of %s", bind.key)
            self._cluster.bind_failed(bind.uid, "unforeseen error", self._now())
        finally:
            self.under_way -= 1
            self._changed()

    async def _bind(self, bind: Bind, sent: bool) -> None:
        cluster, now = self._cluster, self._now
        if not sent and not cluster.sending(bind.uid, now()):
            return  # taken back meanwhile
        namespace, _, name = bind.key.partition("/")
        annotations = {
            DECISION: written(bind.record, bind.waited_s, bind.attempts),
            **written_holdings(bind.holds, bind.has),
        }
        pause_s = _PAUSE_S
        while True:
            begun_s = now()
            try:
                await self._client.bind(namespace, name, bind.uid, bind.node, annotations)
            except NotFound:
                cluster.bind_failed(bind.uid, "pod not found", now(), retry=False)
                self._metrics.error.inc()
                return
            except Conflict as error:
                await self._look(bind, str(error))
                return
            except Throttled as error:
                if not self._may_bind():
                    raise
                await asyncio.sleep(max(error.retry_after_s, pause_s))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            except Unavailable as error:
                if not error.maybe_done:
                    raise
                await self._look(bind, str(error))
                return
            self._done(bind, begun_s)
            return

    def _done(self, bind: Bind, begun_s: float) -> None:
        metrics, now_s = self._metrics, self._now()
        self._cluster.bound(bind.uid, now_s)
        metrics.scheduled.inc()
        metrics.binding_duration.observe(max(0.0, now_s - begun_s))
        metrics.attempt_duration.observe(max(0.0, now_s - bind.record.at_s))
        metrics.sli_duration.labels(_attempts(bind.attempts)).observe(
            max(0.0, bind.waited_s + now_s - bind.record.at_s)
        )
        metrics.attempts.observe(bind.attempts)
        self._statuses.scheduled(bind)

    async def _look(self, bind: Bind, why: str) -> None:
        """Nobody knows how the bind ended, or another was faster: read the pod until the server says."""
        namespace, _, name = bind.key.partition("/")
        pause_s = _PAUSE_S
        while True:
            try:
                pod = await self._client.get(PODS, namespace, name)
            except NotFound:
                self._cluster.bind_failed(bind.uid, "pod not found", self._now(), retry=False)
                return
            except Transient as error:
                _log.warning("bind of %s to %s: %s; then %s; asking again", bind.key, bind.node, why, error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            break
        seen = self._reader.pod(pod)
        if seen.uid != bind.uid:
            self._cluster.bind_failed(bind.uid, "another pod of that name", self._now(), retry=False)
        elif seen.node == bind.node:
            self._cluster.bound(bind.uid, self._now())
            self._metrics.scheduled.inc()
            self._statuses.scheduled(bind)
        elif seen.node:
            self._cluster.pod_seen(seen, self._now())  # bound by another
        else:
            self._failed(bind, why, "Conflict")

    def _failed(self, bind: Bind, why: str, kind: str) -> None:
        self._metrics.error.inc()
        self._cluster.bind_failed(bind.uid, kind, self._now())
        self._statuses.failed(bind.uid, bind.key, f"binding to {bind.node}: {why}")
        _log.warning("bind of %s to %s: %s", bind.key, bind.node, why)


def _attempts(count: int) -> str:
    return str(count) if count < 16 else "16+"
