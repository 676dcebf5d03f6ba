"""Parsing of the names that kubelet and container runtimes give to cgroups.

The owner of a group is only in its path, and there are two formats: systemd's slices, where `-` means "below" and a
UID's dashes become `_`, and plain folders. Containers may create groups of any name below their own. A path is a pod's
or a container's only if every part from kubelet's root down is in its place and consistent; groups below a container
are never parsed. Guaranteed pods are directly below the root.
Limits: kubelet's root may be below other groups (`--cgroup-root`); a UID is a UUID, or the 32 digits of a static pod.

    kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
    kubepods/burstable/podUID/ID

Source: Kubernetes, pkg/kubelet/cm (cgroup_manager_linux.go, qos_container_manager_linux.go).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.model.cluster.qos import KubernetesQoS

_UID = r"(?P<uid>[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})"
_SLICE_ROOT = re.compile(r"(?P<prefix>(?:[A-Za-z0-9_.:]+-)*kubepods)\.slice")
_SLICE_CLASS = re.compile(r"(?P<prefix>.+)-(?P<qos>burstable|besteffort)\.slice")
_SLICE_POD = re.compile(rf"(?P<prefix>.+)-pod{_UID}\.slice")
_SCOPE = re.compile(r"(?P<runtime>[a-z]+(?:-[a-z]+)*)-(?P<id>[0-9a-f]{64})\.scope")
_FOLDER_POD = re.compile(rf"pod{_UID}")
_FOLDER_CONTAINER = re.compile(r"(?:(?P<runtime>[a-z]+(?:-[a-z]+)*)-)?(?P<id>[0-9a-f]{64})")
_MONITORS = frozenset(("crio-conmon",))  # scopes of a runtime's own processes
_QOS = {"burstable": KubernetesQoS.BURSTABLE, "besteffort": KubernetesQoS.BEST_EFFORT}
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class PodCgroup:
    """A pod's own group."""

    group: str
    uid: str  # with dashes, as in the API
    qos: KubernetesQoS


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """A container's group. A pod's sandbox looks the same; only the runtime can distinguish it."""

    group: str
    pod: PodCgroup
    container_id: str
    runtime: str = ""  # from the scope's name, e.g. "cri-containerd"; "" for plain folders


def is_root(name: str) -> bool:
    """Whether a group's own name is that of a kubelet root."""
    return name == "kubepods" or _SLICE_ROOT.fullmatch(name) is not None


def best_effort_group(root: str) -> str:
    """The group of all best-effort pods below kubelet's root (a path whose last part `is_root`)."""
    return _class_group(root, "besteffort")


def burstable_group(root: str) -> str:
    """The group of all burstable pods below kubelet's root."""
    return _class_group(root, "burstable")


def _class_group(root: str, qos: str) -> str:
    name = root.rpartition("/")[2]
    return f"{root}/{qos}" if name == "kubepods" else f"{root}/{name.removesuffix('.slice')}-{qos}.slice"


def read_group(group: str) -> PodCgroup | ContainerGroup | None:
    """Parse a group's path: a pod's group, a container's, or None for everything else."""
    parts = group.split("/")
    if len(parts) > _DEEPEST:
        return None
    at = next((index for index, part in enumerate(parts) if is_root(part)), None)
    if at is None:
        return None
    below = parts[at + 1 :]
    if parts[at] == "kubepods":
        return _folders(group, below)
    return _slices(group, parts[at].removesuffix(".slice"), below)


def _folders(group: str, below: list[str]) -> PodCgroup | ContainerGroup | None:
    qos = _QOS.get(below[0]) if below else None
    named = below[1:] if qos is not None else below
    if not 1 <= len(named) <= 2:
        return None
    pod = _FOLDER_POD.fullmatch(named[0])
    if pod is None:
        return None
    found = PodCgroup(_first(group, len(named) - 1), _dashes(pod["uid"]), qos or KubernetesQoS.GUARANTEED)
    return found if len(named) == 1 else _container(group, found, _FOLDER_CONTAINER.fullmatch(named[1]))


def _slices(group: str, prefix: str, below: list[str]) -> PodCgroup | ContainerGroup | None:
    qos = KubernetesQoS.GUARANTEED
    if below and (of_class := _SLICE_CLASS.fullmatch(below[0])) is not None and of_class["prefix"] == prefix:
        qos = _QOS[of_class["qos"]]
        prefix = below[0].removesuffix(".slice")
        below = below[1:]
    if not 1 <= len(below) <= 2:
        return None
    pod = _SLICE_POD.fullmatch(below[0])
    if pod is None or pod["prefix"] != prefix:
        return None
    found = PodCgroup(_first(group, len(below) - 1), _dashes(pod["uid"]), qos)
    return found if len(below) == 1 else _container(group, found, _SCOPE.fullmatch(below[1]))


def _container(group: str, pod: PodCgroup, named: re.Match[str] | None) -> ContainerGroup | None:
    if named is None or named["runtime"] in _MONITORS:
        return None
    return ContainerGroup(group, pod, named["id"], named["runtime"] or "")


def _first(group: str, dropped: int) -> str:
    return group.rpartition("/")[0] if dropped else group


def _dashes(uid: str) -> str:
    return uid.replace("_", "-")
