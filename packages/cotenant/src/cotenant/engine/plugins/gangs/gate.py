"""The gate before the queue: why the members of a gang must not be scheduled yet.

Whether pods may enter the queue depends on their gang, on every gang that it names, and on a gang that it yields to.
One function over the gangs' records; the first obstacle is the reason. The counting rules are in
policy/placement/gangs/permit.py.
Limits: one reason at a time.

Source: Koordinator, pkg/scheduler/plugins/coscheduling/core (PreEnqueue).
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.plugins.gangs.members import Gang
from cotenant.policy.placement.gangs.bundles import reach
from cotenant.policy.placement.gangs.permit import GangTally, QueueGate, pre_enqueue


def why_closed(gang: Gang, gangs: Mapping[str, Gang], links: Mapping[str, tuple[str, ...]]) -> str:
    """Why its members must not enter the queue; empty if they may. `links`: the gangs that name others."""
    if gang.yields_to:
        return f"gang {gang.key} released its nodes and lets gang {gang.yields_to} go first"
    if gang.obstacle and not gang.goes_alone():
        return f"gang {gang.key}: {gang.obstacle}"
    spec = gang.spec
    if not links and spec is not None and (gang.placed or len(gang.members) >= spec.min_available):
        return ""
    tallies = []
    for key in sorted(reach(gang.key, links)) if links else (gang.key,):
        other = gangs.get(key)
        tally = other.tally() if other is not None else GangTally(key, None)
        if other is not None and other.placed and not tally.satisfied:  # any bound member opens the gate
            tally = GangTally(key, tally.spec, tally.waiting, tally.bound, tally.members, True)
        tallies.append(tally)
    answer, which = pre_enqueue(tallies)
    if which is None:
        return ""
    bound_to = "" if which.key == gang.key else f"gang {gang.key} is bound to gang {which.key}: "
    if answer is QueueGate.NOT_INITIALISED:
        other = gangs.get(which.key)
        why = "; ".join(other.problems) if other is not None else ""
        return f"{bound_to}gang {which.key} cannot be judged: {why or 'no PodGroup and no pod of it exists'}"
    least = which.spec.min_available if which.spec is not None else 0
    lacks = f"gang {which.key} has {which.members} of {least} members; waits for {least - which.members} more"
    return f"{bound_to}{lacks}{_unwalked(gang)}"


def _unwalked(gang: Gang) -> str:
    """What is said of a gang by declaration whose pods have owners in a circle, or too many."""
    workload = next((entry.seen.workload for entry in gang.members.values()), None)
    if workload is None or not workload.refused:
        return ""
    return f"; the owners of its pods are not walked further: {workload.refused}"
