"""The pod of a process, by its cgroup.

A process of a container may be in a group below the container's own, so the deepest part of its path that is a pod's
or a container's counts. The path holds a pod's UID and no name.
"""

from __future__ import annotations

from pathlib import Path

from cotenant.model.kubelet.group_names import ContainerGroup, read_group

_MAX_BYTES = 64 << 10


def uid_of_pod(pid: int, proc: Path = Path("/proc")) -> str:
    """The UID of the pod that a process runs in now; empty where it runs in none, or is gone."""
    try:
        with (proc / str(pid) / "cgroup").open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    for line in text.splitlines():
        parts = line.partition(":")[2].partition(":")[2].strip("/").split("/")
        for length in range(len(parts), 0, -1):
            group = read_group("/".join(parts[:length]))
            if group is not None:
                return group.pod.uid if isinstance(group, ContainerGroup) else group.uid
    return ""
