"""What `rocm-smi -a --json` printed, or with fewer of its options: AMD's tool before amd-smi.

An object of cards, each an object of texts by a heading for people, some of which changed between releases; what is
not a number, such as N/A, is not said. Memory's read and write activity is its bandwidth's.
Limits: processes are listed for the machine and not by card, so they are a card's only where there is one; PCIe bytes
come as one sum of both directions, which is left out; there is no activity of the compute units.

Source: ROCm/rocm_smi_lib, python_smi_tools/rocm_smi.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from cotenant.drivers.gpu.places import short_address
from cotenant.drivers.gpu.recorded_values import MAX_BYTES, MAX_PROCESSES, amount
from cotenant.model.devices.gpu_use import GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

_MAX_GPUS = 64
_CARD = re.compile(r"card([0-9]{1,4})")
_PID = re.compile(r"PID([0-9]{1,10})")
_CLOCK = re.compile(r"\(([0-9.]+)Mhz\)", re.IGNORECASE)
_NAMES = ("Card Series", "Card series", "Device Name")
_POWER = ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)")


def read_rocm_smi(text: str) -> tuple[GpuUse, ...]:
    """All cards. Raises `InvalidInput`."""
    expected = "the JSON of rocm-smi --json"
    if len(text) > MAX_BYTES:
        raise InvalidInput("rocm-smi", f"{len(text)} characters", f"at most {MAX_BYTES}")
    try:
        document: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("rocm-smi", str(error)[:80], expected) from None
    entries = document if isinstance(document, dict) else {}
    cards = {
        int(found[1]): entry
        for name, entry in entries.items()
        if (found := _CARD.fullmatch(name)) and isinstance(entry, dict)
    }
    if not 1 <= len(cards) <= _MAX_GPUS:
        raise InvalidInput("rocm-smi", f"{len(cards)} cards", f"{expected}: 1 to {_MAX_GPUS} cards")
    processes = _processes(entries.get("system")) if len(cards) == 1 else ()
    return tuple(_use(index, card, processes) for index, card in sorted(cards.items()))


def _use(index: int, card: Mapping[str, object], processes: tuple[GpuProcess, ...]) -> GpuUse:
    clock = _CLOCK.search(_text(card, "sclk clock speed:"))
    bus, uuid = _text(card, "PCI Bus"), _text(card, "Unique ID")
    return GpuUse(
        "rocm-smi",
        index,
        "" if uuid == "N/A" else uuid,
        next((text for name in _NAMES if (text := _text(card, name))), ""),
        short_address(bus) if ":" in bus else "",
        busy_permille=amount(_text(card, "GPU use (%)"), "%"),
        memory_active_permille=amount(_text(card, "GPU Memory Read/Write Activity (%)"), "%"),
        memory_used_bytes=amount(_text(card, "VRAM Total Used Memory (B)"), "B"),
        memory_total_bytes=amount(_text(card, "VRAM Total Memory (B)"), "B"),
        power_mw=next((found for name in _POWER if (found := amount(_text(card, name), "W")) is not None), None),
        sm_clock_mhz=amount(clock[1], "MHz") if clock else None,
        processes=processes,
    )


def _processes(system: object) -> tuple[GpuProcess, ...]:
    """Of lines such as `python, 1, 1073741824, 0, 12`: name, number of cards, memory and more."""
    lines = system if isinstance(system, dict) else {}
    listed = [(found[1], line) for name, line in lines.items() if (found := _PID.fullmatch(str(name)))]
    if len(listed) > MAX_PROCESSES:
        raise InvalidInput("rocm-smi", f"{len(listed)} processes", f"at most {MAX_PROCESSES}")
    return tuple(GpuProcess(int(pid), _memory(line)) for pid, line in listed)


def _memory(line: object) -> int | None:
    """The third from the end but one: a name may have commas."""
    parts = str(line).split(",")
    return amount(parts[-3], "B") if len(parts) >= 5 else None


def _text(card: Mapping[str, object], name: str) -> str:
    value = card.get(name)
    return "" if value is None or isinstance(value, dict | list | bool) else str(value).strip()
