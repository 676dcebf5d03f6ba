"""Gangs of one bundle, with topology keys of their own and without: against the documented rule, worked out on counts
of slots, and its invariants where pods come and go.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.gang_world import RACK, binds, cluster, confirm, group, members, node, see, settle
from tests.property.few import examples, first_cases

from cotenant.engine.cluster import Cluster

KEYS = ("default/a", "default/b", "default/c")
CPU = 1000


def world(racks: list[int], sizes: dict[str, tuple[int, int]], inner: frozenset[str]) -> Cluster:
    """Two nodes a rack with this many slots each; gangs by name with their size and minimum, bound together."""
    c = cluster(0)
    for number, slots in enumerate(racks):
        for half in "xy":
            c.node_seen(node(f"r{number}{half}", CPU * slots, rack=f"r{number}"))
    bundle = tuple(f"default/{name}" for name in sizes)
    for name, (_, least) in sizes.items():
        key = RACK if name in inner else ""
        c.plugins.gangs.pod_group_seen(replace(group(name, least, groups=bundle), inner_key=key), 0.0)
    for name, (size, least) in sizes.items():
        see(c, *members(name, size, least, groups=bundle, cpu=CPU))
    return c


def expected(
    racks: list[int], sizes: dict[str, tuple[int, int]], inner: frozenset[str]
) -> list[tuple[str, int, int]] | None:
    """Of each gang with a key: how many are placed, and how many slots its rack had left; None where the bundle fits
    nowhere. The largest first, each into the tightest rack for all of it, else into the tightest that takes its
    minimum. The others need room for their minimums, anywhere.
    """
    free = [2 * slots for slots in racks]
    found = []
    for name in sorted(inner & set(sizes), key=lambda name: (-sizes[name][0], name)):
        size, least = sizes[name]
        whole = sorted((slots, rack) for rack, slots in enumerate(free) if slots >= size)
        partly = sorted((slots, rack) for rack, slots in enumerate(free) if least <= slots)
        if not (whole or partly):
            return None
        slots, rack = (whole or partly)[0]
        found.append((name, min(size, slots), slots))
        free[rack] -= min(size, slots)
    return found if sum(free) >= sum(sizes[name][1] for name in set(sizes) - inner) else None


def racks_of(bound: dict[str, str], name: str) -> list[str]:
    return [where[:-1] for pod, where in sorted(bound.items()) if pod.startswith(f"{name}-")]


@st.composite
def gang_sizes(draw: st.DrawFn) -> dict[str, tuple[int, int]]:
    found = {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        size = draw(st.integers(1, 5))
        found[name] = (size, draw(st.integers(1, size)))
    return found


RACKS = st.lists(st.integers(1, 3), min_size=1, max_size=4)
INNER = st.sampled_from(["ab", "a", "abc", "bc", ""])  # which gangs have a key of their own


@settings(max_examples=10)
@given(RACKS, gang_sizes(), INNER)
def test_each_goes_into_the_rack_that_the_rule_names(
    racks: list[int], sizes: dict[str, tuple[int, int]], inner: str
) -> None:
    as_the_rule_says(racks, sizes, inner)


@pytest.mark.slow
@settings(max_examples=examples(100))
@given(RACKS, gang_sizes(), INNER)
def test_so_does_each_of_many(racks: list[int], sizes: dict[str, tuple[int, int]], inner: str) -> None:
    as_the_rule_says(racks, sizes, inner)


def as_the_rule_says(racks: list[int], sizes: dict[str, tuple[int, int]], inner: str) -> None:
    keyed = frozenset(inner) & set(sizes)
    c = world(racks, sizes, keyed)
    bound = binds(c.decide(0.0))
    c.validate()
    rule = expected(racks, sizes, keyed)
    if rule is None:
        assert not bound
        return
    free = {f"r{number}": 2 * slots for number, slots in enumerate(racks)}
    found = []
    for name, _, _ in rule:
        (rack,) = set(racks_of(bound, name))
        count = len(racks_of(bound, name))
        found.append((name, count, free[rack]))
        free[rack] -= count
    assert found == rule
    for name in set(sizes) - keyed:
        assert len(racks_of(bound, name)) >= sizes[name][1]


@settings(max_examples=18)
@given(st.lists(st.integers(1, 2), min_size=1, max_size=3), gang_sizes(), st.integers(0, 2))
def test_members_that_come_later_stay_in_the_rack_of_the_first(
    racks: list[int], sizes: dict[str, tuple[int, int]], more: int
) -> None:
    keyed = frozenset(sizes)
    c = world(racks, sizes, keyed)
    out = settle(c, 0.0)
    confirm(c, out, 0.0)
    bound = binds(out)
    bundle = tuple(f"default/{name}" for name in sizes)
    room = len(racks)
    c.node_seen(node("elsewhere", CPU * 9, rack="other"))
    for number in range(room):
        c.node_seen(node(f"r{number}z", CPU, rack=f"r{number}"))
    for name, (size, least) in sizes.items():
        late = members(name, size + more, least, groups=bundle, cpu=CPU)[size:]
        see(c, *late, now_s=1.0)
    for at_s in (1.0, 30.0, 90.0):
        out = settle(c, at_s)
        confirm(c, out, at_s)
        bound |= binds(out)
    for name, (_, least) in sizes.items():
        where = racks_of(bound, name)
        assert len(set(where)) <= 1, bound
        assert not where or len(where) >= least
    assert len({bool(racks_of(bound, name)) for name in sizes}) == 1


def test_a_cordoned_rack_and_one_outside_the_bundles_own_domain_are_not_used() -> None:
    c = world([1, 2], {"a": (2, 2)}, frozenset("a"))
    c.node_seen(replace(node("r0x", CPU, rack="r0"), unschedulable=True))
    assert set(racks_of(binds(settle(c, 0.0)), "a")) == {"r1"}


def test_it_says_how_many_fit() -> None:
    c = world([1, 1], {"a": (3, 3), "b": (1, 1)}, frozenset("ab"))
    out = settle(c, 0.0)
    assert not binds(out)
    c.node_seen(node("r1z", CPU, rack="r1"))
    out = settle(c, 60.0)
    assert set(racks_of(binds(out), "a")) == {"r1"}
    assert set(racks_of(binds(out), "b")) == {"r0"}


test_first_cases = first_cases(
    test_so_does_each_of_many,
    most=3,
)
