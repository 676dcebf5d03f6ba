"""What `amd-smi metric --json` printed.

A list of GPUs, or an object with one under `gpu_data`, by release; each value an object with its unit, a bare number,
or "N/A". Graphics activity is what NVIDIA calls busy; the memory controller's activity is its bandwidth's.
Limits: processes are in another command; there is no activity of the matrix units.

Source: ROCm/amdsmi, amdsmi_cli.
"""

from __future__ import annotations

import msgspec

from cotenant.drivers.gpu.recorded_values import MAX_BYTES, amount
from cotenant.model.devices.gpu_use import GpuUse
from cotenant.model.errors import InvalidInput

_MAX_GPUS = 64
_POWER = ("socket_power", "current_socket_power", "average_socket_power")


def read_amd_smi(text: str) -> tuple[GpuUse, ...]:
    """All GPUs. Raises `InvalidInput`."""
    expected = "the JSON of amd-smi metric --json"
    if len(text) > MAX_BYTES:
        raise InvalidInput("amd-smi", f"{len(text)} characters", f"at most {MAX_BYTES}")
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("amd-smi", str(error)[:80], expected) from None
    gpus = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(gpus, list) or not 1 <= len(gpus) <= _MAX_GPUS:
        raise InvalidInput("amd-smi", type(gpus).__name__, f"{expected}: 1 to {_MAX_GPUS} GPUs")
    return tuple(_use(place, gpu) for place, gpu in enumerate(gpus))


def _use(place: int, gpu: object) -> GpuUse:
    index = _at(gpu, "gpu")
    return GpuUse(
        "amd-smi",
        index if isinstance(index, int) and 0 <= index < 10_000 else place,
        busy_permille=_amount(gpu, "usage", "gfx_activity", unit="%"),
        memory_active_permille=_amount(gpu, "usage", "umc_activity", unit="%"),
        memory_used_bytes=_amount(gpu, "mem_usage", "used_vram", unit="MB"),
        memory_total_bytes=_amount(gpu, "mem_usage", "total_vram", unit="MB"),
        power_mw=next((found for name in _POWER if (found := _amount(gpu, "power", name, unit="W")) is not None), None),
        sm_clock_mhz=_amount(gpu, "clock", "gfx_0", "clk", unit="MHz"),
        throttled_by=("throttled",) if _at(gpu, "power", "throttle_status") in ("THROTTLED", True) else (),
    )


def _amount(gpu: object, *path: str, unit: str) -> int | None:
    """amd-smi's MB are of 2^20 bytes."""
    found = _at(gpu, *path)
    if isinstance(found, dict):
        unit = str(found.get("unit") or unit)
        found = found.get("value")
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return amount(repr(found), "MiB" if unit == "MB" else unit)


def _at(value: object, *path: str) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
