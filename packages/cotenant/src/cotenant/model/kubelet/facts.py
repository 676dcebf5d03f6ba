"""What is known of a node's kubelet and of its systemd; unknown is not "no"."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

STATIC = "static"


@dataclass(frozen=True, slots=True)
class KubeletFacts:
    """What a kubelet does on its node. "", None and () are "not known", except where said.

    `cgroup_version`: of the CPU controller. `version`: the kubelet's (major, minor). `cpu_manager`, `topology_manager`,
    `memory_manager`: their policies, in the kubelet's words. `cpu_options`: those of its CPU manager that are set.
    `reserved_cpus`: those that are kept for the system by name; a kubelet that keeps a number of CPUs chooses them
    itself. `memory_qos`: the feature gate MemoryQoS. `given_cpus`: what its static policy has given, by pod UID.
    `given_devices`: what its device plugins have given, device id and pod as NAMESPACE/NAME.
    `systemd`: the version of a systemd that sets properties for us, None where there is none or it cannot be reached.
    """

    cgroup_version: int = 2
    version: tuple[int, int] | None = None
    cpu_manager: str = ""
    topology_manager: str = ""
    reserved_cpus: tuple[int, ...] = ()
    memory_qos: bool | None = None
    systemd: int | None = None
    cpu_options: tuple[tuple[str, str], ...] = ()
    topology_scope: str = ""  # of the topology manager: container or pod
    memory_manager: str = ""
    cgroup_driver: str = ""
    given_cpus: tuple[tuple[str, tuple[int, ...]], ...] = ()
    given_devices: tuple[tuple[str, str], ...] = ()

    @property
    def is_static(self) -> bool:
        """Whether the kubelet gives CPUs to containers."""
        return self.cpu_manager == STATIC

    @property
    def sentence(self) -> str:
        """Who gives CPUs here, for people; "" where nothing is known of the kubelet."""
        if not self.cpu_manager:
            return ""
        if not self.is_static:
            return f"the kubelet's CPU manager has the policy {self.cpu_manager}: it gives CPUs to no pod"
        return "the kubelet's static CPU manager gives CPUs on this node: CPUs of pods (own_cpus) are left to it"

    def joined(self, better: KubeletFacts) -> KubeletFacts:
        """With what a better source knows; the version of cgroups stays."""
        known = {field.name: getattr(better, field.name) for field in fields(better) if field.name != "cgroup_version"}
        return replace(self, **{name: value for name, value in known.items() if value not in ("", (), None)})
