"""Pods of one controller share their equal parts in memory.

A decoded pod takes about 5 KiB, most of it containers, tolerations and affinities that thousands of pods have alike; a
cluster's worth of pods is half a gigabyte. Before a pod is kept, its equal parts are replaced by those of an earlier
pod, found by their encoded form; of its conditions only those stay that decide its requests (a pending resize).
Limits: costs a few microseconds a pod; the known parts are cleared, all at once, when there are too many different
ones.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, PodObject, PodSpec, PodStatus

REMEMBERED = 16384
RESIZE_PENDING = "PodResizePending"

_replace = msgspec.structs.replace


class PodSharing:
    """Returns pods whose equal parts are the same objects."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._specs: dict[bytes, PodSpec] = {}
        self._statuses: dict[bytes, PodStatus] = {}
        self._owners: dict[tuple[OwnerReference, ...], tuple[OwnerReference, ...]] = {}

    def __call__(self, pod: PodObject) -> PodObject:
        """The same pod, smaller."""
        spec, status = pod.spec, pod.status
        if spec is not None:
            spec = self._spec(spec)
        if status is not None:
            status = self._status(status)
        return PodObject(metadata=self._meta(pod.metadata), spec=spec, status=status)

    def _meta(self, meta: PodMeta) -> PodMeta:
        owners = meta.owner_references
        if not owners:
            return meta
        known = self._owners.get(owners)
        if known is None:
            if len(self._owners) >= REMEMBERED:
                self._owners.clear()
            self._owners[owners] = owners
            return meta
        return _replace(meta, owner_references=known)

    def _spec(self, spec: PodSpec) -> PodSpec:
        key = self._encoder.encode(
            (
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
            )
        )
        known = self._specs.get(key)
        if known is None:
            if len(self._specs) >= REMEMBERED:
                self._specs.clear()
            self._specs[key] = spec
            return spec
        return _replace(
            spec,
            containers=known.containers,
            init_containers=known.init_containers,
            overhead=known.overhead,
            resources=known.resources,
            node_selector=known.node_selector,
            affinity=known.affinity,
            tolerations=known.tolerations,
            topology_spread_constraints=known.topology_spread_constraints,
        )

    def _status(self, status: PodStatus) -> PodStatus:
        if status.conditions:
            pending = tuple(c for c in status.conditions if c.type == RESIZE_PENDING)
            status = _replace(status, conditions=pending or None)
        if not (status.container_statuses or status.init_container_statuses or status.conditions):
            return status
        key = self._encoder.encode((status.container_statuses, status.init_container_statuses, status.conditions))
        known = self._statuses.get(key)
        if known is None:
            if len(self._statuses) >= REMEMBERED:
                self._statuses.clear()
            self._statuses[key] = status
            return status
        return _replace(
            status,
            container_statuses=known.container_statuses,
            init_container_statuses=known.init_container_statuses,
            conditions=known.conditions,
        )
