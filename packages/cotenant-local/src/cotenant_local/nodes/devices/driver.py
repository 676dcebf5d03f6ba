"""The DRA drivers of all simulated nodes: they publish ResourceSlices, and publish them again when something changes.

A pool is a node's. What changes it: another shape after a restart, the annotation that names unhealthy devices, and
someone who deletes or edits a slice; each time the pool's generation goes up by one, so that readers see a whole pool
or none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from cotenant.drivers.kube.manifests.errors import ApiError, Manifest
from cotenant.model.cluster.annotations import UNHEALTHY_DEVICES
from cotenant_local.apiserver.contract import DeletionOptions, RequestTarget, WriteOptions
from cotenant_local.controllers.runtime.actions import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from cotenant_local.controllers.runtime.informer import Informers
from cotenant_local.controllers.views.claims import SliceView
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.nodes.devices.shapes import DeviceShape, DriverShape, PublishedPool, device_class, pool_of

_RETRY_S = 1.0
_log = logging.getLogger(__name__)


class SimulatedDrivers:
    """Publishes the devices of the nodes of one fleet."""

    def __init__(self, informers: Informers, nodes: Iterable[str], shape: DeviceShape) -> None:
        self._informers, self._api = informers, informers.api
        self._names, self._shape = frozenset(nodes), shape
        self._options = WriteOptions(validation="Strict", manager="dra-driver", user="system:node")
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.refused = 0

    async def start(self) -> None:
        """Make the classes, and publish the devices of all nodes. The informers must be started."""
        for driver in self._shape.drivers:
            if (made := device_class(driver)) is not None:
                await self._create_missing(made)
        self._nodes = self._informers.of(NODES)
        self._slices = self._informers.of(RESOURCE_SLICES)
        await self._informers.wait_synced()
        self._nodes.subscribe(self._node_changed)
        self._slices.subscribe(self._slice_changed)
        await self._publish_dirty()
        self._task = asyncio.create_task(self._run(), name="simulated DRA drivers")

    async def stop(self) -> None:
        """Stop publishing; the slices stay."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _create_missing(self, obj: Manifest) -> None:
        try:
            await self._api.create(self._api.target(*DEVICE_CLASSES), obj, self._options)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _node_changed(self, old: NodeObjectView | None, new: NodeObjectView | None) -> None:
        if new is None or new.metadata.name not in self._names:
            return
        if old is None or _unhealthy(old) != _unhealthy(new) or old.metadata.uid != new.metadata.uid:
            self._mark(new.metadata.name)

    def _slice_changed(self, old: SliceView | None, new: SliceView | None) -> None:
        seen = new or old
        if seen is not None and seen.spec.get("nodeName") in self._names and self._is_ours(seen):
            self._mark(seen.spec["nodeName"])

    def _is_ours(self, found: SliceView) -> bool:
        return any(driver.name == found.spec.get("driver") for driver in self._shape.drivers)

    def _mark(self, node: str) -> None:
        self._dirty[node] = None
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not await self._publish_dirty():
                await asyncio.sleep(_RETRY_S)
                self._wake.set()

    async def _publish_dirty(self) -> bool:
        """Whether everything could be written; what could not stays to be done."""
        nodes, self._dirty = list(self._dirty), {}
        failed = []
        for name in nodes:
            node = self._nodes.store.get("", name)
            if node is None:
                continue
            try:
                for driver in self._shape.drivers:
                    await self._publish(node, driver)
            except ApiError as error:
                self.refused += 1
                failed.append(name)
                _log.warning("devices of node %s: %s", name, error)
        self._dirty.update(dict.fromkeys(failed))
        return not failed

    async def _publish(self, node: NodeObjectView, driver: DriverShape) -> None:
        pool = pool_of(driver, node.metadata.name, _unhealthy(node))
        found = {
            one.metadata.name: one
            for one in self._slices.store.by("owner", node.metadata.uid)
            if one.spec.get("driver") == driver.name
        }
        generations = {one.spec["pool"]["generation"] for one in found.values()}
        wanted = dict(_slices(node, pool, max(generations, default=1)))
        is_whole = len(generations) <= 1 and wanted.keys() == found.keys()
        if is_whole and all(_same(wanted[name]["spec"], found[name].spec) for name in wanted):
            return
        wanted = dict(_slices(node, pool, max(generations, default=0) + 1))
        resource = self._api.target(*RESOURCE_SLICES).resource
        for name in found.keys() - wanted.keys():
            await self._delete(RequestTarget(resource, "", name), found[name].metadata.uid)
        for name, obj in wanted.items():
            if name in found:
                answer = await self._api.update(RequestTarget(resource, "", name), obj, self._options)
            else:
                answer = await self._api.create(RequestTarget(resource), obj, self._options)
            self._slices.observe(answer.raw)

    async def _delete(self, target: RequestTarget, uid: str) -> None:
        try:
            await self._api.delete(target, DeletionOptions(uid=uid))
        except ApiError as error:
            if error.code != 404:
                raise
        self._slices.forget(("", target.name), uid)


def _slices(node: NodeObjectView, pool: PublishedPool, generation: int) -> Iterable[tuple[str, Manifest]]:
    meta = node.metadata
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta.name, "uid": meta.uid, "controller": True}
    for index, contents in enumerate(pool.slices):
        name = f"{meta.name}-{pool.driver}-{index}"
        spec = {
            "driver": pool.driver,
            "nodeName": meta.name,
            "pool": {"name": meta.name, "generation": generation, "resourceSliceCount": len(pool.slices)},
            **contents,
        }
        yield (
            name,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": spec,
            },
        )


def _same(wanted: Manifest, found: Manifest) -> bool:
    """Whether a slice says what it should, but for the times of taints."""
    return msgspec.json.encode(wanted, order="deterministic") == msgspec.json.encode(
        _without_times(found), order="deterministic"
    )


def _without_times(spec: Manifest) -> Manifest:
    if "devices" not in spec:
        return spec
    devices = []
    for device in spec["devices"]:
        taints = [{key: value for key, value in one.items() if key != "timeAdded"} for one in device.get("taints", ())]
        devices.append({**device, "taints": taints} if taints else device)
    return {**spec, "devices": devices}


def _unhealthy(node: NodeObjectView) -> frozenset[str]:
    return frozenset(node.metadata.annotations.get(UNHEALTHY_DEVICES, "").replace(",", " ").split())
