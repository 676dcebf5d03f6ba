"""On a node that advertises more CPU than it has, exclusive CPUs count times the ratio, for every pod."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.cpu_cluster import GIB, Api, cpus, node, pod, tells, zones

from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.amplification import NOT_AMPLIFIED, Ratios
from cotenant.model.cpus.spec import NumaTopologySpec, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import GangNotes

THIRTY_TWO = CpuTopology.of(cpus(cores=8))  # two NUMA nodes of sixteen
SINGLE = NumaTopologySpec(TopologyPolicy.SINGLE_NUMA_NODE)


def amplified(name: str = "a", cpu: int = 48, ratios: str = '{"cpu": 1.5}', **labels: str) -> Node:
    """32 CPUs that the node advertises as 48."""
    return replace(node(name, cpu, **labels), annotations=Labels.of({AMPLIFICATION_RATIO: ratios}))


def world(*nodes: Node, **reported: object) -> Api:
    return Api(*nodes, told=[tells(entry.name, THIRTY_TWO, **reported) for entry in nodes])


@pytest.mark.parametrize("qos", [QoSClass.LSR, QoSClass.LSE])
@pytest.mark.parametrize(("shared", "fits"), [(12, True), (13, False)])
def test_shared_pods_get_what_exclusive_cpus_leave(qos: QoSClass, shared: int, fits: bool) -> None:
    """3 x 8 x 1.5 = 36 of 48: 12 are left."""
    api = world(amplified())
    for number in range(3):
        api.create(pod(f"x{number}", 8, qos=qos))
        api.turn()
    api.create(pod("shared", shared, qos=QoSClass.LS))
    api.turn()
    assert (api.where("shared") == "a") == fits
    if not fits:
        assert "1 Insufficient amplified cpu" in api.waits["shared"]
        api.delete("x0")
        api.turn()
        assert api.where("shared") == "a"


def test_the_ratio_may_stand_on_the_topology_object_instead() -> None:
    api = world(node("a", 48), ratio_ppm=1_500_000)
    api.create(*(pod(f"x{number}", 8) for number in range(3)))
    api.turn()
    api.create(pod("shared", 13, qos=QoSClass.LS))
    api.turn()
    assert api.where("shared") == ""


def test_a_ratio_that_changes_changes_the_room() -> None:
    api = world(amplified(ratios='{"cpu": 1}'))
    api.create(*(pod(f"x{number}", 8) for number in range(3)))
    api.turn()
    api.create(pod("shared", 13, qos=QoSClass.LS))
    api.turn()
    assert api.where("shared") == "a"
    api.delete("shared")
    api.nodes[0] = amplified()
    api.cluster.node_seen(api.nodes[0])
    api.create(pod("again", 13, qos=QoSClass.LS))
    api.turn()
    assert api.where("again") == ""


def test_an_annotation_that_cannot_be_read_counts_as_absent() -> None:
    api = world(amplified(ratios="{"))
    api.create(pod("x", 8), pod("shared", 40, qos=QoSClass.LS))
    api.turn()
    assert (api.where("x"), api.where("shared")) == ("a", "a")


def test_after_a_restart_the_same_is_withheld() -> None:
    api = world(amplified())
    api.create(*(pod(f"x{number}", 8) for number in range(3)))
    api.turn()
    api.restart()
    api.create(pod("shared", 13, qos=QoSClass.LS))
    api.turn()
    assert api.where("shared") == ""


def test_preemption_counts_what_exclusive_cpus_free() -> None:
    """Evicting one pod of 8 exclusive CPUs frees 12 of the advertised ones."""
    api = world(amplified())
    api.create(*(pod(f"x{number}", 8, priority=9100 + number) for number in range(4)))
    api.turn()
    api.create(pod("shared", 12, qos=QoSClass.LS, priority=9900))
    api.turn()
    assert api.victims == ["x0"]
    api.delete("x0")
    api.turn()
    assert api.where("shared") == "a"


def test_preemption_for_exclusive_cpus_frees_the_amplified_request() -> None:
    api = world(amplified())
    api.create(*(pod(f"s{number}", 12, qos=QoSClass.LS, priority=9100 + number) for number in range(4)))
    api.turn()
    api.create(pod("x", 9, priority=9900))  # 13.5 of 48
    api.turn()
    assert sorted(api.victims) == ["s0", "s1"]


@pytest.mark.parametrize(
    ("exclusive", "newcomer", "victims"),
    [(1, 8, ["s0"]), (1, 16, ["s0", "s1"]), (2, 8, ["s0"]), (2, 16, ["s0", "s1"]), (3, 8, ["s0"])],
)
def test_preemption_for_exclusive_cpus_beside_others_evicts_no_more_than_it_must(
    exclusive: int, newcomer: int, victims: list[str]
) -> None:
    """All 48 are taken, in twelves: 8 exclusive CPUs take one, and so does each shared pod."""
    api = world(amplified())
    api.create(*(pod(f"x{number}", 8, priority=9500) for number in range(exclusive)))
    api.turn()
    api.create(*(pod(f"s{number}", 12, qos=QoSClass.LS, priority=9100 + number) for number in range(4 - exclusive)))
    api.turn()
    api.create(pod("new", newcomer, priority=9900))
    api.turn()
    assert sorted(api.victims) == victims
    for name in victims:
        api.delete(name)
    api.turn()
    assert len(api.has("new")) == newcomer


def test_numa_nodes_are_amplified_too() -> None:
    """Each of the two NUMA nodes has 16 CPUs, 24 advertised: a pod of 20 fits one of them, but not beside 4
    exclusive ones.
    """
    api = world(amplified(numa_topology_policy="SingleNUMANode"))
    api.create(pod("wide", 20, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    assert api.where("wide") == "a"
    api.create(pod("x", 4))
    api.turn()
    api.create(pod("second", 20, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    assert "second" in api.waits


def test_memory_of_numa_nodes_is_amplified() -> None:
    api = world(amplified(ratios='{"cpu": 1.5, "memory": 2}'), zones=zones(4, 4))
    api.create(pod("big", 1, gib=6, qos=QoSClass.LS, numa=SINGLE))
    api.turn()
    status = api.pods["uid-big"].holds.cpus
    assert status is not None
    assert [numa_amount.memory_bytes for numa_amount in status.numa] == [6 * GIB]


@pytest.mark.parametrize("text", ["[]", "{", "1"])
def test_what_is_no_object_of_ratios_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Ratios.parse(text)


@pytest.mark.parametrize("ratio", ["0", '"2"', "-1", "true", "1e9", "null"])
def test_a_ratio_that_means_nothing_leaves_the_other_one(ratio: str) -> None:
    assert Ratios.parse(f'{{"cpu": {ratio}, "memory": 2}}') == Ratios(memory_ppm=2_000_000)
    assert Ratios.parse(f'{{"cpu": 2, "memory": {ratio}}}') == Ratios(cpu_ppm=2_000_000)


def test_no_annotation_is_no_amplification() -> None:
    assert Ratios.parse(None) == Ratios.parse("") == Ratios.parse("{}") == NOT_AMPLIFIED


def test_a_gang_counts_what_exclusive_cpus_free() -> None:
    """Four pods of 8 exclusive CPUs take all 48 and request 32; two members of 20 fit once all of them are gone."""
    api = world(amplified())
    api.create(*(pod(f"x{number}", 8, priority=9100 + number) for number in range(4)))
    api.turn()
    gang = GangNotes("g", min_available=2)
    for number in range(2):
        made = pod(f"m{number}", 20, qos=QoSClass.LS, priority=9900)
        api.create(replace(made, demands=replace(made.demands, gang=gang)))
    api.turn()
    assert sorted(api.victims) == ["x0", "x1", "x2", "x3"]
