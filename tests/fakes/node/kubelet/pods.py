"""Pods as a kubelet sees them, and its arithmetic from requests to cgroup values.

Source: Kubernetes 1.36, pkg/kubelet/cm/helpers_linux.go (shares, quota, the resources of a pod's group) and
pkg/apis/core/v1/helper/qos (the class of a pod). Limits: no init containers, pod-level resources or overhead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

MIN_SHARES, MAX_SHARES, SHARES_PER_CPU = 2, 262_144, 1024
PERIOD_US, MIN_QUOTA_US = 100_000, 1_000


class Qos(StrEnum):
    """Kubernetes' classes, by the name of their group."""

    GUARANTEED = ""
    BURSTABLE = "burstable"
    BEST_EFFORT = "besteffort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a pod. 0 = not given."""

    name: str = "main"
    cpu_request_m: int = 0
    cpu_limit_m: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0

    @property
    def is_guaranteed(self) -> bool:
        return 0 < self.cpu_limit_m == self.cpu_request_m and 0 < self.memory_limit_bytes == self.memory_request_bytes

    @property
    def asks_nothing(self) -> bool:
        return not (self.cpu_request_m or self.cpu_limit_m or self.memory_request_bytes or self.memory_limit_bytes)

    @property
    def exclusive_cpus(self) -> int:
        """How many the static CPU manager gives it alone."""
        return self.cpu_request_m // 1000 if self.is_guaranteed and self.cpu_request_m % 1000 == 0 else 0


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod; its class follows from its containers and never changes."""

    uid: str
    containers: tuple[Container, ...] = (Container(),)

    @property
    def qos(self) -> Qos:
        if all(container.is_guaranteed for container in self.containers):
            return Qos.GUARANTEED
        return Qos.BEST_EFFORT if all(container.asks_nothing for container in self.containers) else Qos.BURSTABLE

    def resized(self, container: Container) -> Pod:
        """The pod with this container in the place of the one of the same name."""
        return replace(
            self, containers=tuple(container if entry.name == container.name else entry for entry in self.containers)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a group is to be set to. None, or 0 for the numbers, leaves a file as it is, as in
    opencontainers/cgroups.
    """

    cpu_shares: int = 0
    cpu_quota_us: int = 0
    cpu_period_us: int = 0
    memory_bytes: int = 0
    pids: int | None = None
    cpus: str = ""
    huge_page_bytes: int | None = None  # for every size; None: not set
    unified: tuple[tuple[str, str], ...] = ()  # files of cgroup v2 by their names


def shares_of(cpu_m: int) -> int:
    return min(max(cpu_m * SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES) if cpu_m else MIN_SHARES


def quota_of(cpu_m: int) -> int:
    """Microseconds in a period; 0 for no limit."""
    return max(cpu_m * PERIOD_US // 1000, MIN_QUOTA_US) if cpu_m else 0


def weight_of(shares: int) -> int:
    """cgroup v2's weight: 2..262144 onto 1..10000."""
    if not shares:
        return 0
    return 10_000 if shares >= MAX_SHARES else 1 + (shares - 2) * 9999 // 262_142


def resources_of_pod(pod: Pod, memory_qos: bool = False, no_quota: bool = False) -> Resources:
    """Those of a pod's own group. `no_quota`: a container of it has CPUs of its own."""
    requests = sum(container.cpu_request_m for container in pod.containers)
    cpu_limit_m = sum(container.cpu_limit_m for container in pod.containers)
    memory = sum(container.memory_limit_bytes for container in pod.containers)
    unified: tuple[tuple[str, str], ...] = ()
    if memory_qos and (asked := sum(container.memory_request_bytes for container in pod.containers)):
        unified = (("memory.min" if pod.qos is Qos.GUARANTEED else "memory.low", str(asked)),)
    made = Resources(cpu_shares=shares_of(requests), huge_page_bytes=0, unified=unified)
    if pod.qos is Qos.BEST_EFFORT:
        return made
    if all(container.cpu_limit_m for container in pod.containers):
        made = replace(made, cpu_quota_us=-1 if no_quota else quota_of(cpu_limit_m), cpu_period_us=PERIOD_US)
    if all(container.memory_limit_bytes for container in pod.containers):
        made = replace(made, memory_bytes=memory)
    return made


def resources_of_container(container: Container, cpus: str = "", no_quota: bool = False) -> Resources:
    """What the kubelet asks the runtime for."""
    return Resources(
        cpu_shares=shares_of(container.cpu_request_m or container.cpu_limit_m),
        cpu_quota_us=-1 if no_quota else quota_of(container.cpu_limit_m),
        cpu_period_us=PERIOD_US,
        memory_bytes=container.memory_limit_bytes,
        cpus=cpus,
        huge_page_bytes=0,
    )
