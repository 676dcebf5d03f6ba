"""Moves that nodes ask for, made into PodMigrationJobs.

An agent that has no permitted action left knows two pods that should not be on one node; no agent may create
migrations, or every node could have every pod evicted. The agent reports it to this process, which has its own view:
the objective must exist and allow evictions, its replica must burn now by the spans that were counted here, and the API
server must say that both pods run on the node that asks. Then one job is created whose landing the rebalancer simulates
first; either pod may move. The job's name follows from the request, so a repeated one changes nothing. At most
`PER_MINUTE` requests a minute are made.
Limits: whoever may ask with the token can name the pods of any node on which a service does burn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, NotFound
from cotenant.drivers.kube.client.limits import TokenBucket
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS, job_manifest
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.engine.traces.objectives import TrackedObjectives
from cotenant.model.errors import CotenantError, InvalidInput, Transient
from cotenant.model.groups.migration import MigrationJob, PodRef
from cotenant.model.machine.replica_signal import MaxAction
from cotenant.services.reporting.signals import ActionTaken

PER_MINUTE = 6
MAX_WAITING = 64
TTL_S = 300.0
OLDEST_S = 120.0  # an older request is not made: the agent has given up or asks again
CREATED_BY = "cotenant-traces"
TRIGGER = "Recovery"
RETRY_S = 5.0
_log = logging.getLogger(__name__)


class MoveRequests:
    """The requests of all nodes. `burns` tells whether a pod of a node burns the budget of an objective now; `now`
    gives Unix seconds.
    """

    def __init__(
        self,
        client: Client,
        objectives: TrackedObjectives,
        burns: Callable[[str, str, str], bool],
        now: Callable[[], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.counts = {"created": 0, "refused": 0, "dropped": 0}
        self._client, self._objectives, self._burns, self._now = client, objectives, burns, now
        self._monotonic, self._sleep = monotonic, sleep
        self._bucket = TokenBucket(PER_MINUTE / 60, PER_MINUTE)
        self._waiting: dict[str, ActionTaken] = {}
        self._some = asyncio.Event()

    def ask(self, action: ActionTaken) -> None:
        """Request a move soon. Raises `InvalidInput` where the objective or its replica does not permit it."""
        tracked = self._objectives.get(action.objective)
        try:
            if tracked is None:
                raise InvalidInput("objective", action.objective, "a known objective")
            objective = tracked.objective
            if not objective.may_protect or objective.max_action is not MaxAction.EVICT:
                raise InvalidInput("objective", action.objective, "protect.maxAction evict, which moves need")
            if not self._objectives.may_act(tracked):
                raise InvalidInput(
                    "objective", action.objective, "spans of authenticated senders: others are only observed"
                )
            for field, key in (("pod", action.pod), ("culprit", action.culprit)):
                if not all(key.partition("/")[::2]):
                    raise InvalidInput(field, key, "NAMESPACE/NAME")
            if not self._burns(action.node, action.objective, action.pod):
                raise InvalidInput("pod", action.pod, f"a replica that burns the budget of {action.objective} now")
        except InvalidInput:
            self.counts["refused"] += 1
            raise
        if len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
            self.counts["dropped"] += 1
        self._waiting[_name(action)] = action
        self._some.set()

    async def run(self) -> None:
        """Make the requests, until cancelled."""
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            wait_s = self._bucket.take(self._monotonic())
            if wait_s > 0:
                await self._sleep(wait_s)
            name = next(iter(self._waiting))
            action = self._waiting.pop(name)
            if self._now() - action.at_s > OLDEST_S:
                self.counts["dropped"] += 1
                continue
            try:
                await self._make(name, action)
            except Transient as error:
                self._waiting.setdefault(name, action)
                await self._sleep(max(RETRY_S, error.retry_after_s))
            except CotenantError as error:
                self.counts["refused"] += 1
                _log.warning("a move of %s or %s is not requested: %s", action.culprit, action.pod, error)

    async def _make(self, name: str, action: ActionTaken) -> None:
        for field, key in (("pod", action.pod), ("culprit", action.culprit)):
            node = await self._node_of(key)
            if node != action.node:
                raise InvalidInput(
                    field, key, f"a pod on node {action.node}", f"it is on {node}" if node else "it is on none"
                )
        namespace, _, pod = action.culprit.partition("/")
        job = MigrationJob(
            name=name,
            uid="",
            pod=PodRef(namespace, pod),
            ttl_s=TTL_S,
            reason=action.text,
            trigger=TRIGGER,
            what_if=True,
            alternatives=(action.pod,),
            created_by=CREATED_BY,
        )
        try:
            await self._client.create(MIGRATION_JOBS, "", job_manifest(job))
        except AlreadyExists:
            return
        self.counts["created"] += 1

    async def _node_of(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        try:
            pod = await self._client.get(PODS, namespace, name)
        except NotFound:
            return ""
        return (pod.spec.node_name if pod.spec is not None else None) or ""


def _name(action: ActionTaken) -> str:
    about = f"{action.node} {action.pod} {action.culprit} {action.at_s:.0f}"
    return f"recovery-{sha256(about.encode()).hexdigest()[:16]}"
