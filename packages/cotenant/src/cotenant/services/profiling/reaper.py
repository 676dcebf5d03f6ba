"""Removes the group and the folder of a run when the process that made them is gone, however it ended.

    python -m cotenant.services.profiling.reaper GROUP FOLDER        standard input: a pipe that the run holds open

A run that is killed with SIGKILL can remove nothing itself, and a load that stays is a service's trouble for days. A
process in a session of its own waits for the end of a pipe, which the kernel closes with the run; then it kills what is
in the group, removes the group from every tree, and the scratch folder.
Limits: a reaper that is killed too leaves the group to the next run, which removes leftovers first; the loads end by
themselves at their time in any case.
"""

from __future__ import annotations

import shutil
import signal
import sys

from cotenant.drivers.cgroup.experiments import remove
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.cgroup.tree import Groups


def main() -> None:
    """The process's entry point."""
    group, folder = sys.argv[1:3]
    for signals in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signals, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with Groups(detect()) as groups:
        remove(groups, group)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
