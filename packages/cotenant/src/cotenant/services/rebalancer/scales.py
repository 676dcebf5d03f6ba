"""The replicas of custom workloads, by their scale subresource.

The pods of OpenKruise's CloneSets and of other custom controllers may move only if it is known how many there should
be. For controllers that no watch covers, `scale` is read before a plan, at most once a minute each; the plural of a
kind comes from discovery, once. Replicas of Argo's Rollouts are those of their ReplicaSets, which are watched.
Limits: a kind without the subresource, or one that may not be read, is asked again after ten minutes; its pods stay.
Source: Kubernetes API, autoscaling/v1 Scale.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from urllib.parse import quote

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.engine.cluster import Cluster
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.errors import CotenantError

_FRESH_S, _REFUSED_S = 60.0, 600.0
_MOST = 200  # reads before one plan
_WATCHED = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "Job", "DaemonSet", "Node"})
_WATCHED_GROUPS = frozenset({"v1", "apps/v1", "batch/v1"})
_log = logging.getLogger(__name__)


class _Resource(msgspec.Struct, frozen=True):
    name: str = ""
    kind: str = ""


class _Resources(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] = ()


class _ScaleSpec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct, frozen=True):
    spec: _ScaleSpec = _ScaleSpec()


class Scales:
    """Reads scales, and remembers when."""

    def __init__(self, client: Client, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client, self._monotonic = client, monotonic
        self._plurals: dict[tuple[str, str], str] = {}  # by apiVersion and kind; empty = no scale
        self._due: dict[str, float] = {}  # by UID of the controller

    async def read(self, cluster: Cluster, planner: Planner) -> None:
        """Read what is due of the controllers of placed pods. Errors leave a controller unknown."""
        owners: dict[str, tuple[str, OwnedBy]] = {}
        for entry in cluster.every_pod():
            owner = controller(entry)
            if (
                owner is None
                or entry.seen.workload is not None
                or (owner.kind in _WATCHED and owner.api_version in _WATCHED_GROUPS)
            ):
                continue
            owners[owner.uid] = (entry.seen.pod.namespace, owner)
        self._due = {uid: due for uid, due in self._due.items() if uid in owners}
        now_s = self._monotonic()
        due = [uid for uid in owners if self._due.get(uid, now_s) <= now_s]
        for uid in due[:_MOST]:
            namespace, owner = owners[uid]
            try:
                replicas = await self._replicas(namespace, owner)
            except CotenantError as error:
                _log.info("replicas of %s %s/%s are not known: %s", owner.kind, namespace, owner.name, error)
                replicas = None
            if replicas is not None:
                planner.workload_seen(uid, replicas)
            self._due[uid] = now_s + (_REFUSED_S if replicas is None else _FRESH_S)

    async def _replicas(self, namespace: str, owner: OwnedBy) -> int | None:
        path = f"/apis/{owner.api_version}"
        key = (owner.api_version, owner.kind)
        if key not in self._plurals:
            try:
                found = msgspec.json.decode(await self._client.request("GET", path), type=_Resources)
            except UNREADABLE:
                found = _Resources()
            names = {resource.name for resource in found.resources}
            self._plurals[key] = next(
                (
                    resource.name
                    for resource in found.resources
                    if resource.kind == owner.kind and "/" not in resource.name and f"{resource.name}/scale" in names
                ),
                "",
            )
        plural = self._plurals[key]
        if not plural:
            return None
        place = f"{path}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(owner.name, safe='')}/scale"
        try:
            return msgspec.json.decode(await self._client.request("GET", place), type=_Scale).spec.replicas
        except UNREADABLE:
            return None
