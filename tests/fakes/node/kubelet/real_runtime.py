"""A real container runtime below the stand-in for the kubelet: its pods' containers are those of a containerd or
CRI-O, in the slices that the stand-in asked systemd for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import grpc
from bench.containerd import Pod
from bench.containerd import Runtime as CriDaemon
from tests.fakes.node.kubelet.groups import GroupManager
from tests.fakes.node.kubelet.pods import Resources
from tests.fakes.node.kubelet.runtime import SANDBOX, Running, Runtime
from tests.fakes.node.kubelet.writes import Failed


@dataclass(slots=True)
class RealRuntime(Runtime):
    """Implements the fake's calls by CRI. `labels` and `annotations` are given to the next pods."""

    daemon: CriDaemon = field(kw_only=True)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    def start(self, uid: str, name: str, pod: tuple[str, ...], resources: Resources) -> None:
        try:
            if name == SANDBOX:
                parent = self.groups.path(pod).rpartition("/")[2]
                self.pods[uid] = self.daemon.pod(uid, f"pod-{uid[:8]}", parent, self.labels, self.annotations)
                container = self.pods[uid].sandbox
            else:
                container = self.daemon.container(self.pods[uid], asked(resources), name=name)
                self.daemon.start(container)
        except grpc.RpcError as error:
            raise Failed(str(error)) from error
        self.running[uid, name] = Running(pod, container, resources)

    def update(self, uid: str, name: str, **changed: object) -> None:
        found = self.running[uid, name]
        found.resources = replace(found.resources, **changed)  # type: ignore[arg-type]
        try:
            self.daemon.ask("UpdateContainerResources", container_id=found.container_id, linux=asked(found.resources))
        except grpc.RpcError as error:
            raise Failed(str(error)) from error

    def path(self, uid: str, name: str) -> str:
        return self.daemon.group_of(self.pods[uid], self.running[uid, name].container_id)

    def stop(self, uid: str) -> None:
        for key in [key for key in self.running if key[0] == uid]:
            del self.running[key]
        if (pod := self.pods.pop(uid, None)) is not None:
            self.daemon.remove(pod)


def asked(resources: Resources) -> dict[str, int]:
    """As a kubelet asks a runtime."""
    fields = {
        "cpu_shares": resources.cpu_shares,
        "cpu_quota": resources.cpu_quota_us,
        "cpu_period": resources.cpu_period_us,
        "memory_limit_in_bytes": resources.memory_bytes,
    }
    return {name: value for name, value in fields.items() if value}


def below(groups: GroupManager, daemon: CriDaemon) -> RealRuntime:
    """A runtime whose containers are in the groups of this manager."""
    return RealRuntime(groups, daemon=daemon)
