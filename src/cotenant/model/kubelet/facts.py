"""What is known of a node's kubelet and of its systemd; unknown is not "no"."""

from __future__ import annotations

from dataclasses import dataclass

STATIC = "static"


@dataclass(frozen=True, slots=True)
class KubeletFacts:
    """`cgroup_version`: of the CPU controller. `version`: the kubelet's (major, minor). `cpu_manager`, `topology_manager`: their policies, "" where not
    known. `reserved_cpus`: those that its static policy keeps for the system. `memory_qos`: the feature gate MemoryQoS. `systemd`: the version of a
    systemd that sets properties for us, None where there is none or it cannot be reached."""

    cgroup_version: int = 2
    version: tuple[int, int] | None = None
    cpu_manager: str = ""
    topology_manager: str = ""
    reserved_cpus: tuple[int, ...] = ()
    memory_qos: bool | None = None
    systemd: int | None = None

    @property
    def is_static(self) -> bool:
        """Whether the kubelet gives CPUs to containers."""
        return self.cpu_manager == STATIC
