"""In which domains a bundle of gangs is tried, and in which order."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.cluster.gang_world import BLOCK, RACK, cluster, members, node, pod, see, settle

from cotenant.engine.cluster import Cluster
from cotenant.engine.plugins.gangs.topology import (
    MAX_TRIES,
    TopologyPlace,
    may_be_together,
    places,
    places_to_clear,
)
from cotenant.engine.state.assignments import Assignments
from cotenant.model.arrays import CPU
from cotenant.model.groups.gang import GangMode, GangTopology

A = ("default/a",)
NOBODY = np.empty(0, dtype=np.bool_)


def racked(racks: dict[str, int]) -> Cluster:
    """Nodes of one CPU, named after their racks, whose first letter is the block; racks of "-" have no labels."""
    c = cluster(0)
    for rack, count in racks.items():
        for i in range(count):
            c.node_seen(node(f"{rack}{i}") if rack == "-" else node(f"{rack}{i}", rack=rack, block=rack[0]))
    return c


def state(c: Cluster) -> Assignments:
    found = c._components.assignments
    found._adopt()  # as at the beginning of a judgement
    return found


def shown(c: Cluster, found: list[TopologyPlace]) -> list[tuple[str, bool]]:
    """Of each place, the racks of its rows, or its name where it has one; and whether all members must fit."""
    rows = state(c).encoder.node_rows
    made = []
    for place in found:
        racks = {name[:-1] for name, row in rows.items() if len(place.only) and place.only[row]}
        made.append((place.name or "+".join(sorted(racks)) or "everywhere", place.all_of_it))
        if place.name:
            key, _, domain = place.name.partition("=")
            assert racks == {domain} or key == BLOCK
    return made


def tried(c: Cluster, names: tuple[str, ...] = (), promised: np.ndarray = NOBODY) -> list[tuple[str, bool]]:
    """The places for those members of gang a that wait, or for these."""
    gang = c.plugins.gangs.get(A[0])
    assert gang is not None
    waiting = [entry for entry in gang.members.values() if (entry.seen.pod.name in names if names else not entry.node)]
    return shown(c, list(places(state(c), c.plugins.gangs, A, waiting, promised)))


def test_narrow_domains_before_wide_ones_before_all_nodes_and_the_tightest_first() -> None:
    c = racked({"a1": 3, "a2": 2, "b1": 4})
    see(c, *members("a", 2, topology=GangTopology((RACK, BLOCK))))
    assert tried(c) == [
        (f"{RACK}=a2", True),
        (f"{RACK}=a1", True),
        (f"{RACK}=b1", True),
        (f"{BLOCK}=b", True),
        (f"{BLOCK}=a", True),
        ("everywhere", False),
    ]


def test_a_required_key_leaves_no_other_nodes_and_says_where_the_minimum_may_fit() -> None:
    c = racked({"a1": 3, "b1": 2, "c1": 1})
    see(c, *members("a", 3, topology=GangTopology((RACK,), True)))
    assert tried(c) == [(f"{RACK}=a1", True)]
    c = racked({"a1": 3, "b1": 2, "c1": 1})
    see(c, *members("a", 4, least=2, topology=GangTopology((RACK,), True)))
    assert tried(c) == [(f"{RACK}=b1", False), (f"{RACK}=a1", False)]
    whole = racked({"a1": 3})
    see(whole, *members("a", 4, topology=GangTopology((RACK,), True)))
    assert tried(whole) == []  # the minimum is all of it


def test_no_more_than_so_many_domains_of_a_key_are_tried() -> None:
    c = racked({f"a{number:02}": 2 for number in range(MAX_TRIES + 1)})
    see(c, *members("a", 2, topology=GangTopology((RACK,))))
    assert len(tried(c)) == MAX_TRIES + 1  # and everywhere
    c = racked({f"a{number:02}": 2 for number in range(MAX_TRIES + 1)})
    see(c, *members("a", 3, least=1, topology=GangTopology((RACK,), True)))
    assert len(tried(c)) == MAX_TRIES


def test_without_a_topology_all_nodes_are_one_place() -> None:
    for mode, topology in ((GangMode.STRICT, None), (GangMode.NON_STRICT, GangTopology((RACK,), True))):
        c = racked({"a1": 2})
        see(c, *members("a", 2, mode=mode, topology=topology))
        assert tried(c) == [("everywhere", False)]


def placed(topology: GangTopology, on: dict[str, str], waiting: int = 1) -> Cluster:
    """Racks of two and three nodes, some members on nodes already, and others that wait."""
    c = racked({"a1": 3, "a2": 3, "b1": 3, "-": 2})
    for name, where in on.items():
        see(c, pod(name, "a", 1, on=where, topology=topology))
    settle(c, 0.0)
    see(c, *(pod(f"w{i}", "a", 1, topology=topology) for i in range(waiting)))
    return c


def test_the_domain_of_the_placed_members_comes_first_and_is_the_only_one() -> None:
    c = placed(GangTopology((RACK, BLOCK)), {"x": "b10", "y": "b11", "z": "a10"})
    assert tried(c) == [(f"{RACK}=b1", True), (f"{BLOCK}=b", True), ("everywhere", False)]
    required = placed(GangTopology((RACK,), True), {"x": "b10"}, waiting=2)
    assert tried(required) == [(f"{RACK}=b1", False)]


def test_a_full_domain_of_the_placed_is_tried_only_where_it_is_required() -> None:
    full = {"x": "b10", "y": "b11", "z": "b12"}
    c = placed(GangTopology((RACK,)), full)
    assert tried(c) == [(f"{RACK}=a1", True), (f"{RACK}=a2", True), ("everywhere", False)]
    assert tried(placed(GangTopology((RACK,), True), full)) == [(f"{RACK}=b1", False)]


def test_where_the_placed_are_outside_every_domain_a_required_key_has_no_place() -> None:
    assert tried(placed(GangTopology((RACK,), True), {"x": "-0"})) == []
    c = placed(GangTopology((RACK,)), {"x": "-0"})
    assert [name for name, _ in tried(c)][-1] == "everywhere"
    assert len(tried(c)) == 4


@pytest.mark.parametrize(
    ("rows", "together"),
    [
        (("a10", "a11"), True),
        (("a10", "a20"), False),
        (("-0", "-1"), False),  # without the label they are in no domain
        (("a10", "-0"), False),
        (("-0",), False),
    ],
)
def test_a_required_key_wants_all_of_them_in_one_domain(rows: tuple[str, ...], together: bool) -> None:
    for required in (True, False):
        c = placed(GangTopology((RACK,), required), {})
        mask = np.zeros(state(c).encoder.all_rows, dtype=np.bool_)
        mask[[state(c).encoder.node_rows[name] for name in rows]] = True
        assert may_be_together(state(c), c.plugins.gangs, A, mask) == (together or not required)
        first = tried(c, promised=mask)[0]
        expected = "+".join(sorted({name[:-1] for name in rows}))
        assert (first == (expected, False)) == (together or not required)


def test_promised_rows_are_beside_the_placed_members() -> None:
    for where, together in (("a12", True), ("a20", False), ("-0", False)):
        c = placed(GangTopology((RACK,), True), {"x": where})
        mask = np.zeros(state(c).encoder.all_rows, dtype=np.bool_)
        mask[state(c).encoder.node_rows["a10"]] = True
        assert may_be_together(state(c), c.plugins.gangs, A, mask) == together


def cleared(c: Cluster, cpu: int, priority: int = 5) -> list[str]:
    asked = np.zeros(state(c).ledger.nodes.capacity.shape[1], dtype=np.int64)
    asked[CPU] = cpu
    return [name for name, _ in shown(c, list(places_to_clear(state(c), c.plugins.gangs, A, priority, asked)))]


def contended(topology: GangTopology | None, first: str = "") -> Cluster:
    """Of rack a1 one node is free, of b1 two, of a2 one; of the pods there, one is as important as the gang."""
    c = racked({"a1": 3, "b1": 3, "a2": 3})
    for name, where, priority in (("p", "a10", 1), ("q", "a11", 1), ("r", "b10", 1), ("s", "a20", 5), ("t", "a21", 4)):
        see(c, pod(name, on=where, priority=priority))
    if first:
        see(c, pod("first", "a", 3, on=first, topology=topology, priority=5))
    settle(c, 0.0)
    see(c, *members("a", 3, topology=topology, priority=5))
    return c


def test_evictions_may_make_room_in_domains_whose_lesser_pods_suffice_and_those_that_lack_least_come_first() -> None:
    c = contended(GangTopology((RACK,), True))
    assert cleared(c, 3000) == [f"{RACK}=b1", f"{RACK}=a1"]
    assert cleared(c, 2000) == [f"{RACK}=b1", f"{RACK}=a1", f"{RACK}=a2"]
    assert cleared(c, 3000, priority=6) == [f"{RACK}=b1", f"{RACK}=a1", f"{RACK}=a2"]
    assert cleared(c, 3001) == []
    assert cleared(c, 1, priority=1) == []  # nobody is less important


def test_evictions_beside_placed_members_are_in_their_domain() -> None:
    c = contended(GangTopology((RACK,), True), first="a12")
    assert cleared(c, 2000) == [f"{RACK}=a1"]
    assert cleared(c, 3000) == []


def test_without_a_required_key_evictions_may_be_anywhere_where_all_that_yields_suffices() -> None:
    for topology in (None, GangTopology((RACK,))):
        c = contended(topology)
        assert cleared(c, 8000) == ["everywhere"]
        assert cleared(c, 8001) == []
        assert cleared(c, 9000, priority=6) == ["everywhere"]
        assert cleared(c, 1, priority=1) == []
