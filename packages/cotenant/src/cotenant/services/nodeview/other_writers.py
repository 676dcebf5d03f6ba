"""Other processes of this host that write knobs: Koordinator's koordlet, further keepers, agents that are their own
keeper.

Two writers of one knob undo each other, and neither knows the other. Command lines in /proc, in the form that the
programs are started with.
Limits: a container sees its own processes only, unless it shares the host's; there the cluster's pods say whether
koordlet runs (`doctor.py`). A keeper started without `--cgroup-root` counts as one of the usual place. An account
without rights, as the chart's agents have, cannot look into another container: what cannot be read is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.kubelet.roots import KubeletGroups, roots_here, writable_below
from cotenant.engine.node.doctor.found import OtherWriter
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import CotenantError
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.agent_settings.node_roots import with_roots_here

_MAX_BYTES = 1 << 16
_USUAL_ROOT, _USUAL_SOCKET = "/sys/fs/cgroup", "/run/cotenant/keeper.sock"
KOORDLET = "koordlet"


def other_writers(config: AgentConfig, *, single: bool, proc: Path = Path("/proc")) -> tuple[OtherWriter, ...]:
    """Those found; the keeper that this configuration uses is none, nor is this process."""
    found = []
    for pid, command in _commands(proc):
        if os.path.basename(command[0]) == KOORDLET:
            found.append(OtherWriter(KOORDLET, f"process {pid}"))
        elif (arguments := _of_cotenant(command, "keeper")) is not None:
            is_ours = not single and _value(arguments, "--socket", _USUAL_SOCKET) == str(config.keeper)
            if is_ours or "--dry-run" in arguments:
                continue
            is_same = _is_same(proc / str(pid), _value(arguments, "--cgroup-root", _USUAL_ROOT), config)
            roots = _roots(arguments, config)
            if roots and is_same is not False:
                found.append(OtherWriter("another keeper", f"process {pid}", roots, is_certain=bool(is_same)))
        elif (arguments := _of_cotenant(command, "agent")) is not None and "--single" in arguments:
            groups = _writable(proc / str(pid), arguments, config)
            if groups != ():
                is_certain = groups is not None
                found.append(OtherWriter("another agent", f"process {pid}", groups or (), is_certain=is_certain))
    return tuple(found)


def _commands(proc: Path) -> Iterator[tuple[int, list[str]]]:
    for entry in sorted(proc.iterdir(), key=lambda path: path.name.zfill(10)):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            with (entry / "cmdline").open("rb") as file:
                words = file.read(_MAX_BYTES).decode("utf-8", "replace").rstrip("\0").split("\0")
        except OSError:  # gone meanwhile, or not ours to see
            continue
        if words[0]:
            yield int(entry.name), words


def _of_cotenant(command: Sequence[str], which: str) -> list[str] | None:
    """The arguments of this command of ours, by its script or by `python -m`; None for any other program."""
    is_python = os.path.basename(command[0]).startswith("python")
    for at, word in enumerate(command[: 4 if is_python else 1]):
        if os.path.basename(word) == "cotenant" and list(command[at + 1 : at + 2]) == [which]:
            return list(command[at + 2 :])
    return None


def _roots(arguments: Sequence[str], config: AgentConfig) -> tuple[str, ...]:
    """The roots of a keeper; its kubelet's are those of this node."""
    named = [root.strip("/") for root in _values(arguments, "--root")]
    groups = _value(arguments, "--kubelet-groups", "")
    if groups in set(KubeletGroups):
        named += writable_below(roots_here(detect(str(config.cgroup_root))), KubeletGroups(groups))
    return tuple(named)


def _writable(process: Path, arguments: Sequence[str], config: AgentConfig) -> tuple[str, ...] | None:
    """The groups that another agent writes; () where it writes none of ours, None where this account cannot know."""
    if "--once" in arguments or _value(arguments, "--mode", AgentMode.ACT) != AgentMode.ACT:
        return ()
    path = _value(arguments, "--config", "")
    inside = Path(f"{process}/root{path}")  # as a container sees it
    try:
        theirs = with_roots_here(read_config(inside if inside.is_file() else Path(path)))
    except PermissionError:
        return None
    except CotenantError:
        return ()
    mode = _value(arguments, "--mode", theirs.mode.value)
    is_same = _is_same(process, str(theirs.cgroup_root), config)
    return theirs.writable if mode == AgentMode.ACT and is_same else ()


def _is_same(process: Path, root: str, config: AgentConfig) -> bool | None:
    """Whether the process's path leads to our tree, which in a container has another name; None where this account may
    not look.
    """
    try:
        return os.path.samefile(f"{process}/root{root}", config.cgroup_root)
    except PermissionError:
        return True if os.path.realpath(root) == os.path.realpath(config.cgroup_root) else None
    except OSError:
        return os.path.realpath(root) == os.path.realpath(config.cgroup_root)


def _value(arguments: Sequence[str], name: str, default: str) -> str:
    return next(_values(arguments, name), default)


def _values(arguments: Sequence[str], name: str) -> Iterator[str]:
    for at, word in enumerate(arguments):
        if word.startswith(f"{name}="):
            yield word.partition("=")[2]
        elif word == name and at + 1 < len(arguments):
            yield arguments[at + 1]
