"""Events go after an hour.

Problem: controllers, schedulers and nodes tell what they do as Event objects, which nobody deletes. Choice: upstream's time to live (kube-apiserver
`--event-ttl`, 1 h), by a look every few minutes at the server's list, because nobody needs events in a cache. Limits: an event is up to
`EVERY_S` older than that when it goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from cotenant.local.apiserver.contract import ListOptions
from cotenant.local.controllers.runtime.actions import EVENTS, Delete, Draft, Plan
from cotenant.local.controllers.runtime.cache import Key
from cotenant.local.controllers.runtime.informer import Informers
from cotenant.local.controllers.runtime.runner import Enqueue
from cotenant.local.controllers.views.core import Meta, seconds

TTL_S = 3600.0
EVERY_S = 300.0
PAGE = 1_000
_ALL: Key = ("", "all")


class _Times(msgspec.Struct, rename="camel"):
    metadata: Meta
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


_decode = msgspec.json.Decoder(_Times).decode


def expired(events: Iterable[bytes], now_s: float) -> Plan:
    """Delete those (encoded) that were last seen more than an hour ago."""
    draft = Draft()
    for raw in events:
        event = _decode(raw)
        meta = event.metadata
        seen = max(meta.created_s, seconds(event.last_timestamp) or 0.0, seconds(event.event_time) or 0.0)
        if now_s - seen > TTL_S:
            draft.add(Delete(EVENTS, meta.namespace, meta.name, meta.uid))
    return draft.plan("no event is older than an hour")


class EventExpiry:
    """Looks at all events every few minutes."""

    name = "event-expiry"

    def __init__(self, informers: Informers, clock: Callable[[], float] = time.time) -> None:
        self._api = informers.api

    def attach(self, enqueue: Enqueue) -> None:
        """Begin."""
        enqueue(_ALL)

    def all_keys(self) -> Sequence[Key]:
        """One look for all."""
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
        return Plan(plan.actions, plan.reason, now_s + EVERY_S)
