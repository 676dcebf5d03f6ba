"""Informers: one list and one watch per resource, shared by all consumers in the process.

Ten controllers and the simulated nodes need the same pods, decoded once, and must survive a watch that ends (a slow
reader, a timeout) or an expired history (410). List, then watch from the list's resourceVersion; when a watch ends,
resume from the last version seen; on 410 list again and deliver the difference. Handlers receive (old, new) and must
return quickly.
Limits: in-process only, since it reads the encoded events of `Api.watch`; HTTP clients use drivers/kube.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant_local.apiserver.contract import ListOptions, RequestTarget
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.runtime import actions
from cotenant_local.controllers.runtime.actions import ResourceName
from cotenant_local.controllers.runtime.cache import CachedObjects, Index, Key, NamedObject
from cotenant_local.controllers.views import autoscaling as autoscaling_views
from cotenant_local.controllers.views import claims as claim_views
from cotenant_local.controllers.views import cluster as cluster_views
from cotenant_local.controllers.views import evictions as eviction_views
from cotenant_local.controllers.views import nodes as node_views
from cotenant_local.controllers.views import pods as pod_views
from cotenant_local.controllers.views import scheduled as scheduled_views
from cotenant_local.controllers.views import workloads as workload_views
from cotenant_local.controllers.views.core import Object

VIEWS: dict[ResourceName, type[object]] = {
    actions.PODS: pod_views.PodObjectView,
    actions.NODES: node_views.NodeObjectView,
    actions.LEASES: node_views.LeaseView,
    actions.NAMESPACES: cluster_views.NamespaceView,
    actions.CLAIMS: cluster_views.VolumeClaimView,
    actions.VOLUMES: cluster_views.PersistentVolumeView,
    actions.STORAGE_CLASSES: cluster_views.StorageClassView,
    actions.BUDGETS: cluster_views.BudgetView,
    actions.QUOTAS: cluster_views.ResourceQuotaView,
    actions.DEPLOYMENTS: workload_views.DeploymentView,
    actions.REPLICA_SETS: workload_views.ReplicaSet,
    actions.STATEFUL_SETS: workload_views.StatefulSet,
    actions.DAEMON_SETS: workload_views.DaemonSet,
    actions.REVISIONS: workload_views.ControllerRevision,
    actions.JOBS: workload_views.JobView,
    actions.CRON_JOBS: scheduled_views.CronJob,
    actions.AUTOSCALERS: autoscaling_views.Autoscaler,
    actions.POD_GROUPS: workload_views.PodGroupView,
    actions.RESOURCE_CLAIMS: claim_views.ResourceClaimView,
    actions.CLAIM_TEMPLATES: claim_views.ClaimTemplate,
    actions.RESOURCE_SLICES: claim_views.SliceView,
    actions.TAINT_RULES: claim_views.TaintRuleView,
    actions.EVICTION_REQUESTS: eviction_views.EvictionRequestView,
    actions.EVICTIONS: eviction_views.EvictionView,
}
RETRY_S = 1.0
PAGE = 2_000

T = TypeVar("T", bound=NamedObject)
Handler = Callable[[T | None, T | None], None]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct, rename="camel"):
    resource_version: str = "0"


class _Bookmark(msgspec.Struct):
    metadata: _Version


_event = msgspec.json.Decoder(_Event).decode
_bookmark = msgspec.json.Decoder(_Bookmark).decode


def _by_node(pod: pod_views.PodObjectView) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Informer(Generic[T]):
    """The cached objects of one resource, kept current by a watch."""

    def __init__(
        self, api: Api, target: RequestTarget, view: type[T], indexes: dict[str, Index[T]] | None = None
    ) -> None:
        self._api = api
        self._target = target
        self._decode = msgspec.json.Decoder(view).decode
        self._handlers: list[Handler[T]] = []
        self._version = 0
        self.store: CachedObjects[T] = CachedObjects(indexes)
        self.synced = asyncio.Event()
        self.relists = 0
        self.undecodable = 0  # objects that could not be decoded

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` for every object present now and for every later change."""
        self._handlers.append(handler)
        for obj in self.store:
            handler(None, obj)

    def observe(self, raw: bytes | msgspec.Raw) -> None:
        """Store a version of an object, from the list or from the response to a write of this process."""
        try:
            obj = self._decode(raw)
        except msgspec.ValidationError:
            self.undecodable += 1  # one malformed object must not stop the others
            return
        changed, old = self.store.apply(obj)
        if changed:
            for handler in self._handlers:
                handler(old, obj)

    def forget(self, key: Key, uid: str = "") -> None:
        """Remove a deleted object."""
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
                await self._watch()
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
            # an object observed from a write of this process may be newer than the listed snapshot
            if (meta.key, meta.uid) not in present and int(meta.resource_version or 0) <= page.resource_version:
                self.forget(meta.key, meta.uid)
        self._version = page.resource_version

    async def _watch(self) -> None:
        while True:
            options = ListOptions(resource_version=str(self._version), bookmarks=True)
            watch = self._api.watch(self._target, options)
            try:
                async for line in watch:
                    self._handle(line)
            finally:
                watch.close()
            await asyncio.sleep(0)

    def _handle(self, line: bytes) -> None:
        event = _event(line)
        if event.type == "BOOKMARK":
            self._version = max(self._version, int(_bookmark(event.object).metadata.resource_version))
            return
        if event.type == "ERROR":
            raise ApiError(410, "Expired", "the watch ended with an error")
        try:
            obj = self._decode(event.object)
        except msgspec.ValidationError:
            self.undecodable += 1
            self._version = max(self._version, int(_bookmark(event.object).metadata.resource_version))
            return
        self._version = max(self._version, int(obj.metadata.resource_version or 0))
        if event.type == "DELETED":
            self.forget(obj.metadata.key, obj.metadata.uid)
            return
        changed, old = self.store.apply(obj)
        if changed:
            for handler in self._handlers:
                handler(old, obj)


class Informers:
    """All informers of a process, created on first use."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._informers: dict[ResourceName, Informer[Any]] = {}
        self._tasks: dict[ResourceName, asyncio.Task[None]] = {}
        self._started = False

    def of(self, resource: ResourceName) -> Informer[Any]:
        """The informer of a resource. Raises ApiError 404 if it is not served."""
        informer = self._informers.get(resource)
        if informer is None:
            target = self.api.target(*resource)
            indexes: dict[str, Index[Any]] = {"node": _by_node} if resource == actions.PODS else {}
            informer = self._informers[resource] = Informer(self.api, target, VIEWS.get(resource, Object), indexes)
            if self._started:
                self._start(resource, informer)
        return informer

    def existing(self, resource: ResourceName) -> Informer[Any] | None:
        """The informer of a resource, or None if it has not been created."""
        return self._informers.get(resource)

    def store(self, resource: ResourceName) -> CachedObjects[Any]:
        """The cache of a resource."""
        return self.of(resource).store

    async def start(self) -> None:
        """List all resources, then keep watching in the background."""
        self._started = True
        for resource, informer in self._informers.items():
            self._start(resource, informer)
        await self.wait_synced()

    async def wait_synced(self) -> None:
        """Wait until every informer has completed its initial list."""
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    async def stop(self) -> None:
        """Stop all watches."""
        self._started = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop(self, resource: ResourceName) -> None:
        """Stop watching a resource that is no longer served."""
        task = self._tasks.pop(resource, None)
        if task is not None:
            task.cancel()
        self._informers.pop(resource, None)

    def _start(self, resource: ResourceName, informer: Informer[Any]) -> None:
        if resource not in self._tasks:
            self._tasks[resource] = asyncio.create_task(informer.run(), name=f"informer {resource[1]}")
