"""Clock skew between hosts, estimated from spans whose parents ran on another host.

The clocks of two hosts differ by more than a call takes, so a callee seems to start before its caller. For one call,
Jaeger's rule gives the shift that puts the child inside its parent with equal network time both ways; for a pair of
hosts, the median of the last shifts is applied to all their calls, so one odd call does not move a trace.
Limits: a skew that changes within a few calls is followed late; shifts above the bound are ignored.

Source: jaegertracing/jaeger, clock skew adjuster.
"""

from __future__ import annotations

from cotenant.model.compiled import njit


@njit
def shift_ns(parent_start_ns: int, parent_end_ns: int, start_ns: int, end_ns: int) -> int:
    """What to add to a child's times so that it lies inside its parent; 0 where it does, or where it is longer and
    does not start too early.
    """
    if end_ns - start_ns > parent_end_ns - parent_start_ns:
        return max(0, parent_start_ns - start_ns)
    if start_ns >= parent_start_ns and end_ns <= parent_end_ns:
        return 0
    network_ns = (parent_end_ns - parent_start_ns) - (end_ns - start_ns)
    return parent_start_ns + network_ns // 2 - start_ns
