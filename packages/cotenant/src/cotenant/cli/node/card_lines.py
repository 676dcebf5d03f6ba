"""The GPUs of a node for people, each in a line: use, who is on it, and what the agent holds of it."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.knob import Knob, KnobScope

_GIB = 1 << 30
_MPS = {knob.value for knob in Knob if knob.scope is KnobScope.MPS}


def card_lines(gpus: Sequence[GpuCounters], answer: JsonMapping) -> list[str]:
    """`answer`: the agent's, which knows pods' names and what is held; without one pods have their UIDs."""
    names = {entry["uid"]: entry["pod"] for entry in answer["state"]["pods"]} if answer["up"] else {}
    held = [entry for entry in answer.get("holds", ()) if entry["state"] == "held"]
    lines = [_line(gpu, names, held) for gpu in gpus]
    of_clients = [_shown(entry) for entry in held if entry["target"]["knob"] in _MPS]
    return [*lines, f"MPS clients that start now: {', '.join(of_clients)}"] if of_clients else lines


def _line(gpu: GpuCounters, names: JsonMapping, held: Sequence[JsonMapping]) -> str:
    used, total = gpu.memory_used_bytes / _GIB, gpu.memory_total_bytes / _GIB
    parts = [
        f"GPU {gpu.index} {gpu.name}: {gpu.utilisation_percent} % in use, memory {used:.1f} GiB of {total:.1f} GiB"
    ]
    if not gpu.healthy:
        parts.append(f"UNHEALTHY{f' ({gpu.fault})' if gpu.fault else ''}")
    if gpu.divided:
        parts.append("divided (MIG)")
    users = "; ".join(_user(use, names) for use in gpu.pods)
    mine = ", ".join(_shown(entry) for entry in held if entry["target"]["group"] == gpu.uuid)
    line = ", ".join(parts)
    return line + (f"; {users}" if users else "") + (f"; held: {mine}" if mine else "")


def _user(use: GpuPodUse, names: JsonMapping) -> str:
    name = names.get(use.uid, f"pod {use.uid}") if use.uid else "programs outside pods"
    return f"{name} {'–' if use.sm_percent is None else use.sm_percent} %"


def _shown(entry: JsonMapping) -> str:
    return f"{entry['target']['knob']}={entry['value']}"
