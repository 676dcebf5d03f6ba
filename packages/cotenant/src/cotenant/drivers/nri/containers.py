"""What the runtime tells of a pod and a container, and what a container starts with, as values of our own.

The runtime describes a container in its own terms (shares, a parent in the notation of the cgroup driver), and the
kernel's knob depends on the cgroup version. Names and paths as everywhere here; a weight is asked for as shares on v1,
and on v2 as `cpu.weight` itself, since runtimes disagree on the weight that shares become.
Limits: a CDI name reaches the container only from NRI 0.7 (containerd 2.0) on; older runtimes skip the field.

Source: containerd/nri, pkg/api/api.proto; systemd.slice(5) for the names of slices; containerd's and CRI-O's
annotations of a container's image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cotenant.drivers.cgroup.translation import shares_of
from cotenant.drivers.nri.messages import RUNNING, messages
from cotenant.model.cluster.labels import Labels
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.devices.shares import MPS_VARIABLES
from cotenant.model.machine.first_values import FirstValues
from cotenant.model.machine.knob import Knob

if TYPE_CHECKING:
    from google.protobuf.message import Message

_BIND = ("rbind", "rw", "nosuid", "nodev")
_IMAGES = ("io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName")


@dataclass(frozen=True, slots=True)
class HookedPod:
    """A pod as its runtime knows it."""

    uid: str
    namespace: str
    name: str
    labels: Labels  # without those that a kubelet adds for itself
    annotations: Labels
    group: str  # its cgroup; "" where the runtime did not say


@dataclass(frozen=True, slots=True)
class HookedContainer:
    """A container as its runtime knows it."""

    id: str
    name: str
    image: str
    variables: frozenset[str]  # names of its environment
    mps: tuple[tuple[str, str], ...] = ()  # of these, MPS's own with their values, by name
    is_running: bool = False


def pod_of(message: Message) -> HookedPod:
    """From a `PodSandbox`."""
    labels = {key: value for key, value in message.labels.items() if not key.startswith("io.kubernetes.")}
    return HookedPod(
        uid=message.uid,
        namespace=message.namespace,
        name=message.name,
        labels=Labels.of(labels),
        annotations=Labels.of(dict(message.annotations)),
        group=group_of_parent(message.linux.cgroup_parent),
    )


def container_of(message: Message) -> HookedContainer:
    """From a `Container`."""
    pairs = [entry.partition("=") for entry in message.env]
    return HookedContainer(
        id=message.id,
        name=message.name,
        image=next((message.annotations[key] for key in _IMAGES if key in message.annotations), ""),
        variables=frozenset(name for name, _, _ in pairs),
        mps=tuple(sorted((name, value) for name, _, value in pairs if name in MPS_VARIABLES)),
        is_running=message.state == RUNNING,
    )


def group_of_parent(parent: str) -> str:
    """A pod's cgroup from what a kubelet tells the runtime: a path, or a slice's own name, whose path systemd
    derives from it.
    """
    name = parent.strip("/")
    if "/" in name or not name.endswith(".slice"):
        return name
    words = name.removesuffix(".slice").split("-")
    return "/".join(f"{'-'.join(words[:end])}.slice" for end in range(1, len(words) + 1))


def adjustment(values: FirstValues, cpu_version: int) -> Message:
    """A `ContainerAdjustment`. `cpu_version`: 1 or 2, of the tree with the CPU controller."""
    kinds = messages()
    made = kinds["ContainerAdjustment"]()
    for name, value in values.environment:
        made.env.add(key=name, value=value)
    for device in values.devices:
        made.CDI_devices.add(name=device)
    for mount in values.mounts:
        # A mount that the runtime has at this place already is replaced.
        made.mounts.add(destination=mount.destination, type="bind", source=mount.source, options=_BIND)
    resources = _resources(values, cpu_version)
    if resources is not None:
        made.linux.resources.CopyFrom(resources)
    return made


def update(container_id: str, values: FirstValues, cpu_version: int) -> Message | None:
    """A `ContainerUpdate` of a running container; None where there is nothing to change."""
    resources = _resources(values, cpu_version)
    if resources is None:
        return None
    made = messages()["ContainerUpdate"](container_id=container_id, ignore_failure=True)
    made.linux.resources.CopyFrom(resources)
    return made


def _resources(values: FirstValues, cpu_version: int) -> Message | None:
    made = messages()["LinuxResources"]()
    if values.weight is not None:
        if cpu_version == 1:
            made.cpu.shares.value = shares_of(values.weight)
        else:
            made.unified[Knob.CPU_WEIGHT] = str(values.weight)
    if values.quota is not None and values.quota.quota_us is not None:
        made.cpu.quota.value, made.cpu.period.value = values.quota.quota_us, values.quota.period_us
    if values.memory_bytes is not None:
        made.memory.limit.value = values.memory_bytes
    if values.cpus:
        made.cpu.cpus = format_cpus(values.cpus)
    if values.cache_class:
        made.rdt_class.value = values.cache_class
    return made if made.ListFields() else None
