"""The virtual machine of a zone, as its file has it: resources, kernel, and what it sees of its host."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.zones.pods import check_digest, check_host_path

MIN_MEMORY_MIB, MAX_MEMORY_MIB = 256, 16_384
MAX_CPUS = 16
MIN_CPU_MILLI, MAX_CPU_MILLI = 100, 64_000
MAX_DISK_MIB = 65_536
MAX_HOST_PATHS = 64
PACKAGE = "linux-image-cloud-amd64"
_PACKAGE = re.compile(r"linux-image-[a-z0-9]+(-[a-z0-9]+)*")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:/+-]*)?")
# what starts the guest's own root and console, and what would make room for code on the command line
_OWN_PARAMETERS = frozenset({"console", "rdinit", "init", "root", "panic", "cgroup_no_v1", "preempt", "psi"})
LONGEST_CMDLINE = 1024  # the kernel cuts its command line off at 2048 characters, and the machine has some of them


class KernelPreemption(StrEnum):
    """Models of a kernel built with PREEMPT_DYNAMIC; which it knows differs by its version."""

    FULL = "full"
    LAZY = "lazy"
    VOLUNTARY = "voluntary"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KernelDefinition:
    """The kernel. `package`: of Debian's backports, fetched by `cotenant zone kernel`; `file`: an image instead,
    beside the zone's file or absolute, with virtio, virtiofs and, for pods, virtio_net and overlay built in; `sha256`:
    of the image that boots, "": not checked; `preempt`, `hz`: what the guest must have, else the zone does not start;
    `cmdline`: more parameters.
    """

    package: str = ""
    file: str = ""
    sha256: str = ""
    preempt: KernelPreemption | None = None
    hz: int = 0
    cmdline: str = ""

    def __post_init__(self) -> None:
        if self.package and self.file:
            raise InvalidInput("file", self.file, "a package or a file, not both")
        if self.package and not _PACKAGE.fullmatch(self.package):
            raise InvalidInput("package", self.package, f"a kernel's meta-package, as in {PACKAGE}")
        if "\0" in self.file:
            raise InvalidInput("file", self.file, "a file")
        check_digest("sha256", self.sha256)
        if self.hz not in (0, 100, 250, 300, 1000):
            raise InvalidInput("hz", self.hz, "100, 250, 300 or 1000; 0: whatever it has")
        if len(self.cmdline) > LONGEST_CMDLINE:
            raise InvalidInput("cmdline", self.cmdline, f"at most {LONGEST_CMDLINE} characters")
        for parameter in self.cmdline.split():
            if not _PARAMETER.fullmatch(parameter):
                raise InvalidInput("cmdline", parameter, "parameters as in nohz_full=1")
            if parameter.partition("=")[0].replace("-", "_") in _OWN_PARAMETERS:  # one to the kernel
                raise InvalidInput("cmdline", parameter, "parameters that the machine does not set itself")

    @property
    def command_line(self) -> str:
        """Of the kernel, after the machine's own."""
        preempt = "" if self.preempt is None else f"preempt={self.preempt.value}"
        return " ".join(filter(None, (preempt, *self.cmdline.split())))


@dataclass(frozen=True, slots=True)
class VmDefinition:
    """The virtual machine of a zone. `cpu_milli`: most CPU time that its processes use on this host, 0: as much as its
    vCPUs take; `disk_mib`: most that the unpacked images of its pods take here, it writes nothing else; `group`: the
    host's group of its processes, made where only its parent exists; "": the keeper's own; `host_paths`: paths of this
    host that the guest sees, read-only, besides what its agent needs; `outbound`: its pods reach this host's network;
    `namespace`: of its pods, for the spans that they send and ServiceObjectives, "": the zone's name.
    """

    memory_mib: int = 512
    cpus: int = 1
    group: str = ""
    kernel: KernelDefinition = field(default_factory=KernelDefinition)
    host_paths: tuple[str, ...] = ()
    outbound: bool = False
    namespace: str = ""
    cpu_milli: int = 0
    disk_mib: int = 2048

    def __post_init__(self) -> None:
        if not MIN_MEMORY_MIB <= self.memory_mib <= MAX_MEMORY_MIB:
            raise InvalidInput("memory_mib", self.memory_mib, f"{MIN_MEMORY_MIB} to {MAX_MEMORY_MIB}")
        if not 1 <= self.cpus <= MAX_CPUS:
            raise InvalidInput("cpus", self.cpus, f"1 to {MAX_CPUS}")
        if self.cpu_milli and not MIN_CPU_MILLI <= self.cpu_milli <= MAX_CPU_MILLI:
            raise InvalidInput("cpu_milli", self.cpu_milli, f"{MIN_CPU_MILLI} to {MAX_CPU_MILLI}; 0: no limit")
        if self.cpu_milli and not self.group:
            raise InvalidInput("cpu_milli", self.cpu_milli, "a group with it", "its limit is that group's")
        if not 1 <= self.disk_mib <= MAX_DISK_MIB:
            raise InvalidInput("disk_mib", self.disk_mib, f"1 to {MAX_DISK_MIB}")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise InvalidInput("namespace", self.namespace, "a Kubernetes namespace: 1 to 63 of a-z, 0-9 and -")
        if self.group:
            KnobTarget(self.group, Knob.CPU_WEIGHT)
        if len(self.host_paths) > MAX_HOST_PATHS:
            raise InvalidInput("host_paths", len(self.host_paths), f"at most {MAX_HOST_PATHS}")
        for path in self.host_paths:
            check_host_path("host_paths", path)
