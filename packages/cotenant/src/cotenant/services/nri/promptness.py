"""Runs the calling thread before ordinary work, so that a creation does not wait for this process to be scheduled.

A call needs a tenth of a millisecond of CPU, and on a busy node an ordinary process waits some ten milliseconds for it
(`bench/nri.py`). The least real-time priority for the one thread that answers, not for those that it starts; where the
process may not (no CAP_SYS_NICE), it stays ordinary. A defect that spins would hold a CPU, so the kernel ends a process
that computes for a second without waiting (RLIMIT_RTTIME).
Limits: kernels with CONFIG_RT_GROUP_SCHED and cgroup v1 give groups no real-time share unless told.

Source: sched(7), getrlimit(2).
"""

from __future__ import annotations

import os
import resource

LONGEST_RUN_US = 1_000_000


def run_promptly() -> bool:
    """Give the calling thread the least real-time priority; whether that was allowed."""
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (LONGEST_RUN_US, LONGEST_RUN_US))
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (OSError, ValueError):
        return False
    return True
