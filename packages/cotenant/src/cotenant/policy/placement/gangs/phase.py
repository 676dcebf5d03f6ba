"""The phase of a PodGroup, from its previous phase and the counts of its members.

Users and controllers read the phase, and it must not go back because finished pods were deleted. Upstream's order of
phases; Finished and Failed stay once the members are gone.
Limits: OccupiedBy and scheduleStartTime are not maintained.

Source: PodGroup controller of sigs.k8s.io/scheduler-plugins, scheduling.sigs.k8s.io/v1alpha1 and
scheduling.x-k8s.io/v1alpha1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.model.groups.gang import K8S_GROUP, SIGS_GROUP, X_GROUP, GangPhase, PodGroupStatus

ENDED = frozenset({GangPhase.FINISHED, GangPhase.FAILED})  # these outlast the members


@dataclass(frozen=True, slots=True)
class MemberCounts:
    """Counts of a gang's members."""

    members: int  # existing, ended ones included
    scheduled: int  # of them: on a node, or ended
    running: int
    succeeded: int
    failed: int


def phase_of(before: GangPhase, minimum: int, counts: MemberCounts, api_group: str = SIGS_GROUP) -> GangPhase:
    """The next phase of a PodGroup."""
    if counts.members == 0 and before in ENDED:
        return before
    if api_group == K8S_GROUP and before is GangPhase.SCHEDULED:  # it says that the minimum had nodes once
        return before
    if counts.succeeded >= minimum:
        return GangPhase.FINISHED
    if counts.failed and counts.failed + counts.running + counts.succeeded >= minimum:
        return GangPhase.FAILED
    if counts.running + counts.succeeded >= minimum:
        return GangPhase.RUNNING
    if counts.scheduled >= minimum:
        return GangPhase.SCHEDULED
    if counts.members < minimum:
        return GangPhase.PENDING
    return GangPhase.SCHEDULING if counts.scheduled else GangPhase.PRE_SCHEDULING


def in_api_group(status: PodGroupStatus) -> PodGroupStatus:
    """The status with the fields and phases of its API group.

    scheduling.x-k8s.io has no `scheduled`, and Scheduling for all between Pending and Running; scheduling.k8s.io has
    Scheduled or not.
    """
    if status.api_group == K8S_GROUP:
        waits = status.phase in (GangPhase.NONE, GangPhase.PENDING, GangPhase.PRE_SCHEDULING, GangPhase.SCHEDULING)
        phase = GangPhase.PENDING if waits else GangPhase.SCHEDULED
        return PodGroupStatus(status.key, status.uid, phase, api_group=K8S_GROUP, version=status.version)
    if status.api_group != X_GROUP:
        return status
    between = status.phase in (GangPhase.PRE_SCHEDULING, GangPhase.SCHEDULED)
    return replace(status, phase=GangPhase.SCHEDULING if between else status.phase, scheduled=0)
