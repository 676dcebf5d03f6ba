"""Pods of one controller share their equal parts in memory.

A decoded pod takes about 5 KiB, most of it containers, tolerations and affinities that thousands of pods have alike; a
cluster's worth of pods is half a gigabyte. Before a pod is kept, its equal parts are replaced by those of an earlier
pod, found by their encoded form; of its conditions only those stay that decide its requests (a pending resize), of its
volumes those that restrict its node.
Limits: costs a few microseconds a pod; the known parts are cleared, all at once, when there are too many different
ones.
"""

from __future__ import annotations

from sys import intern

import msgspec

from cotenant.drivers.kube.kinds.kind import Text
from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.drivers.kube.kinds.pod.schema import PodMeta, PodObject, PodSpec, PodStatus, Volume

REMEMBERED = 16384
RESIZE_PENDING = "PodResizePending"

_replace = msgspec.structs.replace


def _one(text: Text) -> Text:
    """The same text as one object: there are few different ones of its kind."""
    return intern(text) if text else text


class PodSharing:
    """Returns pods whose equal parts are the same objects."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()
        self._specs: dict[bytes, PodSpec] = {}
        self._statuses: dict[bytes, PodStatus] = {}
        self._labels: dict[bytes, dict[str, str]] = {}
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
        return _replace(
            meta,
            namespace=_one(meta.namespace),
            labels=self._known_labels(meta.labels),
            owner_references=self._known_owners(meta.owner_references),
        )

    def _known_labels(self, labels: dict[str, str] | None) -> dict[str, str] | None:
        if not labels:
            return labels
        key = self._encoder.encode(labels)
        known = self._labels.get(key)
        if known is None:
            if len(self._labels) >= REMEMBERED:
                self._labels.clear()
            known = self._labels[key] = labels
        return known

    def _known_owners(self, owners: tuple[OwnerReference, ...] | None) -> tuple[OwnerReference, ...] | None:
        if not owners:
            return owners
        known = self._owners.get(owners)
        if known is None:
            if len(self._owners) >= REMEMBERED:
                self._owners.clear()
            known = self._owners[owners] = owners
        return known

    def _spec(self, spec: PodSpec) -> PodSpec:
        volumes = spec.volumes
        if volumes:
            volumes = tuple(volume for volume in volumes if volume != Volume(name=volume.name)) or None
        spec = _replace(spec, node_name=_one(spec.node_name), scheduler_name=_one(spec.scheduler_name), volumes=volumes)
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
        pending = tuple(c for c in status.conditions or () if c.type == RESIZE_PENDING)
        status = _replace(status, phase=_one(status.phase), conditions=pending or None)
        whole = (status.resources, status.allocated_resources)
        if not (status.container_statuses or status.init_container_statuses or status.conditions or any(whole)):
            return status
        of_containers = (status.container_statuses, status.init_container_statuses)
        key = self._encoder.encode((*of_containers, *whole, status.conditions))
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
            resources=known.resources,
            allocated_resources=known.allocated_resources,
        )
