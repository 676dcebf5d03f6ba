"""One gang's counts by state, and what is lost with its members."""

from __future__ import annotations

from math import inf, nan

import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.plugins.gangs.losses import job_of_bundle
from cotenant.engine.plugins.gangs.members import Gang
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.gang import Disruption, GangMode, GangSpec, MatchPolicy
from cotenant.policy.placement.gangs.permit import GangTally

SUCCEEDED, FAILED = PodPhase.SUCCEEDED, PodPhase.FAILED


def member(name: str, created_s: float = 0.0, priority: int = 0, started_s: float = nan) -> PodInfo:
    return PodInfo(ObservedPod(Pod(name, priority=priority), name, "s", created_s, started_s=started_s))


def gang(members: str = "", placed: str = "", least: int = 2, total: int = 0, **spec: object) -> Gang:
    """Members are named by single letters."""
    made = Gang("ns/a", spec=GangSpec("ns/a", least, total or least, **spec))  # type: ignore[arg-type]
    made.members = {name: member(name) for name in members}
    made.placed = set(placed)
    return made


@pytest.mark.parametrize(
    ("placed", "ended", "least", "total", "bound"),
    [
        ("", (), 2, 2, 0),
        ("ab", (), 2, 2, 2),
        ("ab", (SUCCEEDED, FAILED), 2, 2, 4),  # beside members that run, those that have ended count
        ("", (SUCCEEDED, FAILED), 3, 3, 1),  # else those that succeeded
        ("", (SUCCEEDED, SUCCEEDED), 3, 3, 2),
        ("", (SUCCEEDED,) * 3, 3, 3, 0),  # all of it: it starts over
        ("", (SUCCEEDED,) * 3, 3, 4, 3),
        ("", (SUCCEEDED,) * 4, 3, 4, 0),
        ("", (SUCCEEDED,) * 5, 3, 4, 0),
    ],
)
def test_members_that_have_ended_count_while_they_are_not_all_of_it(
    placed: str, ended: tuple[PodPhase, ...], least: int, total: int, bound: int
) -> None:
    made = gang("abc", placed, least, total)
    made.ended = dict(enumerate(ended))  # type: ignore[arg-type]
    assert made.bound() == bound
    assert made.tally(4) == GangTally("ns/a", made.spec, 4, bound, 3 + bound - len(placed), False)


def test_of_a_gang_without_a_specification_nothing_that_ended_counts() -> None:
    made = Gang("ns/a", ended={"x": SUCCEEDED})
    assert (made.bound(), made.wait_s(), made.is_strict(), made.goes_alone()) == (0, 0.0, True, False)


def test_members_hold_nodes_or_have_none() -> None:
    made = gang("abcd", "ab", wait_s=7.0)
    made.holding = {"c": made.members["c"]}
    made.satisfied = True
    assert made.unplaced() == 1
    assert made.tally() == GangTally("ns/a", made.spec, 1, 2, 4, True)
    assert made.wait_s() == 7.0
    assert (made.held_since_s, made.yields_until_s, made.open) == (inf, inf, False)


@pytest.mark.parametrize(
    ("policy", "satisfied", "placed", "members", "alone"),
    [
        (MatchPolicy.ONCE_SATISFIED, True, "", "ab", True),
        (MatchPolicy.ONCE_SATISFIED, False, "", "ab", False),
        (MatchPolicy.ONCE_SATISFIED, False, "a", "ab", True),  # the third no longer exists
        (MatchPolicy.ONCE_SATISFIED, False, "a", "abc", False),  # a scheduler died between binds: enough wait
        (MatchPolicy.ONLY_WAITING, True, "a", "ab", False),
        (MatchPolicy.WAITING_AND_RUNNING, True, "a", "ab", False),
    ],
)
def test_when_members_are_placed_one_by_one(
    policy: MatchPolicy, satisfied: bool, placed: str, members: str, alone: bool
) -> None:
    made = gang(members, placed, 3, match_policy=policy)
    made.satisfied = satisfied
    assert made.goes_alone() == alone


def test_the_oldest_member_is_the_first_made_and_of_two_the_first_by_uid() -> None:
    made = Gang("ns/a")
    assert made.find_oldest() is None
    assert made.is_older(member("x", 9.0))
    made.members = {entry.seen.uid: entry for entry in (member("b", 2.0), member("c", 1.0), member("a", 2.0))}
    assert made.find_oldest() is made.members["c"]
    made.oldest = made.members["b"]
    assert made.is_older(made.members["a"])
    assert not made.is_older(made.members["b"])
    assert not made.is_older(member("0", 2.5))


NOBODY = frozenset[str]()


def spare(*gangs: Gang, going: str = "") -> tuple[str, int] | None:
    found = job_of_bundle(("ns/a",), gangs, lambda entry: entry.seen.uid in going)
    return None if found is None else ("".join(entry.seen.uid for entry in found.members), found.spare)


def test_a_strict_gang_spares_what_is_above_its_minimum() -> None:
    assert spare(gang("abcd", "abc", 2)) == ("abc", 1)
    assert spare(gang("abcd", "ab", 2)) == ("ab", 0)
    assert spare(gang("abcd", "a", 2)) == ("a", 0)
    assert spare(gang("abcd", "abcd", 2), going="b") == ("acd", 1)
    assert spare(gang("ab", "abx", 1)) == ("ab", 1)  # placed, and no member any more
    assert spare(Gang("ns/a")) is None


def test_a_bundle_spares_what_the_scarcest_of_its_gangs_can() -> None:
    assert spare(gang("abc", "abc", 1), gang("xy", "xy", 1)) == ("abcxy", 1)
    assert spare(gang("abc", "abc", 1), Gang("ns/b", placed={"x"}, members={"x": member("x")})) == ("abcx", 1)


@pytest.mark.parametrize(
    ("mode", "disruption", "expected"),
    [
        (GangMode.STRICT, Disruption.BELOW_MINIMUM, ("abc", 2)),
        (GangMode.STRICT, Disruption.ALL, ("abc", 0)),
        (GangMode.STRICT, Disruption.SINGLE, None),
        (GangMode.NON_STRICT, Disruption.BELOW_MINIMUM, None),
        (GangMode.NON_STRICT, Disruption.ALL, None),
    ],
)
def test_which_gangs_are_lost_as_a_whole(
    mode: GangMode, disruption: Disruption, expected: tuple[str, int] | None
) -> None:
    one = gang("abc", "abc", 1, mode=mode, disruption=disruption)
    assert spare(one) == expected
    strict = gang("xyz", "xyz", 1)
    found = spare(one, strict)
    assert found is not None  # one strict gang makes the bundle strict
    assert found[1] == (0 if disruption is Disruption.ALL else 2)


def test_the_least_important_members_come_first_then_those_that_started_last() -> None:
    made = gang("", "abcde", 1)
    made.members = {
        entry.seen.uid: entry
        for entry in (
            member("a", priority=5, started_s=1.0),
            member("b", priority=1, started_s=3.0),
            member("c", priority=1),  # not started
            member("d", priority=1, started_s=7.0),
            member("e", priority=1, started_s=3.0),
        )
    }
    assert spare(made) == ("cdbea", 4)
