"""The kubelet's static CPU manager: whole CPUs for guaranteed containers, the rest for all others.

Source: Kubernetes 1.36, pkg/kubelet/cm/cpumanager (policy_static.go, cpu_manager.go): every ten seconds a container
whose CPUs are not those that this process last wrote is updated; after a restart that is every container. Limits: CPUs
are taken in the order of their numbers, without topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cotenant.model.cpus.cpulist import format_cpus

Key = tuple[str, str]  # a pod's UID and a container's name


@dataclass(slots=True)
class Checkpoint:
    """The state file, which outlives the process."""

    taken: dict[Key, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class CpuManager:
    """`reserved` are never given to one container; they belong to the shared pool."""

    cpus: tuple[int, ...]
    reserved: tuple[int, ...]
    checkpoint: Checkpoint
    written: dict[Key, str] = field(default_factory=dict)

    def take(self, key: Key, count: int) -> bool:
        """CPUs for a container; False where there are not enough (the pod is not admitted)."""
        if key in self.checkpoint.taken or not count:
            return True
        free = [cpu for cpu in self._shared() if cpu not in self.reserved]
        if len(free) < count:
            return False
        self.checkpoint.taken[key] = tuple(free[:count])
        return True

    def release(self, uid: str) -> None:
        """A pod has ended."""
        for key in [key for key in self.checkpoint.taken if key[0] == uid]:
            del self.checkpoint.taken[key]

    def cpus_of(self, key: Key) -> str:
        """As the file has it."""
        return format_cpus(self.checkpoint.taken.get(key) or self._shared())

    def is_exclusive(self, key: Key) -> bool:
        return key in self.checkpoint.taken

    def due(self, keys: Sequence[Key]) -> list[Key]:
        """Containers to be updated now."""
        return [key for key in keys if self.written.get(key) != self.cpus_of(key)]

    def _shared(self) -> tuple[int, ...]:
        taken = {cpu for cpus in self.checkpoint.taken.values() for cpu in cpus}
        return tuple(cpu for cpu in self.cpus if cpu not in taken)
