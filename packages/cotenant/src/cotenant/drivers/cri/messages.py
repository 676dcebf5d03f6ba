"""The messages of CRI v1 that are used here.

The interface's description has some two hundred messages, of which listing pods needs a dozen, and generated code would
have to be maintained. A table of the used fields with their numbers, turned into protobuf classes at first use; unknown
fields are skipped by protobuf itself.
Limits: fields that are not in the table cannot be read.

Source: Kubernetes cri-api, pkg/apis/runtime/v1/api.proto (names and numbers of fields).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType

from cotenant.model.json_object import JsonMapping

PACKAGE = "runtime.v1"
SERVICE = f"{PACKAGE}.RuntimeService"
SANDBOX_READY = 0
CONTAINER_RUNNING = 1
NETWORK_OF_NODE = 2  # NamespaceMode

# By message and field: number and type. "map" is string to string; "*" is "repeated"; enumerations are read as their
# numbers.
Fields = Mapping[str, Mapping[str, tuple[int, str]]]
FIELDS: Fields = {
    "VersionRequest": {"version": (1, "string")},
    "VersionResponse": {"version": (1, "string"), "runtime_name": (2, "string"), "runtime_version": (3, "string")},
    "PodSandboxMetadata": {
        "name": (1, "string"),
        "uid": (2, "string"),
        "namespace": (3, "string"),
        "attempt": (4, "uint32"),
    },
    "PodSandbox": {
        "id": (1, "string"),
        "metadata": (2, "PodSandboxMetadata"),
        "state": (3, "int32"),
        "created_at": (4, "int64"),
        "labels": (5, "map"),
        "annotations": (6, "map"),
    },
    "ListPodSandboxRequest": {},
    "ListPodSandboxResponse": {"items": (1, "*PodSandbox")},
    "PodSandboxStatusRequest": {"pod_sandbox_id": (1, "string"), "verbose": (2, "bool")},
    "PodIP": {"ip": (1, "string")},
    "PodSandboxNetworkStatus": {"ip": (1, "string"), "additional_ips": (2, "*PodIP")},
    "NamespaceOption": {"network": (1, "int32")},
    "Namespace": {"options": (2, "NamespaceOption")},
    "LinuxPodSandboxStatus": {"namespaces": (1, "Namespace")},
    "PodSandboxStatus": {
        "id": (1, "string"),
        "network": (5, "PodSandboxNetworkStatus"),
        "linux": (6, "LinuxPodSandboxStatus"),
    },
    "PodSandboxStatusResponse": {"status": (1, "PodSandboxStatus")},
    "ContainerMetadata": {"name": (1, "string"), "attempt": (2, "uint32")},
    "Container": {
        "id": (1, "string"),
        "pod_sandbox_id": (2, "string"),
        "metadata": (3, "ContainerMetadata"),
        "state": (6, "int32"),
        "created_at": (7, "int64"),
        "labels": (8, "map"),
    },
    "ListContainersRequest": {},
    "ListContainersResponse": {"containers": (1, "*Container")},
    "ContainerStatusRequest": {"container_id": (1, "string"), "verbose": (2, "bool")},
    "LinuxContainerResources": {
        "cpu_period": (1, "int64"),
        "cpu_quota": (2, "int64"),
        "cpu_shares": (3, "int64"),
        "memory_limit_in_bytes": (4, "int64"),
    },
    "ContainerResources": {"linux": (1, "LinuxContainerResources")},
    "ContainerStatus": {"id": (1, "string"), "state": (3, "int32"), "resources": (16, "ContainerResources")},
    "ContainerStatusResponse": {"status": (1, "ContainerStatus"), "info": (2, "map")},
}


@functools.cache
def messages() -> JsonMapping:
    """The classes by name. Raises `ImportError` without protobuf."""
    return made_of(FIELDS)


def made_of(table: Fields) -> Mapping[str, object]:
    """Message classes by name, of a table such as `FIELDS`. Raises `ImportError` without protobuf."""
    descriptor = importlib.import_module("google.protobuf.descriptor_pb2")
    pools = importlib.import_module("google.protobuf.descriptor_pool")
    factory = importlib.import_module("google.protobuf.message_factory")
    kinds = descriptor.FieldDescriptorProto
    file = descriptor.FileDescriptorProto(name="cotenant/cri.proto", package=PACKAGE, syntax="proto3")
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated, kind = kind.startswith("*"), kind.lstrip("*")
            added = message.field.add(name=field, number=number)
            added.label = kinds.LABEL_REPEATED if repeated or kind == "map" else kinds.LABEL_OPTIONAL
            if kind == "map":
                entry = message.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
                entry.options.map_entry = True
                for index, key in enumerate(("key", "value"), start=1):
                    entry.field.add(name=key, number=index, label=kinds.LABEL_OPTIONAL, type=kinds.TYPE_STRING)
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{name}.{entry.name}"
            elif kind in table:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
            else:
                added.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = pools.DescriptorPool()
    pool.Add(file)
    return MappingProxyType(
        {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in table}
    )
