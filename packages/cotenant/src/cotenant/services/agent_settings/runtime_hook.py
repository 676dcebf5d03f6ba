"""The settings of the node's runtime hook (`cotenant nri`), a part of the agent's configuration.

The hook and the agent act on the same containers one after the other, and must not disagree. One file for both: mode
and batch resources are the agent's, and this part says what is the hook's alone.
Limits: what annotations ask for is off until namespaces are named whose pods are believed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.address import Address
from cotenant.drivers.kubelet.cpu_manager import STATE as CPU_MANAGER_STATE
from cotenant.drivers.nri.state_file import PATH as STATE_FILE
from cotenant.model.errors import InvalidInput

SOCKET = Path("/var/run/nri/nri.sock")
_KIND = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeHook:
    """What `cotenant nri` does. Raises `InvalidInput` with the field's name."""

    socket: Path = SOCKET  # the container runtime's
    index: str = "50"  # its place among the runtime's plugins, "00" to "99"
    listen: str = ""  # HOST:PORT or unix:PATH of its own /metrics and /healthz; "" = nowhere
    state_file: Path = STATE_FILE
    realtime: bool = True  # answer before ordinary work runs, where the process may (CAP_SYS_NICE)
    best_effort: bool = True  # the least weight for best-effort containers without batch CPU
    believed_namespaces: tuple[str, ...] = ()  # whose pods' annotations of CPUs and devices are followed; "*" = all
    cpus: bool = False  # the CPU set of resource-status
    cpu_manager_state: Path = CPU_MANAGER_STATE  # the kubelet's checkpoint; CPU sets need its policy "none" there
    devices: bool = False  # NVIDIA_VISIBLE_DEVICES, by device-allocated
    cdi_kind: str = ""  # with devices: CDI names of this kind too, as nvidia.com/gpu
    mps_pipe: Path | None = None  # with devices: of the MPS daemon by whose limits shares of GPUs are held
    mps_shared_memory: Path | None = None  # the host's folder that its clients have as /dev/shm
    cache_class: str = ""  # of best-effort containers: a class that the runtime and resctrl have
    names: bool = False  # COTENANT_GUID and OpenTelemetry's names
    otlp_endpoint: str = ""  # with names: OTEL_EXPORTER_OTLP_ENDPOINT

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9]{2}", self.index):
            raise InvalidInput("index", self.index, 'two digits, "00" to "99"')
        if self.listen:
            Address.parse("listen", self.listen)
        if (self.cpus or self.devices) and not self.believed_namespaces:
            raise InvalidInput(
                "believed_namespaces",
                "none",
                "namespaces, or *, with cpus or devices",
                "any owner of a pod can write the annotations that these go by",
            )
        if self.cdi_kind and not _KIND.fullmatch(self.cdi_kind):
            raise InvalidInput("cdi_kind", self.cdi_kind, "vendor/class, as nvidia.com/gpu")
        if self.cdi_kind and not self.devices:
            raise InvalidInput("cdi_kind", self.cdi_kind, "devices: true with it")
        if self.mps_pipe is not None and not self.devices:
            raise InvalidInput("mps_pipe", str(self.mps_pipe), "devices: true with it")
        if self.mps_shared_memory is not None and self.mps_pipe is None:
            raise InvalidInput("mps_shared_memory", str(self.mps_shared_memory), "mps_pipe with it")
        for name, folder in (("mps_pipe", self.mps_pipe), ("mps_shared_memory", self.mps_shared_memory)):
            if folder is not None and (not folder.is_absolute() or folder == Path("/")):
                raise InvalidInput(name, str(folder), "the absolute path of a folder, of the host and of this process")
        if self.otlp_endpoint and not self.names:
            raise InvalidInput("otlp_endpoint", self.otlp_endpoint, "names: true with it")
