"""When a gang has enough members, by each match policy."""

from __future__ import annotations

import pytest

from cotenant.model.groups.gang import GangSpec, MatchPolicy
from cotenant.policy.placement.gangs.permit import GangTally, QueueGate, pre_enqueue

ONLY, BOTH, ONCE = MatchPolicy.ONLY_WAITING, MatchPolicy.WAITING_AND_RUNNING, MatchPolicy.ONCE_SATISFIED


def tally(policy: MatchPolicy = BOTH, least: int = 3, **counts: int | bool) -> GangTally:
    return GangTally("ns/g", GangSpec("ns/g", least, 5, match_policy=policy), **counts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "waiting", "bound", "satisfied", "lacks"),
    [
        (ONLY, 2, 9, True, 1),
        (ONLY, 3, 0, False, 0),
        (ONLY, 0, 3, False, 3),
        (BOTH, 1, 1, True, 1),
        (BOTH, 1, 2, False, 0),
        (BOTH, 9, 0, False, 0),
        (ONCE, 0, 0, True, 0),
        (ONCE, 1, 1, False, 1),
        (ONCE, 2, 1, False, 0),
    ],
)
def test_who_counts(policy: MatchPolicy, waiting: int, bound: int, satisfied: bool, lacks: int) -> None:
    one = tally(policy, waiting=waiting, bound=bound, satisfied=satisfied)
    assert (one.lacks(), one.is_met()) == (lacks, lacks == 0)


def test_a_gang_without_a_specification_is_never_met_and_lacks_nobody() -> None:
    unknown = GangTally("ns/g", None, waiting=9, bound=9, members=9, satisfied=True)
    assert (unknown.is_met(), unknown.lacks()) == (False, 0)


def test_all_gangs_of_a_bundle_must_have_their_members() -> None:
    enough, few, unknown = tally(members=3), tally(members=2), GangTally("ns/u", None)
    assert pre_enqueue([enough, tally(members=2, satisfied=True)]) == (QueueGate.OK, None)
    assert pre_enqueue([enough, few]) == (QueueGate.NOT_ENOUGH, few)
    assert pre_enqueue([few, enough, unknown]) == (QueueGate.NOT_INITIALISED, unknown)
    assert pre_enqueue([]) == (QueueGate.OK, None)
