"""Work that the kernel's own threads must not delay: a switch of schedulers.

Detaching a scheduler waits for RCU grace periods, and RCU's threads queue behind busy tasks while the kernel replaces
the scheduler: 16 of the 23 ms of a switch beside two tasks that never sleep. For the few milliseconds of a switch this
thread and RCU's threads are real-time threads of the lowest priority; 7 ms are left.
Limits: needs CAP_SYS_NICE and /proc of the host's PID namespace, without which a switch is as long as before; a process
that is killed meanwhile leaves RCU's threads real-time, which is also what the kernel's parameter rcutree.kthread_prio
does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_KTHREADD = "2"


def rcu_threads(proc: Path = Path("/proc")) -> tuple[int, ...]:
    """The kernel's threads that end grace periods and run their callbacks."""
    found = []
    for path in proc.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            name, _, rest = path.read_text(errors="replace").partition("(")[2].rpartition(")")
            if name.startswith("rcu") and rest.split()[1] == _KTHREADD:
                found.append(int(path.parent.name))
    return tuple(sorted(found))


@contextmanager
def urgent(threads: Sequence[int]) -> Iterator[None]:
    """This thread, and these threads, before all others, where that is allowed; as they were afterwards."""
    before = []
    try:
        for thread in (0, *threads):
            with contextlib.suppress(OSError):
                policy, parameters = os.sched_getscheduler(thread), os.sched_getparam(thread)
                if policy == os.SCHED_OTHER:
                    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
                    before.append((thread, policy, parameters))
        yield
    finally:
        for thread, policy, parameters in reversed(before):
            with contextlib.suppress(OSError):
                os.sched_setscheduler(thread, policy, parameters)
