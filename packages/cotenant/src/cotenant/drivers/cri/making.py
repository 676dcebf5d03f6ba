"""The messages of CRI v1 by which pods and containers are made, beside those that are read.

Source: Kubernetes cri-api, pkg/apis/runtime/v1/api.proto (names and numbers of fields).
"""

from __future__ import annotations

import functools

from cotenant.drivers.cri.messages import FIELDS, PACKAGE, Fields, made_of
from cotenant.model.json_object import JsonMapping

IMAGES = f"{PACKAGE}.ImageService"
MAKING: Fields = {
    **FIELDS,
    "ImageSpec": {"image": (1, "string"), "user_specified_image": (18, "string")},
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "Mount": {"container_path": (1, "string"), "host_path": (2, "string"), "readonly": (3, "bool")},
    "PortMapping": {
        "protocol": (1, "int32"),
        "container_port": (2, "int32"),
        "host_port": (3, "int32"),
        "host_ip": (4, "string"),
    },
    "NamespaceOption": {**FIELDS["NamespaceOption"], "pid": (2, "int32")},
    "LinuxSandboxSecurityContext": {"namespace_options": (1, "NamespaceOption")},
    "LinuxPodSandboxConfig": {"cgroup_parent": (1, "string"), "security_context": (2, "LinuxSandboxSecurityContext")},
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "log_directory": (3, "string"),
        "port_mappings": (5, "*PortMapping"),
        "labels": (6, "map"),
        "annotations": (7, "map"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "LinuxContainerSecurityContext": {"namespace_options": (3, "NamespaceOption")},
    "LinuxContainerConfig": {
        "resources": (1, "LinuxContainerResources"),
        "security_context": (2, "LinuxContainerSecurityContext"),
    },
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, "*string"),
        "args": (4, "*string"),
        "envs": (6, "*KeyValue"),
        "mounts": (7, "*Mount"),
        "labels": (9, "map"),
        "annotations": (10, "map"),
        "log_path": (11, "string"),
        "linux": (15, "LinuxContainerConfig"),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "StartContainerRequest": {"container_id": (1, "string")},
    "StartContainerResponse": {},
    "UpdateContainerResourcesRequest": {"container_id": (1, "string"), "linux": (2, "LinuxContainerResources")},
    "UpdateContainerResourcesResponse": {},
    "StopContainerRequest": {"container_id": (1, "string"), "timeout": (2, "int64")},
    "StopContainerResponse": {},
    "RemoveContainerRequest": {"container_id": (1, "string")},
    "RemoveContainerResponse": {},
    "StopPodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxResponse": {},
    "RemovePodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "RemovePodSandboxResponse": {},
    "PodSandboxFilter": {"label_selector": (3, "map")},
    "ListPodSandboxRequest": {"filter": (1, "PodSandboxFilter")},
    "ContainerFilter": {"label_selector": (4, "map")},
    "ListContainersRequest": {"filter": (1, "ContainerFilter")},
    "Container": {**FIELDS["Container"], "image": (4, "ImageSpec"), "annotations": (9, "map")},
    "ContainerStatus": {
        **FIELDS["ContainerStatus"],
        "started_at": (5, "int64"),
        "finished_at": (6, "int64"),
        "exit_code": (7, "int32"),
        "image": (8, "ImageSpec"),
        "reason": (10, "string"),
        "message": (11, "string"),
        "labels": (12, "map"),
        "log_path": (15, "string"),
    },
    "Image": {"id": (1, "string")},
    "ImageStatusRequest": {"image": (1, "ImageSpec")},
    "ImageStatusResponse": {"image": (1, "Image")},
    "PullImageRequest": {"image": (1, "ImageSpec")},
    "PullImageResponse": {"image_ref": (1, "string")},
    "ExecRequest": {
        "container_id": (1, "string"),
        "cmd": (2, "*string"),
        "tty": (3, "bool"),
        "stdin": (4, "bool"),
        "stdout": (5, "bool"),
        "stderr": (6, "bool"),
    },
    "ExecResponse": {"url": (1, "string")},
    "ExecSyncRequest": {"container_id": (1, "string"), "cmd": (2, "*string"), "timeout": (3, "int64")},
    "ExecSyncResponse": {"stdout": (1, "bytes"), "stderr": (2, "bytes"), "exit_code": (3, "int32")},
}


@functools.cache
def making_messages() -> JsonMapping:
    """The classes by name. Raises `ImportError` without protobuf."""
    return made_of(MAKING)
