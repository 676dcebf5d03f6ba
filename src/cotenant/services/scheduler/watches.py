"""From the API server's watches to the engine's events.

Problem: the engine must be told of pods, nodes, claims and budgets in its own words, pods must be told of again when a claim of theirs changes, and
one object that cannot be read must not stop the others. Choice: one reflector a kind, all delivering here in the event loop; an unreadable
node is as good as gone (nothing is placed on what is not understood), and is counted. Limits: every pod with claims is read again after
any change of volumes; that is a few microseconds each, and gathered once a delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from cotenant.drivers.kube.cache.cache import Changed, Happening, Malformed
from cotenant.drivers.kube.cache.reflector import Reflector
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.kinds import objects
from cotenant.drivers.kube.kinds.reading import ObjectReader, read_budget, read_namespace, read_node
from cotenant.engine.cluster import Cluster
from cotenant.engine.state.reports import Reports
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.scheduler.actions.claims import Claiming
from cotenant.services.scheduler.custom_kinds import Extension, extensions

_log = logging.getLogger(__name__)


class Watches:
    """Watches everything a scheduler needs, and keeps the engine told."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        reader: ObjectReader,
        claiming: Claiming,
        reports: Reports,
        now: Callable[[], float],
        changed: Callable[[], None],
        *,
        streaming: bool = False,
    ) -> None:
        """`changed` is called after every delivery."""
        self._cluster = cluster
        self._reader = reader
        self._claiming = claiming
        self._reports = reports
        self._now = now
        self._changed = changed
        self._with_claims: dict[str, objects.Pod] = {}  # by uid: pods that name claims
        self._volumes_at = 0
        self._listed = False
        self.malformed: dict[str, int] = {}  # by kind

        def watch(kind: objects.Kind[Any], deliver: Callable[[Sequence[Happening[Any]]], None]) -> Reflector[Any]:
            return Reflector(client, kind, deliver, streaming=streaming)

        self.pods: Reflector[objects.Pod] = watch(objects.PODS, self._pods)
        self.reflectors: tuple[Reflector[Any], ...] = (
            watch(objects.NODES, self._nodes),
            watch(objects.NAMESPACES, self._namespaces),
            watch(objects.PERSISTENT_VOLUMES, self._volumes),
            watch(objects.PERSISTENT_VOLUME_CLAIMS, self._volumes),
            watch(objects.STORAGE_CLASSES, self._volumes),
            watch(objects.POD_DISRUPTION_BUDGETS, self._budgets),
            *(self._watch_extension(client, each, streaming) for each in extensions(cluster.roster)),
            self.pods,
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run())

    async def wait_synced(self) -> None:
        """Until everything has been listed once."""
        for reflector in self.reflectors:
            await reflector.wait_synced()

    @property
    def synced(self) -> bool:
        """Whether everything has been listed once."""
        return all(reflector.synced for reflector in self.reflectors)

    def _watch_extension(self, client: Client, extension: Extension[Any, Any], streaming: bool) -> Reflector[Any]:
        def deliver(happened: Sequence[Happening[Any]]) -> None:
            extension.deliver(happened, self._now(), self._count)
            self._changed()

        return Reflector(client, extension.kind, deliver, streaming=streaming, optional=True)

    # ---- deliveries

    def _pods(self, happened: Sequence[Happening[objects.Pod]]) -> None:
        now_s = self._now()
        if not self._listed:
            happened = sorted(happened, key=_age)  # the first list: those who wait longest come first
            self._listed = True
        for each in happened:
            if isinstance(each, Changed):
                try:
                    self._pod(each, now_s)
                except CotenantError:  # a fault of ours, or of that one pod: the others must not wait for it
                    _log.exception("pod %s", each.key)
                    self._count(each.kind)
            elif isinstance(each, Malformed):
                self._note(each)
        self._changed()

    def _pod(self, change: Changed[objects.Pod], now_s: float) -> None:
        if change.new is not None:
            if change.new.spec is not None and change.new.spec.volumes:
                self._note_claims(change.new)
            self._cluster.pod_seen(self._reader.pod(change.new), now_s)
        elif change.old is not None and change.old.metadata.uid:
            self._with_claims.pop(change.old.metadata.uid, None)
            self._cluster.pod_gone(change.old.metadata.uid, now_s)

    def _note_claims(self, pod: objects.Pod) -> None:
        uid = pod.metadata.uid or ""
        volumes = pod.spec.volumes if pod.spec is not None else None
        if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in volumes or ()):
            self._with_claims[uid] = pod

    def _nodes(self, happened: Sequence[Happening[objects.NodeObject]]) -> None:
        for each in happened:
            if isinstance(each, Changed):
                if each.new is None:
                    self._cluster.node_gone(each.key, self._now())
                    self._reports.forget(each.key)
                    continue
                try:
                    self._cluster.node_seen(read_node(each.new))
                except InvalidInput as error:
                    _log.warning("node %s is not used: %s", each.key, error)
                    self._count(each.kind)
                    self._cluster.node_gone(each.key, self._now())
            elif isinstance(each, Malformed):
                self._note(each)
                self._cluster.node_gone(each.key, self._now())
        self._changed()

    def _namespaces(self, happened: Sequence[Happening[objects.Namespace]]) -> None:
        for each in happened:
            if isinstance(each, Changed):
                if each.new is None:
                    self._cluster.namespace_gone(each.key)
                    continue
                try:
                    self._cluster.namespace_seen(read_namespace(each.new))
                except InvalidInput as error:
                    _log.warning("namespace %s: %s", each.key, error)
                    self._count(each.kind)
            elif isinstance(each, Malformed):
                self._note(each)
        self._changed()

    def _budgets(self, happened: Sequence[Happening[objects.PodDisruptionBudget]]) -> None:
        for each in happened:
            if isinstance(each, Changed):
                namespace, _, name = each.key.partition("/")
                if each.new is None:
                    self._cluster.budget_gone(namespace, name)
                    continue
                try:
                    self._cluster.budget_seen(read_budget(each.new))
                except InvalidInput as error:
                    _log.warning("disruption budget %s: %s", each.key, error)
                    self._count(each.kind)
            elif isinstance(each, Malformed):
                self._note(each)

    def _volumes(self, happened: Sequence[Happening[Any]]) -> None:
        index = self._reader.volumes
        for each in happened:
            if isinstance(each, Changed):
                if each.kind == objects.PERSISTENT_VOLUMES.name:
                    index.put_volume(each.key, each.new)
                elif each.kind == objects.PERSISTENT_VOLUME_CLAIMS.name:
                    index.put_claim(each.key, each.new)
                else:
                    index.put_class(each.key, each.new)
            elif isinstance(each, Malformed):
                self._note(each)
        if index.version != self._volumes_at:
            self._volumes_at = index.version
            self._claiming.changed()
            now_s = self._now()
            for pod in list(self._with_claims.values()):
                self._cluster.pod_seen(self._reader.pod(pod), now_s)
        self._changed()

    def _note(self, malformed: Malformed) -> None:
        _log.warning("%s %s cannot be read: %s", malformed.kind, malformed.key or "without a name", malformed.why)
        self._count(malformed.kind)

    def _count(self, kind: str) -> None:
        self.malformed[kind] = self.malformed.get(kind, 0) + 1


def _age(happening: Happening[objects.Pod]) -> float:
    if isinstance(happening, Changed) and happening.new is not None:
        made = happening.new.metadata.creation_timestamp
        return made.timestamp() if made is not None else 0.0
    return 0.0
