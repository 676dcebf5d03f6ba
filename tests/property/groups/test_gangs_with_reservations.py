"""Victims for a gang whose members own reservations, against brute force over all sets of victims and all
assignments, on small nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.reservation_world import World, node, pod, reservation, web
from tests.property.few import examples, first_cases

from cotenant.engine.framework.instructions import Bind, Preempt
from cotenant.model.cluster.demands import Demands
from cotenant.model.groups.gang import GangNotes

CPU = 4000
SIZES = (1000, 2000, 3000)
_SLOW = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Case:
    """Nodes of 4 cores with reservations and pods of one core, and the members of a gang: size, and whether it may
    draw.
    """

    nodes: int
    reserved: tuple[int, ...]
    low: int
    members: tuple[tuple[int, bool], ...]


@st.composite
def cases(draw: st.DrawFn, sizes: bool) -> Case:
    nodes = draw(st.integers(2, 3))
    one = draw(st.sampled_from(SIZES))
    owners = draw(st.integers(0, 4))
    members = [(draw(st.sampled_from(SIZES)) if sizes else one, i < owners) for i in range(draw(st.integers(2, 4)))]
    reserved = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=2))
    return Case(nodes, tuple(reserved), draw(st.integers(4, 4 * nodes)), tuple(members))


def prepared(case: Case) -> World:
    w = World(*(node(f"n{i}", CPU) for i in range(case.nodes)))
    for i, cpu in enumerate(case.reserved):
        w.see(reservation(f"r{i}", cpu, allocate_once=False))
        w.go()
    w.see(*(pod(f"low{i}", 1000) for i in range(case.low)))
    w.go()
    for i in range(case.low):
        if not w.on(f"low{i}"):
            w.delete(f"low{i}")
    return w


def fits(free: Sequence[int], left: Sequence[tuple[int, int]], members: Sequence[tuple[int, bool]]) -> bool:
    """Whether the members can be placed: each on a node's free CPU, or from one reservation and the free CPU beside
    it.
    """
    if not members:
        return True
    (cpu, draws), rest = members[0], members[1:]
    for row, here in enumerate(free):
        if here >= cpu and fits([*free[:row], here - cpu, *free[row + 1 :]], left, rest):
            return True
    for at, (row, amount) in enumerate(left if draws else ()):
        drawn = min(amount, cpu)
        if drawn and free[row] + drawn >= cpu:
            then = [*free[:row], free[row] - (cpu - drawn), *free[row + 1 :]]
            if fits(then, [*left[:at], (row, amount - drawn), *left[at + 1 :]], rest):
                return True
    return False


def fewest(w: World, case: Case) -> int | None:
    """The fewest victims; None where the gang does not fit without any pod of lower priority."""
    names = [f"n{i}" for i in range(case.nodes)]
    free = [CPU - w.room_taken(name) for name in names]
    left = [(names.index(held.node), w.left(held).get("cpu")) for held in w.held.values() if held.node]
    low = Counter(observed_pod.node for observed_pod in w.pods.values())
    for gone in sorted(product(*(range(low[name] + 1) for name in names)), key=sum):
        if fits([here + 1000 * more for here, more in zip(free, gone, strict=True)], left, case.members):
            return sum(gone)
    return None


def preempted(w: World, case: Case) -> int | None:
    """How many pods are evicted for the gang, 0 where it is placed at once, None for no plan. What was planned must
    hold.
    """
    gang = Demands(gang=GangNotes(name="g", min_available=len(case.members)))
    for i, (cpu, draws) in enumerate(case.members):
        made = (web if draws else pod)(f"m{i}", cpu, priority=9000, created_s=1.0)
        w.see(replace(made, demands=gang))
    out = w.go()
    if any(isinstance(instruction, Bind) for instruction in out):
        return 0
    victims = [victim for instruction in out if isinstance(instruction, Preempt) for victim in instruction.victims]
    if not victims:
        return None
    for victim in victims:
        w.delete(victim.uid.removeprefix("uid-"))
    after = w.go(40.0)
    assert not any(isinstance(instruction, Preempt) for instruction in after), "more is evicted than was planned"
    assert all(w.on(f"m{i}") for i in range(len(case.members))), "it does not fit as planned"
    return len(victims)


@pytest.mark.slow
@_SLOW
@given(cases(sizes=False))
@example(Case(3, (1000, 2000), 7, ((3000, True), (3000, False), (3000, False))))  # one node is for the owner only
def test_a_gang_evicts_no_more_than_needed_beside_what_its_members_draw(case: Case) -> None:
    """One victim more is allowed: members are served one after another, and which of them draws where is not
    searched.
    """
    w = prepared(case)
    least = fewest(w, case)
    got = preempted(w, case)
    if least is None:
        assert got is None
    else:
        assert got is not None
        assert least <= got <= least + 1


@pytest.mark.slow
@_SLOW
@given(cases(sizes=True))
def test_a_plan_for_members_of_several_sizes_holds(case: Case) -> None:
    w = prepared(case)
    least = fewest(w, case)
    got = preempted(w, case)
    assert got is None or (least is not None and got >= least)


def test_four_victims_suffice_where_a_member_fits_in_its_reservation() -> None:
    case = Case(3, (3000,), 9, ((3000, True), (2000, True), (2000, True)))
    w = prepared(case)
    assert fewest(w, case) == 4
    assert preempted(w, case) == 4
    drew = w.pods["uid-m0"].holds.reservation
    assert drew is not None
    assert drew.name == "r0"


def test_a_refused_simulation_leaves_reservations_as_they_were() -> None:
    case = Case(2, (3000,), 4, ((3000, True), (3000, False), (3000, False)))
    w = prepared(case)
    w.see(pod("important", 4000, priority=9900))
    w.go()
    before = w.reservations.describe("r0")
    assert preempted(w, case) is None
    after = w.reservations.describe("r0")
    assert before is not None
    assert after is not None
    assert (after.left, after.node) == (before.left, before.node)


test_first_cases = first_cases(
    test_a_gang_evicts_no_more_than_needed_beside_what_its_members_draw,
    test_a_plan_for_members_of_several_sizes_holds,
    most=8,
)
