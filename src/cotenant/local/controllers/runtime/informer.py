"""Informers: one list and one watch a resource, shared by everyone in the process.

Problem: ten controllers and the simulated nodes need the same pods, decoded once, and must survive a watch that ends (too slow a reader, time
up) or a history that is gone (410). Choice: list, then watch from the list's resourceVersion; at the end of a watch go on from the last
version seen; on 410 list again and tell the difference. Handlers get (old, new) and must be quick. Limits: in-process only: it reads the
encoded events of `Api.watch`; clients over HTTP have drivers/kube.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from cotenant.local.apiserver.contract import ApiError, ListOptions, Target
from cotenant.local.apiserver.verbs import Api
from cotenant.local.controllers.runtime import actions as names
from cotenant.local.controllers.runtime.actions import ResourceName
from cotenant.local.controllers.runtime.cache import Index, Key, Named, Store
from cotenant.local.controllers.views import cluster as cluster_views
from cotenant.local.controllers.views import core as views
from cotenant.local.controllers.views import workloads as workload_views
from cotenant.local.controllers.views.core import Object

VIEWS: dict[ResourceName, type[Any]] = {
    names.PODS: views.Pod,
    names.NODES: views.NodeView,
    names.LEASES: views.Lease,
    names.NAMESPACES: cluster_views.Namespace,
    names.CLAIMS: cluster_views.PersistentVolumeClaim,
    names.VOLUMES: cluster_views.PersistentVolume,
    names.STORAGE_CLASSES: cluster_views.StorageClass,
    names.BUDGETS: cluster_views.Budget,
    names.DEPLOYMENTS: workload_views.Deployment,
    names.REPLICA_SETS: workload_views.ReplicaSet,
    names.STATEFUL_SETS: workload_views.StatefulSet,
    names.DAEMON_SETS: workload_views.DaemonSet,
    names.REVISIONS: workload_views.ControllerRevision,
    names.JOBS: workload_views.Job,
}
RETRY_S = 1.0
PAGE = 2_000

T = TypeVar("T", bound=Named)
Handler = Callable[[T | None, T | None], None]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = "0"


class _Mark(msgspec.Struct):
    metadata: _Version


_event = msgspec.json.Decoder(_Event).decode
_mark = msgspec.json.Decoder(_Mark).decode


def _by_node(pod: views.Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Informer(Generic[T]):
    """The objects of one resource, kept up to date."""

    def __init__(self, api: Api, target: Target, view: type[T], indexes: dict[str, Index[T]] | None = None) -> None:
        self._api = api
        self._target = target
        self._decode = msgspec.json.Decoder(view).decode
        self._handlers: list[Handler[T]] = []
        self._version = 0
        self.store: Store[T] = Store(indexes)
        self.synced = asyncio.Event()
        self.relists = 0
        self.broken = 0  # events that could not be decoded

    def subscribe(self, handler: Handler[T]) -> None:
        """Be told of every change; of what is there already at once."""
        self._handlers.append(handler)
        for obj in self.store:
            handler(None, obj)

    def observe(self, raw: bytes | msgspec.Raw) -> None:
        """Take in a version of an object, from the watch or from the answer to a write of ours."""
        try:
            obj = self._decode(raw)
        except msgspec.ValidationError:
            self.broken += 1  # one object that nobody can act on must not stop the others
            return
        news, old = self.store.apply(obj)
        if news:
            for handler in self._handlers:
                handler(old, obj)

    def forget(self, key: Key, uid: str = "") -> None:
        """An object is gone."""
        old = self.store.remove(key, uid)
        if old is not None:
            for handler in self._handlers:
                handler(old, None)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list()
                self.synced.set()
                await self._follow()
            except ApiError as error:
                self.relists += 1
                if error.code != 410:
                    await asyncio.sleep(RETRY_S)

    async def _list(self) -> None:
        present: set[tuple[Key, str]] = set()
        options = ListOptions(limit=PAGE)
        while True:
            page = await self._api.list(self._target, options)
            for stored in page.items:
                present.add((stored.key, stored.uid))
                self.observe(stored.raw)
            if not page.continue_token:
                break
            options = ListOptions(limit=PAGE, continue_token=page.continue_token)
            await asyncio.sleep(0)
        for obj in list(self.store):
            meta = obj.metadata
            # what a write of ours has brought in since the snapshot is newer than it
            if (meta.key, meta.uid) not in present and int(meta.resource_version or 0) <= page.resource_version:
                self.forget(meta.key, meta.uid)
        self._version = page.resource_version

    async def _follow(self) -> None:
        while True:
            options = ListOptions(resource_version=str(self._version), bookmarks=True)
            watch = self._api.watch(self._target, options)
            try:
                async for line in watch:
                    self._take(line)
            finally:
                watch.close()
            await asyncio.sleep(0)

    def _take(self, line: bytes) -> None:
        event = _event(line)
        if event.type == "BOOKMARK":
            self._version = max(self._version, int(_mark(event.object).metadata.resource_version))
            return
        if event.type == "ERROR":
            raise ApiError(410, "Expired", "the watch ended with an error")
        try:
            obj = self._decode(event.object)
        except msgspec.ValidationError:
            self.broken += 1
            self._version = max(self._version, int(_mark(event.object).metadata.resource_version))
            return
        self._version = max(self._version, int(obj.metadata.resource_version or 0))
        if event.type == "DELETED":
            self.forget(obj.metadata.key, obj.metadata.uid)
            return
        news, old = self.store.apply(obj)
        if news:
            for handler in self._handlers:
                handler(old, obj)


class Informers:
    """All informers of a process, made when asked for."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._made: dict[ResourceName, Informer[Any]] = {}
        self._tasks: dict[ResourceName, asyncio.Task[None]] = {}
        self._started = False

    def of(self, resource: ResourceName) -> Informer[Any]:
        """The informer of a resource. Raises ApiError 404 where it is not served."""
        informer = self._made.get(resource)
        if informer is None:
            target = self.api.target(*resource)
            indexes: dict[str, Index[Any]] = {"node": _by_node} if resource == names.PODS else {}
            informer = self._made[resource] = Informer(self.api, target, VIEWS.get(resource, Object), indexes)
            if self._started:
                self._start(resource, informer)
        return informer

    def have(self, resource: ResourceName) -> Informer[Any] | None:
        """The informer of a resource if somebody has asked for it."""
        return self._made.get(resource)

    def store(self, resource: ResourceName) -> Store[Any]:
        """What is known of a resource."""
        return self.of(resource).store

    async def start(self) -> None:
        """List everything, then go on watching in the background."""
        self._started = True
        for resource, informer in self._made.items():
            self._start(resource, informer)
        await self.wait_synced()

    async def wait_synced(self) -> None:
        """Until every informer has listed."""
        for informer in list(self._made.values()):
            await informer.synced.wait()

    async def stop(self) -> None:
        """End all watches."""
        self._started = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop(self, resource: ResourceName) -> None:
        """Stop following a resource that is not served any more."""
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
        self._made.pop(resource, None)

    def _start(self, resource: ResourceName, informer: Informer[Any]) -> None:
        if resource not in self._tasks:
            self._tasks[resource] = asyncio.create_task(informer.run(), name=f"informer {resource[1]}")
