"""What /sys/kernel/sched_ext reports: which kernel scheduler runs, read back after every attach.

Attaching can succeed although the scheduler did not start, and a scheduler that the kernel ejected leaves its link in
place. The kernel's own files decide.
Limits: `root/ops` may vanish between two reads; that is reported as no scheduler.
"""

from __future__ import annotations

import os
from pathlib import Path

from cotenant.model.errors import Unsupported
from cotenant.model.zones.table import SchedulerState

FOLDER = Path("/sys/kernel/sched_ext")


def supported(folder: Path = FOLDER) -> bool:
    """Whether this kernel has scheduler classes written in BPF."""
    return (folder / "state").exists()


def read_state(folder: Path = FOLDER) -> SchedulerState:
    """The state now. Raises `Unsupported` where the kernel has no sched_ext."""
    try:
        state = (folder / "state").read_text().strip()
        sequence = int((folder / "enable_seq").read_text())
    except FileNotFoundError as error:
        raise Unsupported(
            "a kernel scheduler of its own",
            f"Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT (this is {os.uname().release})",
        ) from error
    name: str | None
    try:
        name = (folder / "root" / "ops").read_text().strip() or None
    except OSError:
        name = None
    return SchedulerState(state, name, sequence)


def sub_schedulers(folder: Path = FOLDER) -> dict[int, str]:
    """The enabled sub-schedulers at any depth: id of the cgroup to the scheduler's name. Empty where there is none,
    or the kernel is older than 7.3.
    """
    found = {}
    for path in folder.glob("root/**/sub-*/ops"):
        try:
            number, name = int(path.parent.name.removeprefix("sub-")), path.read_text().strip()
        except (OSError, ValueError):
            continue
        found[number] = name
    return found


def has_sub_schedulers(release: str = os.uname().release) -> bool:
    """Whether this kernel is 7.3 or later: before, the operations of sub-schedulers are not whole."""
    numbers = release.split("-")[0].split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= (7, 3)
