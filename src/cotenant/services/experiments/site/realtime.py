"""Real-time priority for a measuring instrument: nobody on its core delays it, and its sleeps end within a microsecond instead of fifty.

Problem: an instrument that waits in a run queue measures the queue. Choice: SCHED_FIFO at the lowest priority, and a timer slack of 1 us for where that is
refused. Limits: where the kernel rations real time by group (cgroup v1), `ExperimentCgroups.allow_realtime` must have given the group its ration before.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1000


def take() -> bool:
    """Take it for this process; whether that was allowed."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _SLACK_NS, 0, 0, 0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return False
    return True
