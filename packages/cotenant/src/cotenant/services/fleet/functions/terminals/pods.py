"""Commands in containers of this node's pods, where the configuration names the socket of the kubelet's runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from cotenant.drivers.cri.exec import CriExec
from cotenant.drivers.cri.pod_containers import PodContainers
from cotenant.model.errors import Unsupported
from cotenant.model.fleet.pods import PodContainer, PodName
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.terminals import WindowSize
from cotenant.model.machine.knob import Vanished

_NEEDS = "pod_runtime in this agent's configuration: the socket of its node's container runtime"


class NodePods:
    """`opened`: the pods behind a socket."""

    def __init__(self, opened: Callable[[Path], PodContainers] = PodContainers) -> None:
        self._opened = opened
        self._socket = ""
        self._pods: PodContainers | None = None

    def configure(self, socket: str) -> None:
        """Use this socket from now on; empty: there are no pods."""
        if socket != self._socket:
            self.close()
            self._socket = socket

    def close(self) -> None:
        """End the connection; the next question makes another."""
        if self._pods is not None:
            self._pods.close()
            self._pods = None

    async def names(self, name: PodName) -> tuple[str, ...]:
        """Pods of this name that run here, as NAMESPACE/NAME. Raises `CotenantError`."""
        return await self._known().names(name)

    async def container(self, name: PodName) -> PodContainer:
        """The running container. Raises `NoSuchGuid`, `InvalidInput` where it is not clear which, `Transient`."""
        found = await self._known().container(name)
        if found is None:
            raise NoSuchGuid(f"no pod {name} runs on this host")
        return found

    async def command(self, container: PodContainer, command: Sequence[str], size: WindowSize) -> CriExec:
        """Run a command with a terminal there. Raises as `container`, and where the runtime refuses."""
        try:
            return await self._known().commands.open(container.id, command, size.columns, size.rows)
        except Vanished as error:
            raise NoSuchGuid(f"{container} has just ended") from error

    def _known(self) -> PodContainers:
        if not self._socket:
            raise Unsupported("terminals into pods", _NEEDS)
        if self._pods is None:
            self._pods = self._opened(Path(self._socket))
        return self._pods
