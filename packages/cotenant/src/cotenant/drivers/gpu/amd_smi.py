"""What `amd-smi metric --json` printed, and beside it `amd-smi list`, `static` and `process`, each as JSON.

Each is a list of GPUs, or an object with one under `gpu_data`, by release; each value an object with its unit, a bare
number, or "N/A". They are one GPU where they say the same `gpu`. Graphics activity is what NVIDIA calls busy; the
memory controller's activity is its bandwidth's; a process's compute units count as its multiprocessors. `list` has the
PCI address, by which AMD's device plugin names a GPU, `static` the number of compute units.
Limits: there is no activity of the matrix units, and XGMI bytes are in another command. What is printed as Mb/s of PCIe
is MiB a second, as the tool computes it.

Source: ROCm/amdsmi, amdsmi_cli.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cotenant.drivers.gpu.places import short_address
from cotenant.drivers.gpu.recorded_values import MAX_BYTES, MAX_PROCESSES, amount
from cotenant.model.devices.gpu_use import GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

_MAX_GPUS = 64
_POWER = ("socket_power", "current_socket_power", "average_socket_power")
_THROTTLES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")


def read_amd_smi(*texts: str) -> tuple[GpuUse, ...]:
    """All GPUs of these documents, which are of one moment. Raises `InvalidInput`."""
    found: dict[object, dict[object, object]] = {}
    for text in texts:
        for place, gpu in enumerate(_gpus(text)):
            entry = gpu if isinstance(gpu, dict) else {}
            index = entry.get("gpu")
            found.setdefault(index if _is_number(index) else place, {}).update(entry)
    return tuple(_use(place, gpu) for place, gpu in enumerate(found.values()))


def _gpus(text: str) -> list[object]:
    expected = "the JSON of amd-smi metric, list, static or process"
    if len(text) > MAX_BYTES:
        raise InvalidInput("amd-smi", f"{len(text)} characters", f"at most {MAX_BYTES}")
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("amd-smi", str(error)[:80], expected) from None
    gpus = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(gpus, list) or not 1 <= len(gpus) <= _MAX_GPUS:
        raise InvalidInput("amd-smi", type(gpus).__name__, f"{expected}: 1 to {_MAX_GPUS} GPUs")
    return gpus


def _use(place: int, gpu: object) -> GpuUse:
    index, uuid, bus = _at(gpu, "gpu"), _at(gpu, "uuid"), _at(gpu, "bdf")
    name = _at(gpu, "asic", "market_name")
    throttled = [name for name in _THROTTLES if _at(gpu, "throttle", f"{name}_violation_status") == "ACTIVE"]
    if not throttled and _at(gpu, "power", "throttle_status") in ("THROTTLED", True):
        throttled = ["throttled"]
    return GpuUse(
        "amd-smi",
        index if isinstance(index, int) and _is_number(index) and index < 10_000 else place,
        uuid if isinstance(uuid, str) else "",
        name if isinstance(name, str) else "",
        short_address(bus) if isinstance(bus, str) and ":" in bus else "",
        busy_permille=_amount(gpu, "usage", "gfx_activity", unit="%"),
        memory_active_permille=_amount(gpu, "usage", "umc_activity", unit="%"),
        memory_used_bytes=_amount(gpu, "mem_usage", "used_vram", unit="MB"),
        memory_total_bytes=_amount(gpu, "mem_usage", "total_vram", unit="MB"),
        pcie_sent_bytes_per_s=_amount(gpu, "pcie", "current_bandwidth_sent", unit="Mb/s"),
        pcie_received_bytes_per_s=_amount(gpu, "pcie", "current_bandwidth_received", unit="Mb/s"),
        power_mw=next((found for name in _POWER if (found := _amount(gpu, "power", name, unit="W")) is not None), None),
        sm_clock_mhz=_amount(gpu, "clock", "gfx_0", "clk", unit="MHz"),
        throttled_by=tuple(throttled),
        processes=tuple(_processes(gpu)),
    )


def _processes(gpu: object) -> Iterator[GpuProcess]:
    listed, units = _at(gpu, "process_list"), _amount(gpu, "asic", "num_compute_units", unit="")
    entries = listed if isinstance(listed, list) else []
    if len(entries) > MAX_PROCESSES:
        raise InvalidInput("amd-smi", f"{len(entries)} processes on a GPU", f"at most {MAX_PROCESSES}")
    for entry in entries:
        process = _at(entry, "process_info")
        pid = _at(process, "pid")
        if not isinstance(pid, int) or not _is_number(pid) or pid < 1:
            continue
        memory = _amount(process, "memory_usage", "vram_mem", unit="B")
        used = _amount(process, "cu_occupancy", unit="")
        share = None if used is None or not units else min(1000, 1000 * used // units)
        yield GpuProcess(pid, _amount(process, "mem_usage", unit="B") if memory is None else memory, sm_permille=share)


def _amount(gpu: object, *path: str, unit: str) -> int | None:
    """amd-smi's MB are of 2^20 bytes."""
    found = _at(gpu, *path)
    if isinstance(found, dict):
        unit = str(found.get("unit") or unit)
        found = found.get("value")
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return amount(repr(found), "MiB" if unit in ("MB", "Mb/s") else unit)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _at(value: object, *path: str) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
