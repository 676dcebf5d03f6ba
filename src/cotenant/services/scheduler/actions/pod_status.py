"""What pods' owners are told: the PodScheduled condition and Events, without drowning the API server.

Problem: ten thousand pods that cannot be placed would be ten thousand writes for every change of words, in front of the binds that could be
made. Choice: the newest words of each pod wait in one place, and a slow worker writes so many conditions a second; events go by the driver's
own writer, which drops and counts what is too much. Limits: a condition may be late by as many seconds as there are pods over the rate.
Source: kube-scheduler's condition (PodScheduled=False, reason Unschedulable) and its events Scheduled, FailedScheduling, Preempted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.client.limits import TokenBucket
from cotenant.drivers.kube.kinds.objects import PODS, ObjectReference
from cotenant.drivers.kube.record.writer import EventWriter
from cotenant.engine.framework.instructions import Bind, ClearNomination, Evict, Preempt, Unschedulable, Victim
from cotenant.model.errors import CotenantError, Transient

_MESSAGE_BYTES = 1000  # an Event's message may have 1,024

_log = logging.getLogger(__name__)


class Notices:
    """Writes conditions and events, at most `per_s` of each a second."""

    def __init__(
        self, client: Client, component: str, instance: str, *, per_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._client = client
        self._monotonic = monotonic
        self._conditions: dict[str, Unschedulable | ClearNomination] = {}  # by uid and kind: the newest words
        self._some = asyncio.Event()
        burst = max(1, int(per_s))
        self._bucket = TokenBucket(per_s, burst)
        self.events = EventWriter(client, component, instance, qps=per_s, burst=burst, monotonic=monotonic)
        self.events_dropped = 0

    # ---- what is to be told

    def scheduled(self, bind: Bind) -> None:
        """A pod was bound; it need not be told any more why it waits."""
        self._conditions.pop(bind.uid, None)
        self._event(bind.uid, bind.key, "Normal", "Scheduled", f"Successfully assigned {bind.key} to {bind.node}")

    def unschedulable(self, why: Unschedulable) -> None:
        """A pod waits, for these reasons."""
        self._conditions[why.uid] = why
        self._some.set()
        self._event(why.uid, why.key, "Warning", "FailedScheduling", why.message)

    def failed(self, uid: str, key: str, why: str) -> None:
        """A decision could not be carried out."""
        self._event(uid, key, "Warning", "FailedScheduling", why)

    def nomination_cleared(self, cleared: ClearNomination) -> None:
        """A pod is nominated no more."""
        self._conditions[f"nomination of {cleared.uid}"] = cleared
        self._some.set()

    def preempted(self, victim: Victim, by: Preempt) -> None:
        """A pod is evicted for another."""
        self._event(victim.uid, victim.key, "Normal", "Preempted", f"Preempted by pod {by.uid} on node {by.node}")

    def evicted(self, evict: Evict) -> None:
        """A pod was evicted for a reason of its own."""
        self._event(evict.victim.uid, evict.victim.key, "Normal", evict.reason, evict.message)

    def waiting(self) -> int:
        """Conditions that are not written yet."""
        return len(self._conditions)

    def _event(self, uid: str, key: str, kind: str, reason: str, message: str) -> None:
        namespace, _, name = key.partition("/")
        about = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name, uid=uid)
        short = message.encode()[:_MESSAGE_BYTES].decode("utf-8", "ignore")
        if not self.events.record(about, kind, reason, short):
            self.events_dropped += 1

    # ---- writing

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_conditions())
            group.create_task(self.events.run())

    async def _write_conditions(self) -> None:
        while True:
            while not self._conditions:
                self._some.clear()
                await self._some.wait()
            wait_s = self._bucket.take(self._monotonic())
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if not self._conditions:
                continue
            key = next(iter(self._conditions))
            what = self._conditions.pop(key)
            try:
                await self._write(what)
            except NotFound:
                continue
            except Transient as error:
                self._conditions.setdefault(key, what)  # unless there are newer words already
                await asyncio.sleep(min(5.0, max(0.5, error.retry_after_s)))
            except CotenantError as error:
                _log.warning("status of %s: %s", what.key, error)

    async def _write(self, what: Unschedulable | ClearNomination) -> None:
        namespace, _, name = what.key.partition("/")
        if isinstance(what, ClearNomination):
            body: dict[str, object] = {"metadata": {"uid": what.uid}, "status": {"nominatedNodeName": None}}
        else:
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": what.reason,
                "message": what.message,
                "lastProbeTime": None,
                "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            body = {"metadata": {"uid": what.uid}, "status": {"conditions": [condition]}}
        await self._client.patch_status(PODS, namespace, name, body)
