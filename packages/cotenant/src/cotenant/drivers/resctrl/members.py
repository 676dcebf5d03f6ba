"""Assignment of tasks to classes of service.

Resctrl assigns single tasks; new threads of a task inherit its class, new programs of a container do not unless their
parent was moved. `assign` moves those of a group's tasks that are not assigned yet and returns how many; called every
few seconds it catches up.
Limits: between two calls a new task has the class of its parent.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.drivers.resctrl.tree import ResctrlTree
from cotenant.model.errors import Permanent
from cotenant.model.machine.knob import Vanished
from cotenant.model.whole_number import whole_number


def members(tree: ResctrlTree, group: str) -> frozenset[int]:
    """The tasks (thread ids) of a class. Raises `Vanished` where there is none."""
    return frozenset(n for line in tree.read(group, "tasks").split() if (n := whole_number(line)) is not None)


def assign(tree: ResctrlTree, group: str, tasks: Iterable[int]) -> int:
    """Move tasks into a class, one write each, as the kernel requires. Returns how many were moved; exited tasks are
    skipped.

    Raises `Vanished` where the class does not exist.
    """
    if not tree.exists(group):
        raise Vanished(f"resctrl /{group}: no such group")
    moved = 0
    for task in sorted(set(tasks) - members(tree, group)):
        try:
            tree.write(group, "tasks", f"{task}\n")
        except Vanished as error:
            if not tree.exists(group):
                raise Vanished(f"resctrl /{group}: no such group") from error
            continue
        except Permanent:
            continue  # a per-CPU kernel thread cannot be moved
        moved += 1
    return moved
