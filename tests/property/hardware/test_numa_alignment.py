"""The NUMA nodes on which resources are aligned equal those of a search over every combination of their hints."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.few import examples, first_cases

from cotenant.model.cpus.spec import TopologyPolicy
from cotenant.policy.placement.numa import Alignment, Hint, Hints, NumaRoom, align, alone, alone_of, hints, meet_on_one
from cotenant.policy.placement.refusal import Refusal

POLICIES = st.sampled_from([TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE])


@st.composite
def asks(draw: st.DrawFn) -> tuple[tuple[int, ...], Hints]:
    """NUMA ids, not always from 0, and hints of some resources: sets with any preference, amounts, none, or no
    possible set.
    """
    ids = tuple(sorted(draw(st.sets(st.integers(0, 6), min_size=1, max_size=4))))
    every = sum(1 << number for number in ids)
    asked: dict[str, tuple[Hint, ...] | None] = {}
    for name in draw(st.sets(st.sampled_from(["cpu", "memory", "gpu", "rdma"]))):
        if draw(st.booleans()):
            rooms = [NumaRoom(number, total := draw(st.integers(0, 8)), draw(st.integers(0, total))) for number in ids]
            asked[name] = draw(st.sampled_from([None, hints(draw(st.integers(1, 20)), rooms)]))
        else:
            sets = draw(st.sets(st.integers(1, every).map(lambda integer: integer & every).filter(bool), max_size=5))
            found = [Hint(number, draw(st.booleans())) for number in sets]
            asked[name] = tuple(sorted(found, key=lambda hint: (hint.nodes.bit_count(), hint.nodes)))
    return ids, asked


def searched(policy: TopologyPolicy, asked: Hints, every: int) -> tuple[int, bool]:
    """Search every combination of one hint per resource: the best by preference, then by width, then by ids."""
    lists = []
    for given_ in asked.values():
        if given_ is not None:
            kept = list(given_)
            if policy is TopologyPolicy.SINGLE_NUMA_NODE:
                kept = [hint for hint in kept if hint.preferred and hint.nodes.bit_count() == 1]
            lists.append(kept or [Hint(every, False)])
    best = (True, 99, every)
    for combination in product(*lists):
        nodes, preferred = every, True
        for hint in combination:
            nodes, preferred = nodes & hint.nodes, preferred and hint.preferred
        if nodes:
            best = min(best, (not preferred, nodes.bit_count(), nodes))
    return best[2], not best[0]


@pytest.mark.slow
@settings(max_examples=examples(500), deadline=None)
@given(asks(), POLICIES)
def test_the_merged_affinity_is_the_best_of_all_combinations(
    case: tuple[tuple[int, ...], Hints], policy: TopologyPolicy
) -> None:
    ids, asked = case
    every = sum(1 << number for number in ids)
    nodes, preferred = searched(policy, asked, every)
    got = align(policy, asked, ids)
    if isinstance(got, Refusal):
        assert not preferred
        assert policy is not TopologyPolicy.BEST_EFFORT
        named = [name for name, entry in asked.items() if entry is not None]
        assert any(name in got.nearest for name in named)
        return
    assert preferred or policy is TopologyPolicy.BEST_EFFORT
    one = meet_on_one({name: alone_of(entry) for name, entry in asked.items() if entry is not None})
    widths = [{hint.nodes.bit_count() for hint in entry or () if hint.preferred} for entry in asked.values()]
    if all(len(width) < 2 for width in widths):  # as of amounts: what is preferred is as wide as must be
        assert one is None or one == got
    assert got.preferred == preferred
    cares = any(entry is not None for entry in asked.values())
    assert got.nodes == (nodes if cares and (preferred or nodes != every) else None)
    for name, entry in asked.items():
        within = got.within(name)
        around = [hint.nodes for hint in entry or () if got.nodes is not None and not got.nodes & ~hint.nodes]
        assert (within in around) if around else within is None
        assert all(within is not None and within.bit_count() <= other.bit_count() for other in around)
        if policy is TopologyPolicy.SINGLE_NUMA_NODE and entry is not None:
            assert within == got.nodes


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 8), st.integers(0, 255))
def test_policy_none_requires_nothing(amount: int, free: int) -> None:
    rooms = [NumaRoom(number, 8, 2 * (free >> number & 3)) for number in range(3)]
    assert alone(amount, rooms) == alone_of(hints(amount, rooms))
    got = align(TopologyPolicy.NONE, {"cpu": hints(amount, rooms)}, (0, 1, 2))
    assert got == Alignment(None, True, got.why if isinstance(got, Alignment) else "")


test_first_cases = first_cases(
    test_the_merged_affinity_is_the_best_of_all_combinations,
)
