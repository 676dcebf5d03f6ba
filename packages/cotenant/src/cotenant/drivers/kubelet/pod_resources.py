"""Kubelet's list of what device plugins gave to which container, as a gRPC client prints it in JSON.

The API itself is a Unix socket of the kubelet, which an administrator's client reads; here its answer is read from a
recording (`v1.PodResourcesLister/List`). Field names are protobuf's, in either of its JSON spellings.

Source: Kubernetes, kubelet/pkg/apis/podresources/v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from cotenant.model.devices.gpu_use import GpuHolder
from cotenant.model.errors import InvalidInput

MAX_BYTES = 8 << 20


def read_pod_resources(text: str) -> dict[str, list[GpuHolder]]:
    """Holders by device id, of all device plugins. Raises `InvalidInput`."""
    expected = "the JSON of PodResourcesLister/List"
    if len(text) > MAX_BYTES:
        raise InvalidInput("pod resources", f"{len(text)} characters", f"at most {MAX_BYTES}")
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("pod resources", str(error)[:80], expected) from None
    if not isinstance(document, dict) or not {"podResources", "pod_resources"} & document.keys():
        raise InvalidInput("pod resources", type(document).__name__, expected)
    found: dict[str, list[GpuHolder]] = {}
    for pod in _objects(document, "podResources", "pod_resources"):
        for container in _objects(pod, "containers"):
            holder = GpuHolder(f"{pod.get('namespace', '')}/{pod.get('name', '')}", str(container.get("name", "")))
            for device in _objects(container, "devices"):
                for device_id in _list(device, "deviceIds", "device_ids"):
                    found.setdefault(str(device_id), []).append(holder)
    return found


def _objects(parent: Mapping[str, object], *names: str) -> Iterator[Mapping[str, object]]:
    return (value for value in _list(parent, *names) if isinstance(value, dict))


def _list(parent: Mapping[str, object], *names: str) -> list[object]:
    found = next((parent[name] for name in names if name in parent), [])
    return found if isinstance(found, list) else []
