"""The messages of NRI, and of the calls that carry them, that are used here.

Problem and choice as in `drivers/cri/messages.py`: a table of the used fields becomes protobuf classes. Limits: fields
that are not in the table are neither read nor sent back; the runtime takes what is absent from an answer as unchanged.

Source: containerd/nri, pkg/api/api.proto, from 0.3 (containerd 1.7) on; `CDI_devices` from 0.7 (containerd 2.0) on.
containerd/ttrpc, request.proto.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import IntEnum

from cotenant.drivers.cri.messages import Fields, made_of
from cotenant.model.json_object import JsonMapping

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"
RUNNING = 3  # ContainerState


class NriEvent(IntEnum):
    """What a plugin may be told; it subscribes to the sum of their bits."""

    RUN_POD_SANDBOX = 1
    STOP_POD_SANDBOX = 2
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    UPDATE_CONTAINER = 8
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11

    @property
    def bit(self) -> int:
        """Its bit in a subscription."""
        return 1 << (self - 1)


_OF_CONTAINER: Mapping[str, tuple[int, str]] = {"pod": (1, "PodSandbox"), "container": (2, "Container")}
FIELDS: Fields = {
    # of ttrpc
    "Request": {
        "service": (1, "string"),
        "method": (2, "string"),
        "payload": (3, "bytes"),
        "timeout_nano": (4, "int64"),
    },
    "Status": {"code": (1, "int32"), "message": (2, "string")},
    "Response": {"status": (1, "Status"), "payload": (2, "bytes")},
    # values
    "OptionalString": {"value": (1, "string")},
    "OptionalInt64": {"value": (1, "int64")},
    "OptionalUInt64": {"value": (1, "uint64")},
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "CDIDevice": {"name": (1, "string")},
    "Mount": {
        "destination": (1, "string"),
        "type": (2, "string"),
        "source": (3, "string"),
        "options": (4, "*string"),
    },
    "LinuxMemory": {"limit": (1, "OptionalInt64")},
    "LinuxCPU": {
        "shares": (1, "OptionalUInt64"),
        "quota": (2, "OptionalInt64"),
        "period": (3, "OptionalUInt64"),
        "cpus": (6, "string"),
    },
    "LinuxResources": {
        "memory": (1, "LinuxMemory"),
        "cpu": (2, "LinuxCPU"),
        "rdt_class": (5, "OptionalString"),
        "unified": (6, "map"),
    },
    "LinuxPodSandbox": {"cgroup_parent": (3, "string")},
    "PodSandbox": {
        "id": (1, "string"),
        "name": (2, "string"),
        "uid": (3, "string"),
        "namespace": (4, "string"),
        "labels": (5, "map"),
        "annotations": (6, "map"),
        "linux": (8, "LinuxPodSandbox"),
    },
    "LinuxContainer": {"resources": (3, "LinuxResources")},
    "Container": {
        "id": (1, "string"),
        "pod_sandbox_id": (2, "string"),
        "name": (3, "string"),
        "state": (4, "int32"),
        "labels": (5, "map"),
        "annotations": (6, "map"),
        "env": (8, "*string"),
        "linux": (11, "LinuxContainer"),
    },
    # answers
    "LinuxContainerAdjustment": {"resources": (2, "LinuxResources")},
    "ContainerAdjustment": {
        "mounts": (3, "*Mount"),
        "env": (4, "*KeyValue"),
        "linux": (6, "LinuxContainerAdjustment"),
        "CDI_devices": (8, "*CDIDevice"),
    },
    "LinuxContainerUpdate": {"resources": (1, "LinuxResources")},
    "ContainerUpdate": {
        "container_id": (1, "string"),
        "linux": (2, "LinuxContainerUpdate"),
        "ignore_failure": (3, "bool"),
    },
    # calls
    "Empty": {},
    "RegisterPluginRequest": {"plugin_name": (1, "string"), "plugin_idx": (2, "string")},
    "ConfigureRequest": {"config": (1, "string"), "runtime_name": (2, "string"), "runtime_version": (3, "string")},
    "ConfigureResponse": {"events": (2, "int32")},
    "SynchronizeRequest": {"pods": (1, "*PodSandbox"), "containers": (2, "*Container"), "more": (3, "bool")},
    "SynchronizeResponse": {"update": (1, "*ContainerUpdate"), "more": (2, "bool")},
    "CreateContainerRequest": _OF_CONTAINER,
    "CreateContainerResponse": {"adjust": (1, "ContainerAdjustment"), "update": (2, "*ContainerUpdate")},
    "UpdateContainerRequest": {**_OF_CONTAINER, "linux_resources": (3, "LinuxResources")},
    "UpdateContainerResponse": {"update": (1, "*ContainerUpdate")},
    "StopContainerRequest": _OF_CONTAINER,
    "StopContainerResponse": {"update": (1, "*ContainerUpdate")},
    "StateChangeEvent": {"event": (1, "int32"), "pod": (2, "PodSandbox"), "container": (3, "Container")},
    "RunPodSandboxRequest": {"pod": (1, "PodSandbox")},
    "StopPodSandboxRequest": {"pod": (1, "PodSandbox")},
    "RemovePodSandboxRequest": {"pod": (1, "PodSandbox")},
    "RemoveContainerRequest": _OF_CONTAINER,
}


@functools.cache
def messages() -> JsonMapping:
    """The classes by name. Raises `ImportError` without protobuf."""
    return made_of(FIELDS)
