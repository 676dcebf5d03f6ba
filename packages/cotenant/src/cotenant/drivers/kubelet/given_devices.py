"""Which pod the kubelet's device plugins gave which device, asked of the kubelet itself.

It alone knows of a device that a pod holds without a process on it. The pod-resources API is a Unix socket of root's,
so the agent's keeper asks, on a machine with GPUs. A kubelet that does not answer delays nobody: its last answer counts
for a while.
Limits: devices of device plugins, not those of resource claims; pods by name, as the API has no UIDs.

Source: Kubernetes, kubelet/pkg/apis/podresources/v1 (names and numbers of fields).
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.messages import Fields, made_of
from cotenant.drivers.gpu.apart import ReadApart
from cotenant.model.errors import CotenantError, Transient, Unsupported
from cotenant.model.json_object import JsonMapping

POD_RESOURCES = Path("pod-resources/kubelet.sock")  # in the kubelet's folder
Given = tuple[tuple[str, str], ...]  # device id and pod, NAMESPACE/NAME; sorted
MAX_DEVICES = 4096
CARDS = (Path("/dev/nvidiactl"), Path("/proc/driver/nvidia"), Path("/dev/kfd"))  # of NVIDIA's and of AMD's driver
NEEDS = "a kubelet with the pod-resources API v1 (1.20), and grpcio with protobuf"
_SERVICE = "v1.PodResourcesLister"
_PATIENCE_S = 0.1
_FORGOTTEN_S = 300.0  # after which the last answer of a kubelet that is away says nothing
_FIELDS: Fields = {
    "ListRequest": {},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "*string")},
    "ContainerResources": {"name": (1, "string"), "devices": (2, "*ContainerDevices")},
    "PodResources": {
        "name": (1, "string"),
        "namespace": (2, "string"),
        "containers": (3, "*ContainerResources"),
    },
    "ListResponse": {"pod_resources": (1, "*PodResources")},
    "GetAllocatableResourcesRequest": {},
    "GetAllocatableResourcesResponse": {"devices": (1, "*ContainerDevices")},
}
_log = logging.getLogger(__name__)


@functools.cache
def messages() -> JsonMapping:
    """The classes by name. Raises `ImportError` without protobuf."""
    return made_of(_FIELDS)


def ask_kubelet(client: CriClient) -> Given:
    """All devices that are given, at most `MAX_DEVICES`. Raises `Transient`, `Unsupported`, `Permanent`."""
    try:
        answer = client.call("List", _SERVICE)
    except Unsupported:
        raise Unsupported("devices by the kubelet", NEEDS) from None
    found = {
        (device, f"{pod.namespace}/{pod.name}")
        for pod in answer.pod_resources
        for container in pod.containers
        for devices in container.devices
        for device in devices.device_ids
    }
    if len(found) > MAX_DEVICES:
        raise Transient(f"the kubelet lists {len(found)} devices of containers, more than {MAX_DEVICES}")
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class KubeletDevices:
    """Devices that pods hold, and all that device plugins offer, healthy or not."""

    given: Given = ()
    offered: tuple[str, ...] = ()


def devices_of_kubelet(folder: Path, timeout_s: float = 2.0) -> KubeletDevices:
    """What the kubelet in `folder` gave and offers, asked now; nothing where there is no kubelet. For those who may
    take a device away: raises `Transient` where there is one that does not say it.
    """
    if not _exists(folder):
        return KubeletDevices()
    socket = folder / POD_RESOURCES
    client = CriClient(str(socket), timeout_s, kinds=messages)
    try:
        given = ask_kubelet(client)
        answer = client.call("GetAllocatableResources", _SERVICE)
        return KubeletDevices(given, tuple(sorted({one for kind in answer.devices for one in kind.device_ids})))
    except CotenantError as error:
        raise Transient(f"which pods hold devices is not known: the kubelet at {socket}: {error}") from error
    finally:
        client.close()


class GivenDevices:
    """What the kubelet at `socket` last said. Never raises, and hardly waits."""

    def __init__(
        self,
        socket: Path,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = _PATIENCE_S,
        cards: Sequence[Path] = CARDS,
    ) -> None:
        """`cards`: without one of these nobody is asked."""
        self._cards = cards
        self._socket, self._clock, self._patience_s = socket, clock, patience_s
        self._apart: ReadApart[Given] | None = None
        self._known: Given = ()
        self._known_s = float("-inf")
        self._problem = ""

    def __call__(self) -> Given:
        """As last observed; empty where nothing is known."""
        if self._apart is None:
            if not _exists(self._socket) or not any(map(_exists, self._cards)):
                return ()
            client = CriClient(str(self._socket), kinds=messages)
            self._apart = ReadApart(lambda: ask_kubelet(client), "the kubelet", self._patience_s)
        problem = ""
        try:
            self._known, self._known_s = self._apart.take(), self._clock()
        except CotenantError as error:
            problem = str(error)
        if self._clock() - self._known_s > _FORGOTTEN_S:
            self._known = ()
        if problem != self._problem:
            self._problem = problem
            _log.info("devices that the kubelet gave: %s", problem or "it answers")
        return self._known


def _exists(path: Path) -> bool:
    """False for one that this process may not look for."""
    try:
        return path.exists()
    except OSError:
        return False
