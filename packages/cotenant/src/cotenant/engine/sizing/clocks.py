"""Stored times that this process's clock has not reached: they are of a leader whose clock was ahead.

Without this, a leader whose clock was a year ahead for a minute would leave histories that take in nothing, proofs that
never end and pauses of a year. A time of the future counts as now, and a pause as the longest that there is.
Limits: a clock that was behind cannot be told from time that has passed; a proof then ends with its second report.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.engine.sizing.suggesting import MAX_DOUBLINGS, PROBATION_S, QUIET_S
from cotenant.model.sizes.right_sizing import SizingStatus

SLACK_S = 60.0  # clocks of two leaders are that far apart without anything being wrong
LONGEST_QUIET_S = QUIET_S * 2**MAX_DOUBLINGS


def not_ahead(status: SizingStatus, now_s: float) -> SizingStatus:
    """The same without times that cannot be."""
    change = status.change
    if change is not None and change.since_s > now_s + SLACK_S:
        change = replace(change, since_s=now_s)
    quiet_until_s = status.quiet_until_s
    if quiet_until_s > now_s + LONGEST_QUIET_S + SLACK_S:
        quiet_until_s = now_s + LONGEST_QUIET_S
    probation_until_s = status.probation_until_s
    if probation_until_s > now_s + PROBATION_S + SLACK_S:
        probation_until_s = now_s + PROBATION_S
    same = (status.change, status.quiet_until_s, status.probation_until_s)
    if same == (change, quiet_until_s, probation_until_s):
        return status
    return replace(status, change=change, quiet_until_s=quiet_until_s, probation_until_s=probation_until_s)
