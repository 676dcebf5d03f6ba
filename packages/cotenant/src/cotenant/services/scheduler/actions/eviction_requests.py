"""EvictionRequests of the scheduler: created for pods whose server evicts by them, followed, and withdrawn.

A request has a name that only its pod has, so it exists once however often it is asked for, and by whichever replica.
One that nobody has asked for again within `KEPT_S` is not wanted any more, and one whose pod is gone has served its
purpose: `sweep` deletes both, also those of an earlier process. Each pod that leaves is looked up every second, so what
is stored is kept by pod too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, NotFound
from cotenant.drivers.kube.kinds.eviction_requests import (
    EVICTION_REQUESTS,
    EVICTIONS,
    read_eviction_progress,
    read_eviction_request,
    request_manifest,
)
from cotenant.model.cluster.eviction_request import SCHEDULER, EvictionProgress, EvictionRequest
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.errors import CotenantError
from cotenant.model.groups.migration import CREATED_BY
from cotenant.services.kube_process.watches import ObjectHandler, Watches

KEPT_S = 900.0
_LABELS = {CREATED_BY: "cotenant-scheduler"}
_log = logging.getLogger(__name__)


class _AboutAPod(Protocol):
    """A stored object about one pod."""

    @property
    def key(self) -> str: ...

    @property
    def pod_uid(self) -> str: ...


_Stored = TypeVar("_Stored", bound=_AboutAPod)


class _ByPod(Generic[_Stored]):
    """Stored objects by their own key and by their pod, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.by_key: dict[str, _Stored] = {}
        self._by_pod: dict[str, dict[str, _Stored]] = {}  # UID of the pod -> key -> object

    def put(self, stored: _Stored) -> None:
        """Keep an object, in place of what had its key."""
        before = self.by_key.get(stored.key)
        if before is not None and before.pod_uid != stored.pod_uid:
            self.pop(stored.key)
        self.by_key[stored.key] = stored
        self._by_pod.setdefault(stored.pod_uid, {})[stored.key] = stored

    def pop(self, key: str) -> _Stored | None:
        """Forget an object; returns it."""
        stored = self.by_key.pop(key, None)
        if stored is not None:
            of_pod = self._by_pod[stored.pod_uid]
            del of_pod[key]
            if not of_pod:
                del self._by_pod[stored.pod_uid]
        return stored

    def of(self, uid: str) -> Collection[_Stored]:
        """Those about a pod."""
        return self._by_pod.get(uid, {}).values()


class EvictionRequests:
    """The requests of one scheduler, as stored."""

    def __init__(self, client: Client, watches: Watches, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._requests = _ByPod[EvictionRequest]()
        self._progress = _ByPod[EvictionProgress]()  # Evictions
        self._wanted_s: dict[str, float] = {}  # when each was asked for last, by UID of the pod
        requests = ObjectHandler(read_eviction_request, self._seen, self._gone)
        self._watch = watches.handle(EVICTION_REQUESTS, requests, optional=True)
        progress = ObjectHandler(read_eviction_progress, self._progress.put, self._ended)
        watches.handle(EVICTIONS, progress, optional=True)

    def takes(self, seen: ObservedPod) -> bool:
        """Whether the server evicts such a pod by a request: it does not for a pod of a PodGroup of its own."""
        gang = seen.demands.gang
        return self._watch.is_served and not (gang is not None and gang.needs_object)

    def of(self, uid: str) -> EvictionRequest | None:
        """Our request for a pod."""
        return next(iter(self._requests.of(uid)), None)

    def in_words(self, uid: str) -> str:
        """How far the Eviction of a pod is."""
        found = self._progress.of(uid)
        newest = max(found, key=lambda progress: (bool(progress.responder), progress.created_s), default=None)
        return newest.in_words(self._now()) if newest is not None else "no Eviction has begun yet"

    def has_begun(self, uid: str) -> bool:
        """Whether the cluster acts on the request for a pod: there is an Eviction of it."""
        return bool(self._progress.of(uid))

    def responder(self, uid: str) -> tuple[str, str]:
        """Who has a pod, and what it says; changes are worth an event."""
        found = next((progress for progress in self._progress.of(uid) if progress.responder), None)
        return (found.responder, found.message) if found is not None else ("", "")

    async def ask(self, key: str, uid: str) -> bool:
        """Ask for the eviction of a pod; whether that is new. Raises `CotenantError`."""
        self._wanted_s[uid] = self._now()
        if self.of(uid) is not None:
            return False
        namespace, _, pod = key.partition("/")
        name = f"cotenant-scheduler-{uid}"
        made = request_manifest(name, namespace, pod, uid, SCHEDULER, _LABELS)
        try:
            stored = await self._client.create(EVICTION_REQUESTS, namespace, made)
        except AlreadyExists:
            stored = await self._client.get(EVICTION_REQUESTS, namespace, name)
            self._seen(read_eviction_request(stored))
            return False
        self._seen(read_eviction_request(stored))
        return True

    async def withdraw(self, uid: str) -> bool:
        """Delete our request for a pod, if there is one. Raises `CotenantError`."""
        self._wanted_s.pop(uid, None)
        request = self.of(uid)
        if request is None:
            return False
        with suppress(NotFound, Conflict):
            await self._client.delete(EVICTION_REQUESTS, request.namespace, request.name, uid=request.uid)
        self._requests.pop(request.key)
        return True

    async def sweep(self, is_there: Callable[[EvictionRequest], bool]) -> list[EvictionRequest]:
        """Withdraw what is not wanted; returns those whose pods are there still. `is_there`: whether the pod is."""
        now_s, left = self._now(), []
        for request in list(self._requests.by_key.values()):
            wanted_s = self._wanted_s.setdefault(request.pod_uid, now_s)  # an earlier process asked
            there = is_there(request)
            if there and not request.evicted and now_s - wanted_s < KEPT_S:
                continue
            try:
                await self.withdraw(request.pod_uid)
            except CotenantError as error:
                _log.warning("EvictionRequest %s is not withdrawn: %s", request.key, error)
                continue
            if there:
                left.append(request)
        return left

    def _seen(self, request: EvictionRequest) -> None:
        if request.requester == SCHEDULER:
            self._requests.put(request)

    def _gone(self, key: str) -> None:
        request = self._requests.pop(key)
        if request is not None:
            self._wanted_s.pop(request.pod_uid, None)

    def _ended(self, key: str) -> None:
        self._progress.pop(key)
