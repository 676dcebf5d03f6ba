"""The machine's CPU: model, hyper-threading, turbo.

The first `model name` of /proc/cpuinfo (on Arm, where there is none, the implementer and part); hyper-threading is on
where two online CPUs share a core; turbo by intel_pstate's or cpufreq's switch.
Limits: where neither switch exists (most virtual machines), turbo counts as off.
Source: Linux, Documentation/admin-guide/pm/{intel_pstate,cpufreq}.rst.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cotenant.model.cpus.basic_info import CpuInfo
from cotenant.model.machine.counters import LogicalCpu


def read_cpu_model(cpus: Sequence[LogicalCpu], root: str = "/") -> CpuInfo | None:
    """The CPU; None where its model is not reported."""
    fields: dict[str, str] = {}
    for line in _text(Path(root, "proc/cpuinfo")).splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip():
            fields.setdefault(name.strip(), value.strip())
    model = fields.get("model name") or " ".join(filter(None, (fields.get("CPU implementer"), fields.get("CPU part"))))
    if not model:
        return None
    return CpuInfo(model, len({cpu.core for cpu in cpus}) < len(cpus), _turbo(Path(root, "sys/devices/system/cpu")))


def _turbo(base: Path) -> bool:
    off = _text(base / "intel_pstate/no_turbo").strip()
    return off == "0" if off else _text(base / "cpufreq/boost").strip() == "1"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
