"""What an agent needs of a container runtime, and the runtimes that have it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cotenant.drivers.cri.exec import CriExec
from cotenant.drivers.docker.client import DockerClient
from cotenant.drivers.docker.containers import DockerContainers
from cotenant.drivers.docker.exec import Exec, open_exec
from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.services.fleet.functions.supervised_cri import SupervisedCri


class ContainerRuntime(Protocol):
    """One runtime of this host. All may raise `Transient` where it does not answer, `Permanent` where it refuses."""

    async def close(self) -> None:
        """End its connections."""

    async def capacity(self) -> tuple[int, int]:
        """CPUs in milli-CPU and memory in bytes of its host."""

    async def list(self, label: str) -> tuple[ListedContainer, ...]:
        """All with this label (NAME=VALUE), also those that ended."""

    def changes(self, label: str) -> AsyncIterator[str]:
        """Something for each change of these, until the runtime goes away."""

    async def inspect(self, name: str) -> FleetContainer | None:
        """The container; None where there is none."""

    async def create(
        self, name: str, template: ContainerTemplate, environment: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Make it, not started. The image is pulled where it is not there."""

    async def start(self, name: str) -> None:
        """Start it; nothing where it runs."""

    async def stop(self, name: str) -> None:
        """SIGTERM, after the container's grace SIGKILL; nothing where it does not run or is not there."""

    async def remove(self, name: str) -> None:
        """Remove it; nothing where it is not there."""

    async def command(self, container: str, command: Sequence[str], columns: int, rows: int) -> Exec | CriExec:
        """Run a command with a terminal in a container, by the runtime's id of it."""


class DockerRuntime(DockerContainers):
    """Docker, or podman by its Docker socket. Implements `ContainerRuntime`."""

    def __init__(self, socket: Path) -> None:
        self._client = DockerClient(socket)
        super().__init__(self._client)

    async def close(self) -> None:
        """As the Protocol."""
        await self._client.close()

    async def command(self, container: str, command: Sequence[str], columns: int, rows: int) -> Exec:
        """As the Protocol."""
        return await open_exec(self._client, container, command, columns, rows)


def runtime_at(docker: Path, cri: Path | None, label: str) -> Callable[[], ContainerRuntime]:
    """The runtime at one of these sockets: that of CRI where it is given. `label`: of this agent's containers."""
    if cri is not None:
        socket = cri
        return lambda: SupervisedCri(socket, label).begin()
    return lambda: DockerRuntime(docker)
