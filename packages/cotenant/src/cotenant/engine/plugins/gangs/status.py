"""The status of a gang: for its PodGroup, and for people.

A PodGroup's status should be written when it changes and not at every event, and why a gang waits is spread over its
record, its gate and other gangs. Both are made from the record (engine/plugins/gangs/members.py) when they are due;
nothing is decided here.
Limits: a Finished or Failed PodGroup whose members were deleted keeps its last counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.gang_view import GangView, MemberView
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.model.cluster.observed import PodPhase
from cotenant.model.groups.gang import K8S_GROUP, NO_NOTES, GangPhase, GangSpec, PodGroupStatus
from cotenant.policy.placement.gangs.permit import GangTally
from cotenant.policy.placement.gangs.phase import ENDED, MemberCounts, in_api_group, phase_of
from cotenant.policy.placement.gangs.spec import differences


def status_update(gang: Gang, schedulers: Collection[str]) -> PodGroupStatus | None:
    """The status to write to its PodGroup, noted as written; None without a PodGroup, or if nothing changed.

    A group of the Workload API is reported by the scheduler that places its pods, so only where one is ours.
    """
    if gang.spec is None or gang.group is None:
        return None
    if gang.group.api_group == K8S_GROUP and not any(
        entry.seen.scheduler in schedulers for entry in gang.members.values()
    ):
        return None
    running = sum(entry.seen.phase is PodPhase.RUNNING for entry in gang.members.values())
    succeeded = sum(phase is PodPhase.SUCCEEDED for phase in gang.ended.values())
    failed = len(gang.ended) - succeeded
    counts = MemberCounts(
        len(gang.members) + len(gang.ended), len(gang.placed) + len(gang.ended), running, succeeded, failed
    )
    before = gang.status.phase if gang.status is not None else GangPhase.NONE
    if counts.members == 0 and before in ENDED:
        return None
    api_group, version = gang.group.api_group, gang.group.version
    phase = phase_of(before, gang.spec.min_available, counts, api_group)
    status = in_api_group(
        PodGroupStatus(
            gang.key, gang.group.uid, phase, counts.scheduled, running, succeeded, failed, api_group, version
        )
    )
    if status == gang.status:
        return None
    gang.status = status
    return status


def progress_of(gang: Gang | None) -> str:
    """How many members have a node, for a NonStrict member that found none; empty for a pod that is placed alone."""
    if gang is None or gang.spec is None or gang.goes_alone() or gang.spec.min_available == 1:
        return ""
    has = len(gang.holding) + gang.bound()
    return f"gang {gang.key}: {has} of {gang.spec.min_available} members have a node"


def view_of(
    gang: Gang,
    judged_with: tuple[str, ...],
    needs: tuple[str, ...],
    closed: str,
    lacking: Sequence[GangTally],
    backs_off_until_s: float,
    representative: PodInfo | None,
) -> GangView:
    """Everything about it. `closed`: why its gate is closed; `lacking`: gangs that the members with nodes wait for."""
    members = [
        MemberView(entry.seen.pod.key, uid, entry.state.name.lower(), entry.node, entry.last_message)
        for uid, entry in gang.members.items()
    ]
    members += [MemberView("", uid, phase.value.lower()) for uid, phase in gang.ended.items()]
    why = closed or gang.why
    if not why and gang.holding:
        why = "; ".join(
            f"gang {tally.key} waits for {tally.lacks()} more member(s) to find a node" for tally in lacking
        )
    return GangView(
        key=gang.key,
        spec=gang.spec,
        problems=(*gang.problems, *_contradictions(gang, gang.spec, judged_with)),
        phase=gang.status.phase if gang.status is not None else GangPhase.NONE,
        members=tuple(members),
        judged_with=judged_with,
        needs=needs,
        satisfied=gang.satisfied,
        placed=gang.bound(),
        holding=len(gang.holding),
        waiting=gang.unplaced(),
        why=why if gang.unplaced() or gang.holding else "",
        holds_until_s=gang.held_since_s + gang.spec.wait_s if gang.spec is not None else inf,
        stands_back_for=gang.yields_to,
        backs_off_until_s=backs_off_until_s,
        representative=representative.seen.pod.key if representative is not None else "",
    )


def _contradictions(gang: Gang, spec: GangSpec | None, judged_with: tuple[str, ...]) -> tuple[str, ...]:
    if spec is None:
        return ()
    by_difference: dict[str, list[str]] = {}
    for entry in gang.members.values():
        difference = differences(spec, entry.seen.demands.gang)
        if difference:
            by_difference.setdefault(difference, []).append(entry.seen.pod.key)
    found = [
        f"pod {pods[0]}{f' and {len(pods) - 1} more' if len(pods) > 1 else ''}: {difference}"
        for difference, pods in by_difference.items()
    ]
    if spec.declared:  # those of a gang without a PodGroup are among its problems
        ignored = dict.fromkeys(
            name for entry in gang.members.values() for name in (entry.seen.demands.gang or NO_NOTES).wrong
        )
        found += [f"pods: {name}" for name in ignored]
    found += [
        f"gang {other} is named, and does not name {gang.key} back: it must be satisfied first, by itself"
        for other in spec.groups
        if other != gang.key and other not in judged_with
    ]
    return tuple(found)
