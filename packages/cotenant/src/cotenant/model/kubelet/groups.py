"""The place of a group in a kubelet's tree: its level, its pod's Kubernetes class, and which driver made it.

A path that is not a kubelet's has no kind: nobody but its owner writes there, as far as this package knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.group_names import ContainerGroup, PodCgroup, best_effort_group, burstable_group, is_root
from cotenant.model.kubelet.group_names import read_group as read_name


class Level(StrEnum):
    """Levels of a kubelet's tree."""

    NODE = "node"  # kubepods, the group of all pods
    QOS = "qos"  # of all burstable, or of all best-effort pods
    POD = "pod"
    CONTAINER = "container"
    INSIDE = "inside"  # below a container: its own processes make these groups


class Driver(StrEnum):
    """A kubelet's `cgroupDriver`."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class GroupKind:
    """What a kubelet's group is. `qos` is None for the group of all pods."""

    level: Level
    qos: KubernetesQoS | None
    driver: Driver


def kind_of(group: str) -> GroupKind | None:
    """The kind of a group by its path; None where it is not a kubelet's."""
    parts = group.split("/")
    at = next((index for index, part in enumerate(parts) if is_root(part)), None)
    if at is None:
        return None
    driver = Driver.SYSTEMD if parts[at].endswith(".slice") else Driver.CGROUPFS
    root = "/".join(parts[: at + 1])
    if group == root:
        return GroupKind(Level.NODE, None, driver)
    for name, qos in (
        (best_effort_group(root), KubernetesQoS.BEST_EFFORT),
        (burstable_group(root), KubernetesQoS.BURSTABLE),
    ):
        if group == name:
            return GroupKind(Level.QOS, qos, driver)
    for end in range(len(parts), at + 1, -1):
        match read_name("/".join(parts[:end])):
            case PodCgroup(qos=qos):
                return GroupKind(Level.POD if end == len(parts) else Level.INSIDE, qos, driver)
            case ContainerGroup(pod=pod):
                return GroupKind(Level.CONTAINER if end == len(parts) else Level.INSIDE, pod.qos, driver)
            case None:
                continue
    return None
