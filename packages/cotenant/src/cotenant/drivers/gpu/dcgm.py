"""The page of NVIDIA's DCGM exporter.

Which fields it has is the operator's choice (a CSV file of the exporter), so each is optional; profiling fields need
a data-centre GPU. Bytes of PCIe and NVLink are rates, though the exporter's own list calls some a counter.
Limits: several containers on one GPU come as lines that differ in pod labels; their values are the GPU's. Of NVLink
the profiling fields count: DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, in the exporter's own list, tells neither a direction
nor a unit.

Source: NVIDIA/dcgm-exporter, etc/default-counters.csv; DCGM, "Field Identifiers".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO

from prometheus_client.parser import text_fd_to_metric_families

from cotenant.drivers.gpu.places import short_address
from cotenant.drivers.gpu.recorded_values import amount, reasons
from cotenant.model.devices.gpu_use import GpuHolder, GpuUse
from cotenant.model.errors import InvalidInput

_PREFIXES = ("DCGM_FI_", "DCGM_EXP_")
_MAX_LINES, _MAX_LINE, _MAX_GPUS = 50_000, 4096, 512
_SHARE = {
    "DCGM_FI_PROF_SM_ACTIVE": "sm_active_permille",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "tensor_active_permille",
    "DCGM_FI_PROF_DRAM_ACTIVE": "memory_active_permille",
}
_UNIT = {
    "DCGM_FI_DEV_GPU_UTIL": ("busy_permille", "%"),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", "MiB"),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_sent_bytes_per_s", "B"),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_received_bytes_per_s", "B"),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("nvlink_sent_bytes_per_s", "B"),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("nvlink_received_bytes_per_s", "B"),
    "DCGM_FI_DEV_POWER_USAGE": ("power_mw", "W"),
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock_mhz", "MHz"),
    "DCGM_FI_DEV_XID_ERRORS": ("xid", ""),
}
_MEMORY = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED")
_THROTTLES = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")


def read_dcgm(text: str) -> tuple[GpuUse, ...]:
    """All GPUs and instances of the page. Raises `InvalidInput`."""
    lines = [line for line in text.split("\n") if line.startswith(_PREFIXES)]
    if not lines or len(lines) > _MAX_LINES or max(map(len, lines)) > _MAX_LINE:
        shown = f"{len(lines)} lines of DCGM"
        raise InvalidInput("DCGM", shown, f"1 to {_MAX_LINES} lines of at most {_MAX_LINE} characters")
    try:
        samples = [
            (sample.name, sample.labels, float(sample.value))
            for family in text_fd_to_metric_families(StringIO("\n".join(lines)))
            for sample in family.samples
        ]
    except (ValueError, KeyError, IndexError) as error:  # the parser's own for lines that are none
        raise InvalidInput("DCGM", str(error)[:80], "Prometheus' text format") from None
    fields: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    labels_of: dict[tuple[str, str], Mapping[str, str]] = {}
    holders: dict[tuple[str, str], list[GpuHolder]] = defaultdict(list)
    for name, labels, value in samples:
        key = (labels.get("UUID") or labels.get("uuid") or labels.get("gpu", ""), labels.get("GPU_I_ID", ""))
        fields[key][name] = value
        labels_of.setdefault(key, labels)
        holders[key] += _holder(labels)
    if len(fields) > _MAX_GPUS:
        raise InvalidInput("DCGM", f"{len(fields)} GPUs", f"at most {_MAX_GPUS}")
    return tuple(
        replace(_use(labels_of[key], found), holders=tuple(dict.fromkeys(holders[key])))
        for key, found in fields.items()
    )


def _holder(labels: Mapping[str, str]) -> list[GpuHolder]:
    """The pod of a line; of Prometheus' own labels the exporter's are kept with a prefix."""
    pod = labels.get("exported_pod") or labels.get("pod") or ""
    namespace = labels.get("exported_namespace") or labels.get("namespace") or ""
    container = labels.get("exported_container") or labels.get("container") or ""
    return [GpuHolder(f"{namespace}/{pod}", container)] if pod and namespace else []


def _use(labels: Mapping[str, str], found: Mapping[str, float]) -> GpuUse:
    known: dict[str, int | None] = {
        field: amount(repr(found[name]), unit) for name, (field, unit) in _UNIT.items() if name in found
    }
    for name, field in _SHARE.items():
        share = found.get(name, -1.0)
        known[field] = round(1000 * share) if 0 <= share <= 1 else None
    memory = [found.get(name) for name in _MEMORY]
    if memory[0] is not None and memory[1] is not None:
        known["memory_total_bytes"] = amount(repr(sum(part or 0 for part in memory)), "MiB")
    mask = next((amount(repr(found[name])) for name in _THROTTLES if name in found), None)
    gpu = labels.get("gpu", "")
    profile, number = labels.get("GPU_I_PROFILE", ""), labels.get("GPU_I_ID", "")
    return replace(
        GpuUse(
            "dcgm",
            int(gpu) if gpu.isdecimal() and len(gpu) < 6 else -1,
            labels.get("UUID") or labels.get("uuid") or "",
            labels.get("modelName", ""),
            short_address(labels.get("pci_bus_id", "")),
            f"{profile}#{number}" if number else "",
            throttled_by=reasons(mask),
        ),
        **known,  # type: ignore[arg-type]  # names of fields that hold integers
    )
