"""Figures of one command as lines, or as one JSON object."""

from __future__ import annotations

import sys

import msgspec

from cotenant.model.machine.command_figures import CommandFigures
from cotenant.model.printable import printable

_MIB = 1 << 20
_WIDTH = 100


def show_command(found: CommandFigures, as_json: bool) -> None:
    """JSON goes to standard output, lines to standard error, since the command's own output is on the first."""
    if as_json:
        print(msgspec.json.encode(found).decode())
        return
    sys.stdout.flush()
    for name, value in _lines(found):
        shown = printable(f"{name:<26}{value}")
        print(shown if len(shown) <= _WIDTH else shown[: _WIDTH - 3] + "...", file=sys.stderr)


def _lines(found: CommandFigures) -> list[tuple[str, str]]:
    who = "" if found.rank is None else f"rank {found.rank}, "
    cores = (found.user_us + found.system_us) / max(1, found.wall_us)
    lines = [
        ("command", " ".join(found.command)),
        ("", f"{who}status {found.status}" + "".join(f", {name}={value}" for name, value in found.labels.items())),
        ("time", f"{found.wall_us / 1e6:.3f} s"),
        ("CPU", f"{found.user_us / 1e6:.3f} s user, {found.system_us / 1e6:.3f} s system: {cores:.2f} CPUs"),
        ("context switches", f"{found.voluntary_switches} voluntary, {found.involuntary_switches} involuntary"),
        ("page faults", f"{found.minor_faults} minor, {found.major_faults} major"),
    ]
    if found.max_resident_bytes is not None:
        lines.append(("memory at most", f"{found.max_resident_bytes / _MIB:.1f} MiB"))
    if found.read_bytes is not None and found.written_bytes is not None:
        lines.append(
            ("storage", f"{found.read_bytes / _MIB:.1f} MiB read, {found.written_bytes / _MIB:.1f} MiB written")
        )
    if found.read_calls_bytes is not None and found.written_calls_bytes is not None:
        calls = found.read_calls_bytes / _MIB, found.written_calls_bytes / _MIB
        lines.append(("by calls", f"{calls[0]:.1f} MiB read, {calls[1]:.1f} MiB written"))
    for name, stalled_us in sorted(found.stalled_us.items()):
        lines.append((f"stalled for {name}", f"{stalled_us / 1e6:.3f} s of {found.pressure_of}"))
    lines += [
        (f"counted {name.replace('_', ' ')}", f"{value}{' ns' * (name == 'task_clock')}")
        for name, value in found.counters.items()
    ]
    cycles, instructions = found.counters.get("cycles"), found.counters.get("instructions")
    if cycles and instructions:
        lines.append(("cycles an instruction", f"{cycles / instructions:.2f}"))
    return lines + [("missing", f"{gap.what.replace('_', ' ')}: needs {gap.needs}") for gap in found.gaps]
