"""Running containers of a Kubernetes node's pods, by the runtime that its kubelet uses.

Source: Kubernetes, pkg/kubelet/kuberuntime: a sandbox has its pod's annotations, a container its name as metadata;
kubectl, "kubectl.kubernetes.io/default-container".
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.commands import CriCommands
from cotenant.drivers.cri.containers import NAME
from cotenant.drivers.cri.making import making_messages
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.pods import PodContainer, PodName

USUAL_CONTAINER = "kubectl.kubernetes.io/default-container"


class PodContainers:
    """By the runtime at `socket`."""

    def __init__(self, socket: Path, client: CriClient | None = None) -> None:
        self._client = client or CriClient(str(socket), kinds=making_messages)
        self.commands = CriCommands(self._client)

    def close(self) -> None:
        """End the connection."""
        self._client.close()

    async def names(self, name: PodName) -> tuple[str, ...]:
        """Pods of this name that run here, as NAMESPACE/NAME. Raises `CotenantError`."""
        found = await asyncio.to_thread(self._found, name)
        return tuple(sorted({f"{container.namespace}/{container.pod}" for container, _ in found}))

    async def container(self, name: PodName) -> PodContainer | None:
        """The one that is named, else the pod's usual one; None where no pod of this name runs here.

        Raises `InvalidInput` where it is none of the pod's, or where the pod does not say which is the usual one.
        """
        found = await asyncio.to_thread(self._found, name)
        wanted = name.container or next((usual for _, usual in found if usual), "")
        chosen = [container for container, _ in found if wanted in ("", container.container)]
        if len(chosen) > 1 or (found and not chosen):
            known = ", ".join(str(container) for container, _ in found)
            raise InvalidInput("container", wanted, f"one of {known}")
        return chosen[0] if chosen else None

    def _found(self, name: PodName) -> list[tuple[PodContainer, str]]:
        """Each with its pod's usual container; pods of the fleet's own have guids."""
        pods = {
            pod.id: pod
            for pod in self._client.sandboxes()
            if pod.ready
            and pod.name == name.pod
            and name.namespace in ("", pod.namespace)
            and pod.labels.get(NAME) is None
        }
        found = []
        for container in self._client.containers():
            pod = pods.get(container.sandbox_id)
            if pod is not None:
                usual = pod.annotations.get(USUAL_CONTAINER) or ""
                found.append((PodContainer(pod.namespace, pod.name, container.name, container.id), usual))
        return sorted(found, key=lambda pair: str(pair[0]))
