"""The GPUs of a node for people, each in a line: use, who is on it, and what the agent holds of it."""

from __future__ import annotations

from collections.abc import Sequence

from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.knob import Knob, KnobScope

_GIB = 1 << 30
_UNDONE = ("refused", "returning")
_MPS = {knob.value for knob in Knob if knob.scope is KnobScope.MPS}


def card_lines(gpus: Sequence[GpuCounters], answer: JsonMapping) -> list[str]:
    """`answer`: the agent's, which knows pods' names and what is held; without one pods have their UIDs."""
    names = {entry["uid"]: entry["pod"] for entry in answer["state"]["pods"]} if answer["up"] else {}
    holds = answer.get("holds", ())
    held = [entry for entry in holds if entry["state"] == "held"]
    lines = [_line(gpu, names, held) + _not_held(gpu, holds) for gpu in gpus]
    if answer["up"]:
        lines += _idle(answer["state"].get("idle_gpus") or {})
    of_clients = [_shown(entry) for entry in held if entry["target"]["knob"] in _MPS]
    return [*lines, f"MPS clients that start now: {', '.join(of_clients)}"] if of_clients else lines


def _idle(found: JsonMapping) -> list[str]:
    """Of the GPUs that somebody holds those that nobody uses, as the agent has it."""
    if not found.get("allocated"):
        return []
    line = f"{found['idle']} of {found['allocated']} held GPUs are idle"
    if found["idle"]:
        holders = ", ".join(found["idle_holders"])
        line += f", with {found['idle_memory_bytes'] / _GIB:.1f} GiB of memory in use: {holders}"
    return [line + (f"; of {found['unknown']} the driver does not say" if found["unknown"] else "")]


def _line(gpu: GpuCounters, names: JsonMapping, held: Sequence[JsonMapping]) -> str:
    used, total = gpu.memory_used_bytes / _GIB, gpu.memory_total_bytes / _GIB
    busy = "use not known" if gpu.utilisation_percent is None else f"{gpu.utilisation_percent} % in use"
    parts = [f"GPU {gpu.index} {gpu.name}: {busy}, memory {used:.1f} GiB of {total:.1f} GiB"]
    if not gpu.healthy:
        parts.append(f"UNHEALTHY{f' ({gpu.fault})' if gpu.fault else ''}")
    if gpu.divided:
        instances = [
            f"#{one.number} {one.memory_used_bytes / _GIB:.1f} of {one.memory_total_bytes / _GIB:.1f} GiB"
            for one in gpu.instances
        ]
        parts.append(f"divided (MIG{': ' if instances else ''}{', '.join(instances)})")
    if gpu.throttled_by:
        parts.append(f"slowed by {' and '.join(gpu.throttled_by)}")
    parts += [f"Xid {xid} {times} x" for xid, times in gpu.xids]
    users = "; ".join(_user(use, names) for use in gpu.pods)
    mine = ", ".join(_shown(entry) for entry in held if entry["target"]["group"] == gpu.uuid)
    line = ", ".join(parts)
    return line + (f"; {users}" if users else "") + (f"; held: {mine}" if mine else "")


def _not_held(gpu: GpuCounters, holds: Sequence[JsonMapping]) -> str:
    """What the agent asked for and this card did not do, or has not given back yet."""
    found = [
        f"{entry['target']['knob']} ({entry['detail']})"
        for entry in holds
        if entry["target"]["group"] == gpu.uuid and entry["state"] in _UNDONE and entry.get("detail")
    ]
    return f"; not done: {', '.join(found)}" if found else ""


def _user(use: GpuPodUse, names: JsonMapping) -> str:
    name = names.get(use.uid, f"pod {use.uid}") if use.uid else "programs outside pods"
    return f"{name} {'–' if use.sm_percent is None else use.sm_percent} %"


def _shown(entry: JsonMapping) -> str:
    return f"{entry['target']['knob']}={entry['value']}"
