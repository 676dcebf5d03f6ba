"""A container runtime in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from cotenant.drivers.docker.client import InUse
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.template import ContainerTemplate


class MemoryRuntime:
    """Containers as values. `create` waits for `go`; `changed`: it tells of a change; `fault`: it does not answer."""

    def __init__(self) -> None:
        self.there: dict[str, FleetContainer] = {}
        self.templates: dict[str, ContainerTemplate] = {}
        self.environments: dict[str, Mapping[str, str]] = {}
        self.did: list[str] = []
        self.fault: Exception | None = None
        self.is_closed = False
        self.go = asyncio.Event()
        self.go.set()
        self.changed = asyncio.Event()
        self._ids = 0

    async def close(self) -> None:
        self.is_closed = True

    async def capacity(self) -> tuple[int, int]:
        if self.fault is not None:
            raise self.fault
        return 2000, 4 << 30

    async def list(self, label: str) -> tuple[ListedContainer, ...]:
        if self.fault is not None:
            raise self.fault
        name, _, value = label.partition("=")
        return tuple(
            ListedContainer(one.name, one.id, one.image, one.status, one.health, one.exit_code, one.labels)
            for one in self.there.values()
            if one.labels.get(name) == value
        )

    async def changes(self, label: str) -> AsyncIterator[str]:
        while True:
            await self.changed.wait()
            self.changed.clear()
            yield label

    async def inspect(self, name: str) -> FleetContainer | None:
        return self.there.get(name)

    async def create(
        self, name: str, template: ContainerTemplate, environment: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        await self.go.wait()
        if name in self.there:
            raise InUse(name)
        self._ids += 1
        self.did.append(f"create {name}")
        self.templates[name], self.environments[name] = template, environment
        self.there[name] = FleetContainer(
            name, f"{self._ids:064}", template.image, "created", "", "", 0, "", 0, 0.0, 0, False, labels=dict(labels)
        )

    async def start(self, name: str) -> None:
        self.did.append(f"start {name}")
        self.put(name, status="running", pid=7, started_s=asyncio.get_running_loop().time())

    async def stop(self, name: str) -> None:
        self.did.append(f"stop {name}")
        if name in self.there:
            self.put(name, status="exited", pid=0, exit_code=137)

    async def remove(self, name: str) -> None:
        self.did.append(f"remove {name}")
        del self.there[name]

    async def command(self, container: str, command: Any, columns: int, rows: int) -> Any:
        return container, tuple(command), columns, rows

    def put(self, name: str, **changes: Any) -> None:
        """As if the runtime had done it."""
        self.there[name] = replace(self.there[name], **changes)
