"""Running a command in a group of a zone.

To try how a program fares in a zone it must run in one of the zone's groups, and a wrong group must not run it
elsewhere. This process writes itself into the group in every tree that has it, then runs the command as its child;
nothing runs where a write fails. The command has the user's own privileges: no privileged process acts for it.
Limits: a cgroup v2 group with groups below it that have controllers takes no processes (EBUSY), nor does a cgroup v1
cpuset without CPUs: what it may use is its owner's to say, so that is an error and nothing is written.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cotenant.drivers.cgroup.layout import detect
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.services.zones.state_file import read_state


def execute_in(folder: Path, zone: str, group: str, command: Sequence[str], *, captured: bool) -> JsonObject:
    """Run it and wait: `zone`, `group`, `exit`, and with `captured` also `stdout` and `stderr`. Raises
    `InvalidInput` or `Permanent` where it was not run.
    """
    if not command:
        raise InvalidInput("command", "", "a command after --, as in cotenant zone exec shop -- nproc")
    state = read_state(folder, zone)
    if not state["running"]:
        raise InvalidInput("zone", zone, "a zone that runs", f"it is {state['state']}")
    chosen = group_for(state, group.strip("/"))
    trees = {tree.path for tree in detect().by_controller.values() if (Path(tree.path) / chosen).is_dir()}
    join(chosen, [Path(tree) for tree in trees])
    try:
        done = subprocess.run(
            list(command), capture_output=captured, check=False, text=captured, errors="replace" if captured else None
        )
    except OSError as error:
        raise InvalidInput("command", command[0], "a program that can be run", error.strerror or str(error)) from error
    status = done.returncode if done.returncode >= 0 else 128 - done.returncode
    found: JsonObject = {"zone": zone, "group": chosen, "exit": status}
    return {**found, "stdout": done.stdout, "stderr": done.stderr} if captured else found


def group_for(state: JsonObject, wanted: str) -> str:
    """The group to run in: the wanted one, at or below a group of the zone, or the zone's only one. Raises
    `InvalidInput`.
    """
    groups = list(state["rows"])
    if not wanted:
        if len(groups) != 1:
            raise InvalidInput("--group", "none", f"one of {', '.join(groups) or 'no groups: no pod is selected now'}")
        return str(groups[0])
    KnobTarget(wanted, Knob.CPU_WEIGHT)  # refuses ".." and empty parts
    if not any(wanted == group or wanted.startswith(f"{group}/") for group in groups):
        raise InvalidInput("--group", wanted, f"a group at or below one of {', '.join(groups)}")
    return wanted


def join(group: str, trees: Sequence[Path]) -> None:
    """Make this process one of the group's, in each of these trees. Raises `Permanent`."""
    if not trees:
        raise Permanent(f"group {group} does not exist")
    for tree in trees:
        try:
            (tree / group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            why = _without_cpus(tree, group) or f"{tree / group}/cgroup.procs: {error.strerror}"
            raise Permanent(why) from error


def _without_cpus(tree: Path, group: str) -> str:
    """Why a cgroup v1 cpuset takes no process, where that is because it was made without CPUs or memory nodes; the
    kernel says only that no space is left.
    """
    for name in ("cpuset.cpus", "cpuset.mems"):
        try:
            if (tree / group / name).read_text().strip():
                continue
            above = (tree / group).parent / name
            has = above.read_text().strip()
        except OSError:
            continue  # no cpuset
        of_above = (
            f"those of the group above are {has}" if has else f"first those of the groups above: {above} is empty too"
        )
        return (
            f"{tree / group / name} is empty, so no process may enter the group: write into it what it may use "
            f"({of_above})"
        )
    return ""
