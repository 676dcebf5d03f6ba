"""What `nvidia-smi -q -x` printed: XML that grew over the years.

Drivers before 545 write clocks_throttle_reasons for clocks_event_reasons, and power_readings for gpu_power_readings;
both are read. It knows whether any kernel ran and which processes there are, not how active the multiprocessors were.
Limits: NVLink bytes are not in it; Xid errors are not in it.

Source: nvidia-smi(1); the DTD that it names.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from cotenant.drivers.gpu.places import short_address
from cotenant.drivers.gpu.recorded_values import MAX_BYTES, THROTTLING, amount
from cotenant.model.devices.gpu_use import GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

_MAX_GPUS, _MAX_PROCESSES = 64, 4096
_THROTTLES = ("clocks_event_reasons/clocks_event_reason_", "clocks_throttle_reasons/clocks_throttle_reason_")
_POWER = (
    "gpu_power_readings/instant_power_draw",
    "gpu_power_readings/power_draw",
    "power_readings/power_draw",
)


def read_nvidia_smi(text: str) -> tuple[GpuUse, ...]:
    """All GPUs, each followed by its MIG instances. Raises `InvalidInput`."""
    if len(text) > MAX_BYTES or "<!ENTITY" in text:
        raise InvalidInput("nvidia-smi", f"{len(text)} characters", f"at most {MAX_BYTES}, and no entities")
    try:
        top = ElementTree.fromstring(text)  # without entities there is nothing to expand
    except ElementTree.ParseError as error:
        raise InvalidInput("nvidia-smi", str(error), "the XML of nvidia-smi -q -x") from None
    gpus = top.findall("gpu")
    if top.tag != "nvidia_smi_log" or len(gpus) > _MAX_GPUS:
        raise InvalidInput("nvidia-smi", f"{top.tag} with {len(gpus)} GPUs", "the XML of nvidia-smi -q -x")
    return tuple(use for place, gpu in enumerate(gpus) for use in _uses(place, gpu))


def _uses(place: int, gpu: ElementTree.Element) -> Iterator[GpuUse]:
    minor, uuid, name = _text(gpu, "minor_number"), _text(gpu, "uuid"), _text(gpu, "product_name")
    index = int(minor) if minor.isdecimal() and len(minor) < 6 else place
    bus = short_address(gpu.get("id", ""))
    processes = gpu.findall("processes/process_info")[:_MAX_PROCESSES]
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
    for instance in gpu.findall("mig_devices/mig_device"):
        number = _text(instance, "gpu_instance_id")
        of_instance = [process for process in processes if _text(process, "gpu_instance_id") == number]
        yield GpuUse(
            "nvidia-smi",
            index,
            uuid,
            name,
            bus,
            f"#{number}",
            memory_used_bytes=amount(_text(instance, "fb_memory_usage/used")),
            memory_total_bytes=amount(_text(instance, "fb_memory_usage/total")),
            processes=tuple(_process(process) for process in of_instance if _text(process, "pid").isdecimal()),
        )


def _process(process: ElementTree.Element) -> GpuProcess:
    return GpuProcess(
        int(_text(process, "pid")[:18]), amount(_text(process, "used_memory")), _text(process, "type").startswith("M+")
    )


def _text(element: ElementTree.Element, path: str) -> str:
    return (element.findtext(path) or "").strip()
