"""Gangs that are gathered in layers of the network."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster.gang_world import BLOCK, RACK, binds, cluster, group, members, node, pod, see, settle, told

from cotenant.engine.cluster import Cluster
from cotenant.model.groups.gang import GangMode, GangNotes
from cotenant.model.groups.network_topology import NODE_LAYER, GatherRule, NetworkLayer, NetworkTopology

NETWORK = NetworkTopology(
    "default", (NetworkLayer(NODE_LAYER), NetworkLayer("rack", (RACK,)), NetworkLayer("block", (BLOCK,)))
)
MUST, PREFER = (GatherRule("rack", True),), (GatherRule("rack", False),)


def racks(sizes: dict[str, int]) -> Cluster:
    c = cluster(0)
    for rack, size in sizes.items():
        for i in range(size):
            c.node_seen(node(f"{rack}{i}", rack=rack, block=rack[0]))
    return c


def test_members_are_gathered_in_one_domain_of_a_binding_layer() -> None:
    c = racks({"x1": 2, "x2": 3})
    c.plugins.gangs.network_topology_seen(NETWORK, 0.0)
    see(c, *members("a", 3, gather=MUST))
    assert {name[:2] for name in binds(settle(c, 0.0)).values()} == {"x2"}


def test_a_gang_that_no_domain_of_a_binding_layer_holds_waits() -> None:
    c = racks({"x1": 2, "x2": 2})
    c.plugins.gangs.network_topology_seen(NETWORK, 0.0)
    see(c, *members("a", 3, gather=MUST))
    see(c, *members("b", 3, gather=PREFER))
    assert {name[0] for name in binds(settle(c, 0.0))} == {"b"}


def test_a_gang_waits_for_the_object_that_names_its_binding_layer() -> None:
    c = racks({"x1": 3})
    see(c, *members("a", 2, gather=MUST))
    words = "gang default/a: its members must be gathered in one rack: no ClusterNetworkTopology default exists"
    assert told(settle(c, 0.0) + settle(c, 3.0))["a-1"] == words
    c.plugins.gangs.network_topology_seen(replace(NETWORK, name="other"), 4.0)
    assert not binds(settle(c, 4.0))
    c.plugins.gangs.network_topology_seen(NETWORK, 5.0)
    assert len(binds(settle(c, 5.0))) == 2


def test_what_is_not_considered_is_said_of_the_gang() -> None:
    c = racks({"x1": 3})
    c.plugins.gangs.network_topology_seen(NetworkTopology("default", (), ("broken",)), 0.0)
    see(c, *members("a", 2, gather=PREFER))
    settle(c, 0.0)
    view = c.plugins.gangs.describe("default/a")
    assert view is not None
    assert view.problems == (
        "members are not gathered in one rack: ClusterNetworkTopology default has no layer rack",
        "ClusterNetworkTopology default: broken",
    )
    c.plugins.gangs.network_topology_gone("default", 1.0)
    view = c.plugins.gangs.describe("default/a")
    assert view is not None
    assert "no ClusterNetworkTopology default exists" in view.problems[0]


def test_a_non_strict_gang_says_that_it_is_not_gathered() -> None:
    c = racks({"x1": 1, "x2": 1})
    see(c, *members("a", 2, gather=MUST, mode=GangMode.NON_STRICT))
    assert len(binds(settle(c, 0.0))) == 2
    view = c.plugins.gangs.describe("default/a")
    assert view is not None
    assert "members of a NonStrict gang are not gathered: topology counts for Strict gangs" in view.problems


def test_what_pods_of_a_pod_group_say_in_vain_is_among_the_problems() -> None:
    c = racks({"x1": 2})
    c.plugins.gangs.pod_group_seen(group("a", 1), 0.0)
    made = pod("a-0", label="a")
    notes = GangNotes(wrong=("annotation index is not read",))
    see(c, replace(made, demands=replace(made.demands, gang=notes)))
    view = c.plugins.gangs.describe("default/a")
    assert view is not None
    assert view.problems == ("pods: annotation index is not read",)
