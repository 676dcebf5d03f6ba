"""What a node reports of its CPU: model, hyper-threading and turbo, by which CPU normalization chooses a ratio.

Koordinator's annotation on the NodeResourceTopology, as a value.
Limits: one model a node.
Source: Koordinator, apis/extension (cpu normalization).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object

CPU_BASIC_INFO = "node.koordinator.sh/cpu-basic-info"  # annotation: JSON


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """A node's CPU."""

    model: str  # as /proc/cpuinfo names it
    hyper_threading: bool = False  # switched on
    turbo: bool = False  # switched on


def read_cpu_info(text: str) -> CpuInfo:
    """From the annotation. Raises `InvalidInput`."""
    given = json_object(CPU_BASIC_INFO, text)
    model, threads, turbo = (given.get(name) for name in ("cpuModel", "hyperThreadEnabled", "turboEnabled"))
    if not isinstance(model, str) or not model:
        raise InvalidInput(f"{CPU_BASIC_INFO}.cpuModel", model, "a name")
    return CpuInfo(model, threads is True, turbo is True)


def cpu_info_text(cpu: CpuInfo) -> str:
    """The annotation's text."""
    given = {"cpuModel": cpu.model, "hyperThreadEnabled": cpu.hyper_threading, "turboEnabled": cpu.turbo}
    return json.dumps(given, separators=(",", ":"))
