"""`cotenant node gpus`: who holds each GPU, and how much of it is used."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.cli.node.gpu_culprit import append, pod_names
from cotenant.drivers.gpu.amd_smi import read_amd_smi
from cotenant.drivers.gpu.dcgm import read_dcgm
from cotenant.drivers.gpu.nvidia_smi import read_nvidia_smi
from cotenant.drivers.gpu.pmon import read_pmon, with_processes
from cotenant.drivers.gpu.recorded_values import MAX_BYTES
from cotenant.drivers.gpu.rocm_smi import read_rocm_smi
from cotenant.drivers.kubelet.pod_of_process import uid_of_pod
from cotenant.drivers.kubelet.pod_resources import read_pod_resources
from cotenant.engine.node.gpu_holding import IDLE_BELOW_PERMILLE, attributed, idle_gpus
from cotenant.model.devices.gpu_use import GpuHolder, GpuUse, joined, whole_or_instances
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CardReading:
    """A reading that is appended to a file."""

    file: Path
    service: str
    level: float | None


@dataclass(frozen=True, slots=True)
class Recordings:
    """The files, each of one tool's output."""

    dcgm: Path | None = None
    nvidia_smi: Path | None = None
    nvidia_smi_list: Path | None = None
    amd_smi: tuple[Path, ...] = ()
    rocm_smi: Path | None = None
    pod_resources: Path | None = None
    pmon: Path | None = None


def gpus(
    files: Recordings,
    of_this_machine: bool,
    as_json: bool,
    proc: Path = Path("/proc"),
    *,
    agent: str = "",
    reading: CardReading | None = None,
) -> int:
    """Read the recordings that are given. `of_this_machine`: and of this moment, so process ids can be looked up, and
    named by the `agent`. `reading`: append what a service and its neighbours take. Raises `InvalidInput`.
    """
    given: dict[str, list[GpuHolder]] = {}
    uses = _uses(files)
    if files.pod_resources is not None:
        given = read_pod_resources(_text("--pod-resources", files.pod_resources))
    if files.pmon is not None:
        uses = with_processes(uses, read_pmon(_text("--pmon", files.pmon)))
    names = pod_names(agent) if agent and of_this_machine else {}
    pods: dict[int, GpuHolder] = {}
    for process in (process for use in uses if of_this_machine for process in use.processes):
        if uid := uid_of_pod(process.pid, proc):
            pods[process.pid] = GpuHolder(names.get(uid, uid))
    found = attributed(uses, given, pods)
    if reading is not None:
        append(reading.file, reading.service, reading.level, found, pods, of_this_machine)
        return 0
    idle = idle_gpus(found)
    if as_json:
        page = {"gpus": [asdict(use) for use in found], "idle": asdict(idle)}
        print(msgspec.json.format(msgspec.json.encode(page)).decode())
        return 0
    headings = ("GPU", "holder", "SM", "tensor", "memory b/w", "busy", "memory", "PCIe", "NVLink", "slowed by, Xid")
    tables.print_words(headings, [_row(use) for use in whole_or_instances(found)])
    print()
    below = f"below {IDLE_BELOW_PERMILLE / 10:g} % active"
    tables.print_line(f"{idle.idle} of {idle.allocated} allocated GPUs are idle ({below})", strong=bool(idle.idle))
    if idle.idle:
        holders = ", ".join(idle.idle_holders)
        tables.print_folded(f"they hold {idle.idle_memory_bytes / 2**30:.1f} GiB of memory: {holders}")
    if idle.unknown:
        print(f"of {idle.unknown} the recording does not say how active they are")
    return 0


def _uses(files: Recordings) -> list[GpuUse]:
    """All GPUs of all recordings, each once."""
    found: list[GpuUse] = []
    if files.dcgm is not None:
        found += read_dcgm(_text("--dcgm", files.dcgm))
    if files.nvidia_smi is not None:
        listed = "" if files.nvidia_smi_list is None else _text("--nvidia-smi-list", files.nvidia_smi_list)
        found += read_nvidia_smi(_text("--nvidia-smi", files.nvidia_smi), listed)
    if files.amd_smi:
        found += read_amd_smi(*(_text("--amd-smi", path) for path in files.amd_smi))
    if files.rocm_smi is not None:
        found += read_rocm_smi(_text("--rocm-smi", files.rocm_smi))
    if not found:
        hint = "`cotenant node status` has this machine's own, by NVML"
        raise InvalidInput("gpus", "nothing", "--dcgm, --nvidia-smi, --amd-smi or --rocm-smi FILE", hint)
    return joined(found)


def _row(use: GpuUse) -> tuple[str, ...]:
    slowed = [*use.throttled_by, *([f"Xid {use.xid}"] if use.xid else [])]
    return (
        f"{use.index}{f' {use.instance}' if use.instance else ''}",
        ", ".join(holder.pod for holder in use.holders) or "nobody",
        _share(use.sm_active_permille),
        _share(use.tensor_active_permille),
        _share(use.memory_active_permille),
        _share(use.busy_permille),
        f"{_gib(use.memory_used_bytes)} of {_gib(use.memory_total_bytes)} GiB",
        _rate(use.pcie_sent_bytes_per_s, use.pcie_received_bytes_per_s),
        _rate(use.nvlink_sent_bytes_per_s, use.nvlink_received_bytes_per_s),
        ", ".join(slowed) or "–",
    )


def _share(permille: int | None) -> str:
    return "–" if permille is None else f"{permille / 10:.1f} %"


def _gib(amount: int | None) -> str:
    return "–" if amount is None else f"{amount / 2**30:.1f}"


def _rate(sent: int | None, received: int | None) -> str:
    return "–" if sent is None and received is None else f"{((sent or 0) + (received or 0)) / 1e6:.0f} MB/s"


def _text(option: str, path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(option, f"{path.stat().st_size} bytes", f"at most {MAX_BYTES}")
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(option, str(path), f"a text file that can be read ({error})") from None
