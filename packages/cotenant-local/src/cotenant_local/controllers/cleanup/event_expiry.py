"""Deletes events older than an hour.

Controllers, schedulers and nodes record Events, which nothing else deletes. Upstream's time to live (kube-apiserver
`--event-ttl`, 1 h), applied every few minutes to the server's list, because no consumer needs events in a cache.
Limits: an event may outlive the limit by up to `INTERVAL_S`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from cotenant_local.apiserver.contract import ListOptions
from cotenant_local.controllers.runtime.actions import EVENTS, Delete, Draft, Plan
from cotenant_local.controllers.runtime.cache import Key
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.runtime.runner import Enqueue
from cotenant_local.controllers.views.core import Meta, seconds

TTL_S = 3600.0
INTERVAL_S = 300.0
PAGE = 1_000
_ALL: Key = ("", "all")


class _Times(msgspec.Struct, rename="camel"):
    metadata: Meta
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


_decode = msgspec.json.Decoder(_Times).decode


def expired(events: Iterable[bytes], now_s: float) -> Plan:
    """Delete events, given as JSON, that were last seen more than an hour ago."""
    draft = Draft()
    for raw in events:
        event = _decode(raw)
        meta = event.metadata
        seen = max(meta.created_s, seconds(event.last_timestamp) or 0.0, seconds(event.event_time) or 0.0)
        if now_s - seen > TTL_S:
            draft.add(Delete(EVENTS, meta.namespace, meta.name, meta.uid))
    return draft.plan("no event is older than an hour")


class EventExpiry:
    """Checks all events every `INTERVAL_S`."""

    name = "event-expiry"

    def __init__(self, informers: Informers, clock: Callable[[], float] = time.time) -> None:
        self._api = informers.api

    def attach(self, enqueue: Enqueue) -> None:
        """Queue the first check."""
        enqueue(_ALL)

    def all_keys(self) -> Sequence[Key]:
        """One key for all events."""
        return (_ALL,)

    async def plan(self, key: Key, now_s: float) -> Plan:
        """See `expired`."""
        found: list[bytes] = []
        token = ""
        while True:
            page = await self._api.list(self._api.target(*EVENTS), ListOptions(limit=PAGE, continue_token=token))
            found += [item.raw for item in page.items]
            token = page.continue_token
            if not token:
                break
        plan = expired(found, now_s)
        return Plan(plan.actions, plan.reason, now_s + INTERVAL_S)
