"""The table of `nvidia-smi pmon -c 1`: how much of each GPU every process used over the last sampling period.

It is the one common source that parts a shared card by process. Columns differ by driver, so they are found by the
heading; a dash is a figure that the driver does not have.
Limits: whole percents; of clients of MPS some drivers show the server alone, and of MIG nothing.

Source: nvidia-smi(1), "pmon".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cotenant.drivers.gpu.recorded_values import MAX_PROCESSES, amount
from cotenant.model.devices.gpu_use import GpuProcess, GpuUse
from cotenant.model.errors import InvalidInput

_MOST_LINES = 8 * MAX_PROCESSES


def read_pmon(text: str) -> dict[int, tuple[GpuProcess, ...]]:
    """Processes with their use, by the GPU's index. Raises `InvalidInput`."""
    lines = text.splitlines()
    heading = next((line.lstrip("# ").split() for line in lines if line.startswith("#")), [])
    if len(lines) > _MOST_LINES:
        raise InvalidInput("pmon", f"{len(lines)} lines", f"at most {_MOST_LINES}")
    if not {"gpu", "pid", "sm", "mem"} <= set(heading):
        raise InvalidInput(
            "pmon", "\n".join(lines[:1])[:80], "a heading with gpu, pid, sm and mem, as pmon -s u has it"
        )
    found: dict[int, list[GpuProcess]] = {}
    for line in lines:
        fields = dict(zip(heading, line.split(), strict=False))
        gpu, pid = fields.get("gpu", ""), fields.get("pid", "")
        if line.startswith("#") or not gpu.isdecimal():
            continue
        processes = found.setdefault(int(gpu), [])
        if pid.isdecimal():
            sm, memory = (amount(fields.get(name), "%") for name in ("sm", "mem"))
            is_client = fields.get("type", "").startswith("M+")  # of the Multi-Process Service
            processes.append(GpuProcess(int(pid), mps=is_client, sm_permille=sm, memory_permille=memory))
    return {gpu: tuple(processes) for gpu, processes in found.items()}


def with_processes(uses: Sequence[GpuUse], found: Mapping[int, Sequence[GpuProcess]]) -> list[GpuUse]:
    """The GPUs with each process's use; what another source knows of a process stays."""
    made = []
    for use in uses:
        known = {process.pid: process for process in use.processes}
        for process in () if use.instance else found.get(use.index, ()):
            earlier = known.get(process.pid, process)
            known[process.pid] = replace(
                earlier,
                mps=earlier.mps or process.mps,
                sm_permille=process.sm_permille,
                memory_permille=process.memory_permille,
            )
        made.append(replace(use, processes=tuple(known.values())))
    return made
