"""Containers as containerd and runc start, update and stop them: one sleeping process in a group of its own.

Source: containerd 1.6/1.7, pkg/cri/server (a sandbox has the least shares; an update merges into the container's whole
resources and hands all of them to runc) and runc 1.1, libcontainer/process_linux.go and update.go.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.fakes.node.kubelet.groups import GroupManager
from tests.fakes.node.kubelet.pods import MIN_SHARES, Resources

SANDBOX = "POD"
_SLEEP = ("sleep", "1000000")


@dataclass(slots=True)
class Running:
    """One container."""

    pod: tuple[str, ...]
    container_id: str
    resources: Resources
    process: subprocess.Popen[bytes] | None = None  # None: a real runtime's


@dataclass(slots=True)
class Runtime:
    """It outlives the kubelet, as containerd does."""

    groups: GroupManager
    command: Sequence[str] = _SLEEP
    running: dict[tuple[str, str], Running] = field(default_factory=dict)  # by a pod's UID and the container's name

    def start(self, uid: str, name: str, pod: tuple[str, ...], resources: Resources) -> None:
        """Create and start. Raises `Failed`, and leaves nothing behind then."""
        container_id = hashlib.sha256(f"{uid}/{name}".encode()).hexdigest()
        if name == SANDBOX:
            resources = Resources(cpu_shares=MIN_SHARES)
        process = subprocess.Popen(
            self.command if name != SANDBOX else _SLEEP, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        made = Running(pod, container_id, resources, process)
        try:
            self.groups.start_container(pod, container_id, process.pid, resources)
        except BaseException:
            self._end(made)
            raise
        self.running[uid, name] = made

    def update(self, uid: str, name: str, **changed: object) -> None:
        """CRI's UpdateContainerResources: what is named changes, and runc writes everything. Raises `Failed`."""
        found = self.running[uid, name]
        found.resources = replace(found.resources, **changed)  # type: ignore[arg-type]
        self.groups.update_container(found.pod, found.container_id, found.resources)

    def path(self, uid: str, name: str) -> str:
        """A container's group below the tree's root."""
        found = self.running[uid, name]
        return self.groups.container_path(found.pod, found.container_id)

    def stop(self, uid: str) -> None:
        """All of a pod's containers, the sandbox last."""
        for key in sorted((key for key in self.running if key[0] == uid), key=lambda key: key[1] == SANDBOX):
            self._end(self.running.pop(key))

    def stop_all(self) -> None:
        for uid in {uid for uid, _ in self.running}:
            self.stop(uid)

    def _end(self, container: Running) -> None:
        assert container.process is not None
        container.process.kill()
        container.process.wait()
        self.groups.remove_container(container.pod, container.container_id)
