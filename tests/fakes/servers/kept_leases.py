"""Leases in memory, with versions as an API server keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cotenant.drivers.kube.client.errors import AlreadyExists, Conflict, NotFound, Refused
from cotenant.drivers.kube.kinds.lease import Lease, LeaseSpec
from cotenant.drivers.kube.kinds.parts import ObjectMeta


class Leases:
    """What a client of the API server reads and writes. `before_write` may change an object behind the writer's back;
    a name in `broken` is refused.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Lease] = {}
        self.broken: set[str] = set()
        self.before_write: Callable[[], object] = lambda: None
        self.writes = 0
        self._version = 6

    def put(self, name: str, holder: str | None, duration_s: int | None = None, spec: bool = True) -> None:
        """An object as another process writes it."""
        found = LeaseSpec(holder_identity=holder, lease_duration_seconds=duration_s) if spec else None
        self._store(Lease(metadata=ObjectMeta(name=name, namespace="ns"), spec=found))

    def _store(self, lease: Lease) -> Lease:
        self._version += 1
        meta = msgspec.structs.replace(lease.metadata, resource_version=str(self._version))
        stored = msgspec.structs.replace(lease, metadata=meta)
        self.objects[str(meta.name)] = stored
        return stored

    async def get(self, _: Any, namespace: str, name: str) -> Lease:
        """As of a client."""
        assert namespace == "ns"
        if name in self.broken:
            raise Refused("no right to read it")
        if name not in self.objects:
            raise NotFound(name)
        return self.objects[name]

    async def create(self, _: Any, namespace: str, lease: Lease) -> Lease:
        """As of a client."""
        assert namespace == "ns"
        self.before_write()
        if lease.metadata.name in self.objects:
            raise AlreadyExists(str(lease.metadata.name))
        self.writes += 1
        return self._store(lease)

    async def update(self, _: Any, namespace: str, name: str, lease: Lease) -> Lease:
        """As of a client."""
        assert namespace == "ns"
        assert name == lease.metadata.name
        self.before_write()
        if name in self.broken:
            raise Refused("no right to write it")
        if name not in self.objects:
            raise NotFound(name)
        if self.objects[name].metadata.resource_version != lease.metadata.resource_version:
            raise Conflict(name)
        self.writes += 1
        return self._store(lease)
