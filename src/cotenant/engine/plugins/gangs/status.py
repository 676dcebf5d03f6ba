"""How a gang stands, told: to its PodGroup, and to whoever asks.

Problem: a PodGroup is to be told of its gang when that is news and not at every event, and why a gang waits is spread over its record, its gate and other gangs.
Choice: both are made from the record (engine/plugins/gangs/members.py) when they are due; nothing is decided here. Limits: a PodGroup whose members were cleaned up keeps
what was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from cotenant.engine.plugins.gangs.members import Gang
from cotenant.engine.plugins.gangs.views import GangView, MemberView
from cotenant.model.cluster.observed import Phase
from cotenant.model.groups.gang import GangPhase, GangSpec, PodGroupStatus
from cotenant.policy.placement.gangs.permit import Tally
from cotenant.policy.placement.gangs.phase import Counts, phase_of
from cotenant.policy.placement.gangs.spec import differences


def news_of(gang: Gang) -> PodGroupStatus | None:
    """What its PodGroup is to be told, and has from now on; None where there is none, or nothing new."""
    if gang.spec is None or gang.group is None:
        return None
    running = sum(entry.seen.phase is Phase.RUNNING for entry in gang.members.values())
    succeeded = sum(phase is Phase.SUCCEEDED for phase in gang.ended.values())
    failed = len(gang.ended) - succeeded
    counts = Counts(len(gang.members) + len(gang.ended), len(gang.placed) + len(gang.ended), running, succeeded, failed)
    before = gang.status.phase if gang.status is not None else GangPhase.NONE
    phase = phase_of(before, gang.spec.min_available, counts)
    status = PodGroupStatus(gang.key, gang.group.uid, phase, counts.scheduled, running, succeeded, failed)
    if (phase is before and counts.members == 0) or status == gang.status:
        return None
    gang.status = status
    return status


def words_of(gang: Gang | None) -> str:
    """How the gang of a NonStrict member that found no node stands; empty for a pod that goes alone."""
    if gang is None or gang.spec is None or gang.goes_alone():
        return ""
    has = len(gang.holding) + gang.bound()
    return f"gang {gang.key}: {has} of {gang.spec.min_available} members have a node"


def view_of(
    gang: Gang, judged_with: tuple[str, ...], needs: tuple[str, ...], closed: str, lacking: Sequence[Tally]
) -> GangView:
    """Everything about it. `closed`: why its gate is; `lacking`: gangs that those who hold nodes wait for."""
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
        problems=(*gang.problems, *_said_otherwise(gang, gang.spec, judged_with)),
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
        stands_back_for=gang.stands_back_for,
    )


def _said_otherwise(gang: Gang, spec: GangSpec | None, judged_with: tuple[str, ...]) -> tuple[str, ...]:
    if spec is None:
        return ()
    by_words: dict[str, list[str]] = {}
    for entry in gang.members.values():
        words = differences(spec, entry.seen.demands.gang)
        if words:
            by_words.setdefault(words, []).append(entry.seen.pod.key)
    told = [
        f"pod {pods[0]}{f' and {len(pods) - 1} more' if len(pods) > 1 else ''}: {words}"
        for words, pods in by_words.items()
    ]
    told += [
        f"gang {other} is named, and does not name {gang.key} back: it must be satisfied first, by itself"
        for other in spec.groups
        if other != gang.key and other not in judged_with
    ]
    return tuple(told)
