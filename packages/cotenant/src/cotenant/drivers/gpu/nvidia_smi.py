"""What `nvidia-smi -q -x` printed: XML that grew over the years.

Drivers before 545 write clocks_throttle_reasons for clocks_event_reasons, and power_readings for gpu_power_readings;
both are read. It knows whether any kernel ran and which processes there are, not how active the multiprocessors were.
Its MIG instances have a number and mostly no UUID, by which a device plugin names them: `nvidia-smi -L` has those.
Limits: NVLink bytes are not in it; Xid errors are not in it.

Source: nvidia-smi(1); the DTD that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from cotenant.drivers.gpu.places import short_address
from cotenant.drivers.gpu.recorded_values import MAX_BYTES, MAX_PROCESSES, THROTTLING, amount
from cotenant.model.devices.gpu_use import GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

_MAX_GPUS, _MAX_INSTANCES = 64, 64
_LISTED_GPU = re.compile(r"GPU [0-9]+: .*\(UUID: (GPU-[0-9A-Fa-f-]+)\)\s*")
_LISTED_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+([0-9]+):\s+\(UUID: (MIG-[0-9A-Za-z/-]+)\)\s*")
_THROTTLES = ("clocks_event_reasons/clocks_event_reason_", "clocks_throttle_reasons/clocks_throttle_reason_")
_POWER = (
    "gpu_power_readings/instant_power_draw",
    "gpu_power_readings/power_draw",
    "power_readings/power_draw",
)


def read_nvidia_smi(text: str, listed: str = "") -> tuple[GpuUse, ...]:
    """All GPUs, each followed by its MIG instances. `listed`: what `nvidia-smi -L` printed, for the names and UUIDs of
    these. Raises `InvalidInput`.
    """
    instances = _instances(listed)
    if len(text) > MAX_BYTES or "<!ENTITY" in text:
        raise InvalidInput("nvidia-smi", f"{len(text)} characters", f"at most {MAX_BYTES}, and no entities")
    try:
        top = ElementTree.fromstring(text)  # without entities there is nothing to expand
    except ElementTree.ParseError as error:
        raise InvalidInput("nvidia-smi", str(error), "the XML of nvidia-smi -q -x") from None
    gpus = top.findall("gpu")
    if top.tag != "nvidia_smi_log" or len(gpus) > _MAX_GPUS:
        raise InvalidInput("nvidia-smi", f"{top.tag} with {len(gpus)} GPUs", "the XML of nvidia-smi -q -x")
    is_whole = _text(top, "attached_gpus") == str(len(gpus))
    return tuple(use for place, gpu in enumerate(gpus) for use in _uses(_index(place, gpu, is_whole), gpu, instances))


def _index(place: int, gpu: ElementTree.Element, is_whole: bool) -> int:
    """The number by which the other commands of nvidia-smi call it: its place among all. Of a log of some GPUs only,
    the number of its device file, which is mostly the same.
    """
    minor = _text(gpu, "minor_number")
    return int(minor) if not is_whole and minor.isdecimal() and len(minor) < 6 else place


def _instances(listed: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Profile and UUID of each MIG device, by the GPU's UUID and its number on that."""
    if len(listed) > MAX_BYTES:
        raise InvalidInput("nvidia-smi -L", f"{len(listed)} characters", f"at most {MAX_BYTES}")
    found: dict[tuple[str, str], tuple[str, str]] = {}
    gpu = ""
    for line in listed.splitlines():
        if of_gpu := _LISTED_GPU.fullmatch(line):
            gpu = of_gpu[1]
        elif of_instance := _LISTED_INSTANCE.fullmatch(line):
            found[gpu, of_instance[2]] = of_instance[1], of_instance[3]
    if listed and not gpu:
        raise InvalidInput("nvidia-smi -L", listed[:80], "lines such as `GPU 0: NVIDIA A100 (UUID: GPU-...)`")
    return found


def _uses(index: int, gpu: ElementTree.Element, instances: dict[tuple[str, str], tuple[str, str]]) -> Iterator[GpuUse]:
    uuid, name = _text(gpu, "uuid"), _text(gpu, "product_name")
    bus = short_address(gpu.get("id", ""))
    processes, divisions = gpu.findall("processes/process_info"), gpu.findall("mig_devices/mig_device")
    if len(processes) > MAX_PROCESSES or len(divisions) > _MAX_INSTANCES:
        shown = f"{len(processes)} processes, {len(divisions)} MIG devices of a GPU"
        raise InvalidInput("nvidia-smi", shown, f"at most {MAX_PROCESSES} and {_MAX_INSTANCES}")
    yield GpuUse(
        "nvidia-smi",
        index,
        uuid,
        name,
        bus,
        busy_permille=amount(_text(gpu, "utilization/gpu_util")),
        memory_active_permille=amount(_text(gpu, "utilization/memory_util")),
        memory_used_bytes=amount(_text(gpu, "fb_memory_usage/used")),
        memory_total_bytes=amount(_text(gpu, "fb_memory_usage/total")),
        pcie_sent_bytes_per_s=amount(_text(gpu, "pci/tx_util")),
        pcie_received_bytes_per_s=amount(_text(gpu, "pci/rx_util")),
        power_mw=next((found for path in _POWER if (found := amount(_text(gpu, path))) is not None), None),
        sm_clock_mhz=amount(_text(gpu, "clocks/sm_clock")),
        throttled_by=tuple(
            reason
            for reason in THROTTLING.values()
            if any(_text(gpu, prefix + reason) == "Active" for prefix in _THROTTLES)
        ),
        processes=tuple(_process(process) for process in processes if _text(process, "pid").isdecimal()),
    )
    for instance in divisions:
        number = _text(instance, "gpu_instance_id")
        of_instance = [process for process in processes if _is_on(process, instance)]
        profile, instance_uuid = instances.get((uuid, _text(instance, "index")), ("", _text(instance, "uuid")))
        yield GpuUse(
            "nvidia-smi",
            index,
            uuid,
            name,
            bus,
            f"{profile}#{number}",
            instance_uuid,
            memory_used_bytes=amount(_text(instance, "fb_memory_usage/used")),
            memory_total_bytes=amount(_text(instance, "fb_memory_usage/total")),
            processes=tuple(_process(process) for process in of_instance if _text(process, "pid").isdecimal()),
        )


def _is_on(process: ElementTree.Element, instance: ElementTree.Element) -> bool:
    """Two MIG devices may be compute instances of one GPU instance."""
    if _text(process, "gpu_instance_id") != _text(instance, "gpu_instance_id"):
        return False
    of_process, own = _text(process, "compute_instance_id"), _text(instance, "compute_instance_id")
    return of_process == own or not of_process.isdecimal() or not own.isdecimal()


def _process(process: ElementTree.Element) -> GpuProcess:
    return GpuProcess(
        int(_text(process, "pid")[:18]), amount(_text(process, "used_memory")), _text(process, "type").startswith("M+")
    )


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
