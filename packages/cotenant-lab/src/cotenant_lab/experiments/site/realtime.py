"""Real-time priority for a measuring process: no other work on its core delays it, and its sleeps end within a
microsecond instead of fifty.

An instrument that waits in a run queue measures the queue. SCHED_FIFO at the lowest priority, and a timer slack of 1 us
where that is refused.
Limits: where the kernel limits real time by group (cgroup v1), `ExperimentCgroups.allow_realtime` must have granted the
group its share before.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1000


def take() -> bool:
    """Request it for this process. Returns whether it was granted."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _SLACK_NS, 0, 0, 0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    return True
