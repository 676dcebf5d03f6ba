"""Whether a change of a zone is kept: the canary's comparison.

A scheduler's gain must be shown for the workload at hand; under the fair class with the right weights many services are
served as well. Late dispatches decide, and burn rates of objectives where both readings have them. A change that leaves
more of either than before, beyond a margin and the zone's limit, is undone; so is one that helps neither and takes CPU
time from batch.
Limits: both readings must be of the same load; a load that rose meanwhile counts against the change.
"""

from __future__ import annotations

from cotenant.model.machine.node_decision import DecisionTerm, Reason
from cotenant.model.zones.zone_reading import ZoneReading

MARGIN = 0.2
RECLAIM_MARGIN = 0.1  # the steps of a trial take a part of what may be taken, so they bring a part of the gain
_LEAST_STALL = 0.1  # a smaller share of time in waits for memory and disk is noise


def judge_reclaim(before: ZoneReading, after: ZoneReading, margin: float = RECLAIM_MARGIN) -> tuple[bool, Reason]:
    """Whether to go on reclaiming batch's memory: only while services wait less for memory than before it. What was
    reclaimed cannot be given back, so a step that helps nobody is one too many.
    """
    was, now = before.memory_stall or 0.0, after.memory_stall or 0.0
    terms = (
        DecisionTerm("memory stall before", round(was * 1000), "1/1000"),
        DecisionTerm("memory stall after", round(now * 1000), "1/1000"),
    )
    waited = f"services waited {100 * was:.0f} % for memory before, {100 * now:.0f} % after"
    if now < was * (1 - margin):
        return True, Reason("zone-canary", f"kept: {waited}", terms)
    return False, Reason("zone-canary", f"batch gave up memory and services wait as before: {waited}", terms)


def judge(
    before: ZoneReading, after: ZoneReading, limit_per_s: float, margin: float = MARGIN, burn_limit: float = 1.0
) -> tuple[bool, Reason]:
    """Whether to keep the change that lies between the readings. Late dispatches below `limit_per_s` and burn rates
    below `burn_limit` are no reason to undo anything; nor are waits for memory and disk of a tenth of the time.
    """
    terms: tuple[DecisionTerm, ...] = (
        DecisionTerm("late before", round(before.late_per_s * 1000), "1/1000 s"),
        DecisionTerm("late after", round(after.late_per_s * 1000), "1/1000 s"),
        DecisionTerm("batch before", round(before.batch_cpus * 1000), "mCPU"),
        DecisionTerm("batch after", round(after.batch_cpus * 1000), "mCPU"),
    )
    late = f"{before.late_per_s:.2f} late dispatches a second before, {after.late_per_s:.2f} after"
    if after.late_per_s > limit_per_s and after.late_per_s > before.late_per_s * (1 + margin):
        return False, Reason("zone-canary", f"worse: {late}", terms)
    eased = False
    if before.burn is not None and after.burn is not None:
        terms = (
            *terms,
            DecisionTerm("burn before", round(before.burn * 1000), "1/1000"),
            DecisionTerm("burn after", round(after.burn * 1000), "1/1000"),
        )
        late = f"{late}; burn rate {before.burn:.2f} before, {after.burn:.2f} after"
        if after.burn > burn_limit and after.burn > before.burn * (1 + margin):
            return False, Reason("zone-canary", f"worse: {late}", terms)
        eased = after.burn < before.burn * (1 - margin)
    if before.stall is not None and after.stall is not None:
        terms = (
            *terms,
            DecisionTerm("stall before", round(before.stall * 1000), "1/1000"),
            DecisionTerm("stall after", round(after.stall * 1000), "1/1000"),
        )
        waited = (
            f"services waited {100 * before.stall:.0f} % for memory or disk before, {100 * after.stall:.0f} % after"
        )
        late = f"{late}; {waited}" if max(before.stall, after.stall) >= _LEAST_STALL else late
        if after.stall > _LEAST_STALL and after.stall > before.stall * (1 + margin):
            return False, Reason("zone-canary", f"worse: {late}", terms)
        eased = eased or (before.stall >= _LEAST_STALL and after.stall < before.stall * (1 - margin))
    helped = eased or after.late_per_s < before.late_per_s * (1 - margin)
    if not helped and after.batch_cpus < before.batch_cpus * (1 - margin):
        batch = f"batch {before.batch_cpus:.2f} CPUs before, {after.batch_cpus:.2f} after"
        return False, Reason("zone-canary", f"no better for services and worse for batch: {late}; {batch}", terms)
    return True, Reason("zone-canary", f"kept: {late}", terms)
