"""Groups of the Workload API in the engine: versions, composite groups, priorities, and changes in the middle of a
decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.fakes.cluster.gang_world import BLOCK, RACK, binds, cluster, node, pod, see, settle

from cotenant.drivers.kube.kinds.pod.groups import GroupTerms, PodGroupIndex
from cotenant.drivers.kube.kinds.pod.schema import SchedulingGroup
from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Bind, Preempt, Unschedulable
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.groups.gang import (
    K8S_GROUP,
    CompositeGroup,
    Disruption,
    GangMode,
    GangNotes,
    GangPhase,
    GangTopology,
    MatchPolicy,
    PodGroup,
    PodGroupStatus,
)
from cotenant.services.scheduling.workload_groups import WorkloadGroups


class Groups(WorkloadGroups):
    """Those of an engine."""

    def __init__(self, engine: Cluster) -> None:
        self.again: list[str] = []
        self.priorities = PodGroupIndex()
        gangs = engine.plugins.gangs
        super().__init__(gangs.pod_group_seen, gangs.pod_group_gone, self.priorities, self.again.append)


def a_group(name: str = "g", least: int = 2, uid: str = "u", version: str = "v1beta1", **more: Any) -> PodGroup:
    key = f"default/{name}"
    phase = more.pop("phase", GangPhase.NONE)
    notes = GangNotes(mode=GangMode.STRICT, match_policy=MatchPolicy.WAITING_AND_RUNNING)
    status = PodGroupStatus(key, uid, phase, api_group=K8S_GROUP, version=version)
    return PodGroup(
        key,
        uid,
        0.0,
        least,
        None,
        notes,
        status,
        api_group=K8S_GROUP,
        version=version,
        **{"disruption": Disruption.SINGLE, **more},
    )


def member(i: int, of: str = "g", **more: Any) -> ObservedPod:
    return pod(f"{of}-{i}", of, needs_object=True, **more)


def why(c: Cluster, uid: str = "uid-default-g-0") -> str:
    view = c.plugins.gangs.describe("default/g")
    assert view is not None
    return view.why


def statuses(said: list[Any]) -> list[PodGroupStatus]:
    return [one for one in said if isinstance(one, PodGroupStatus)]


def test_a_raised_minimum_counts_for_members_that_still_wait() -> None:
    c = cluster(4)
    groups = Groups(c)
    groups.seen(a_group(least=2), 0.0)
    see(c, member(0), member(1))
    assert len(binds(settle(c, 1.0))) == 2
    groups.seen(a_group(least=4), 2.0)
    see(c, member(2), now_s=2.0)
    assert binds(settle(c, 3.0)) == {}  # two have nodes and one waits, of four
    see(c, member(3), now_s=4.0)
    assert len(binds(settle(c, 5.0))) == 2
    c.validate()


def test_a_lowered_minimum_lets_the_members_go() -> None:
    c = cluster(3)
    groups = Groups(c)
    groups.seen(a_group(least=4), 0.0)
    see(c, *(member(i) for i in range(3)))
    assert binds(settle(c, 1.0)) == {}
    assert why(c) == "gang default/g has 3 of 4 members; waits for 1 more"
    groups.seen(a_group(least=3), 2.0)
    assert len(binds(settle(c, 3.0))) == 3


def test_a_member_is_told_that_its_group_is_gone() -> None:
    c = cluster(3)
    groups = Groups(c)
    groups.seen(a_group(least=2), 0.0)
    see(c, member(0))
    told = [one.message for one in (*settle(c, 1.0), *settle(c, 5.0)) if isinstance(one, Unschedulable)]
    assert told == ["gang default/g has 1 of 2 members; waits for 1 more"]
    groups.gone("default/g", 6.0, "v1beta1")
    told = [one.message for one in settle(c, 6.0) if isinstance(one, Unschedulable)]
    assert len(told) == 1
    assert told[0].endswith("there is no PodGroup default/g of scheduling.k8s.io")


def test_a_group_that_is_recreated_while_binds_are_under_way() -> None:
    c = cluster(4)
    groups = Groups(c)
    groups.seen(a_group(least=2), 0.0)
    see(c, member(0), member(1))
    made = [one for one in c.decide(1.0) if isinstance(one, Bind)]
    assert len(made) == 2
    groups.gone("default/g", 1.0, "v1beta1")
    groups.seen(a_group(least=3, uid="again"), 1.0)
    c.validate()
    c.bind_failed(made[0].uid, "refused", 1.0)
    c.bind_failed(made[1].uid, "refused", 1.0)
    assert binds(settle(c, 30.0)) == {}  # two of the three that the new one asks for
    see(c, member(2), now_s=31.0)
    assert len(binds(settle(c, 60.0))) == 3
    c.validate()


def test_the_condition_stays_true_and_is_written_for_the_new_object() -> None:
    c = cluster(4)
    groups = Groups(c)
    groups.seen(a_group(least=2), 0.0)
    see(c, member(0), member(1))
    (first,) = {one.phase for one in statuses(settle(c, 1.0)) if one.phase is GangPhase.SCHEDULED}
    assert first is GangPhase.SCHEDULED
    groups.seen(a_group(least=2, phase=GangPhase.SCHEDULED), 2.0)
    for i in range(2):
        c.pod_gone(f"uid-default-g-{i}", 3.0)
    assert statuses(settle(c, 4.0)) == []  # it had nodes once
    groups.gone("default/g", 5.0, "v1beta1")
    groups.seen(a_group(least=2, uid="again"), 5.0)
    assert statuses(settle(c, 5.5)) == []  # nothing of it is placed here
    see(c, member(2), now_s=6.0)
    assert [(one.uid, one.phase) for one in statuses(settle(c, 6.0))] == [("again", GangPhase.PENDING)]


def test_a_group_of_another_scheduler_is_left_to_it() -> None:
    c = cluster(2)
    groups = Groups(c)
    groups.seen(a_group(least=2), 0.0)
    foreign = replace(member(0, on="n0"), scheduler="default-scheduler")
    see(c, foreign, replace(member(1), scheduler="default-scheduler"))
    assert statuses(settle(c, 1.0)) == []
    see(c, member(2), now_s=2.0)
    assert [one.phase for one in statuses(settle(c, 3.0))][-1:] == [GangPhase.SCHEDULED]


def test_the_newest_version_counts_and_a_group_is_gone_with_its_last() -> None:
    c = cluster(2)
    groups = Groups(c)
    see(c, member(0), member(1))
    for version in ("v1alpha2", "v1beta1", "v1alpha3"):
        groups.seen(a_group(version=version), 0.0)
    found = settle(c, 1.0)
    assert len(binds(found)) == 2
    assert {one.version for one in statuses(found)} == {"v1beta1"}
    for version in ("v1beta1", "v1alpha2"):
        groups.gone("default/g", 2.0, version)
        view = c.plugins.gangs.describe("default/g")
        assert view is not None
        assert (view.spec is None, view.problems) == (False, ())
    groups.gone("default/g", 2.0, "v1alpha3")
    view = c.plugins.gangs.describe("default/g")
    assert view is not None
    assert view.spec is None
    groups.gone("default/g", 2.0, "v1alpha3")  # again: nothing
    c.validate()


def test_composite_groups_are_placed_together() -> None:
    c = cluster(3)
    groups = Groups(c)
    for name in ("a", "b"):
        groups.seen(a_group(name, uid=name, parent="default/top"), 0.0)
        see(c, member(0, name), member(1, name))
    assert binds(settle(c, 1.0)) == {}
    view = c.plugins.gangs.describe("default/a")
    assert view is not None
    assert "CompositePodGroup default/top" in view.why
    top = CompositeGroup("default/top", "top", 0.0, "v1alpha3", 2)
    groups.composite_seen(top, 2.0)
    assert binds(settle(c, 3.0)) == {}  # four pods, three nodes
    c.node_seen(node("n9"))
    assert len(binds(settle(c, 60.0))) == 4
    c.validate()


def racked(racks: int, nodes: int) -> Cluster:
    """Nodes of one pod each, in racks of two blocks."""
    c = cluster(0)
    for rack in range(racks):
        for i in range(nodes):
            c.node_seen(node(f"n{rack}-{i}", rack=f"r{rack}", block=f"b{rack // 2}"))
    return c


def in_racks(count: int) -> list[PodGroup]:
    """Groups of two pods, each in one rack, of one composite gang."""
    notes = GangNotes(
        mode=GangMode.STRICT, match_policy=MatchPolicy.WAITING_AND_RUNNING, topology=GangTopology((RACK,), True)
    )
    return [replace(a_group(f"g{i}", uid=f"g{i}", parent="default/top"), notes=notes) for i in range(count)]


def racks_of(placed: dict[str, str]) -> dict[str, set[str]]:
    """The racks of each group's pods, by the start of their nodes' names."""
    found: dict[str, set[str]] = {}
    for pod_name, node_name in placed.items():
        found.setdefault(pod_name.partition("-")[0], set()).add(node_name.partition("-")[0])
    return found


def test_each_group_of_a_composite_gang_is_in_one_rack_of_its_own() -> None:
    c = racked(racks=3, nodes=3)
    groups = Groups(c)
    groups.composite_seen(CompositeGroup("default/top", "top", 0.0, "v1alpha3", 3), 0.0)
    for one in in_racks(3):
        groups.seen(one, 0.0)
    see(c, *(member(i, f"g{g}") for g in range(3) for i in range(2)))
    placed = binds(settle(c, 1.0))
    assert {len(racks) for racks in racks_of(placed).values()} == {1}
    assert len(placed) == 6
    c.validate()


def test_the_racks_of_a_composite_gang_are_in_one_block() -> None:
    c = racked(racks=4, nodes=2)
    see(c, pod("other", on="n1-0"))  # of the first block one rack has no room
    groups = Groups(c)
    groups.composite_seen(CompositeGroup("default/top", "top", 0.0, "v1alpha3", 2, topology_key=BLOCK), 0.0)
    for one in in_racks(2):
        groups.seen(one, 0.0)
    see(c, *(member(i, f"g{g}") for g in range(2) for i in range(2)))
    found = racks_of(binds(settle(c, 1.0)))
    assert {rack for racks in found.values() for rack in racks} == {"n2", "n3"}
    c.validate()


def test_a_composite_gang_with_too_few_racks_leaves_no_trace() -> None:
    c = racked(racks=2, nodes=1)
    groups = Groups(c)
    groups.composite_seen(CompositeGroup("default/top", "top", 0.0, "v1alpha3", 2), 0.0)
    for one in in_racks(2):
        groups.seen(one, 0.0)
    see(c, *(member(i, f"g{g}") for g in range(2) for i in range(2)))
    assert binds(settle(c, 1.0)) == {}
    view = c.plugins.gangs.describe("default/g0")
    assert view is not None
    assert "0 of 4 members fit" in view.why
    see(c, pod("single", cpu=1000), now_s=2.0)
    assert set(binds(settle(c, 2.0))) == {"single"}
    c.validate()


def test_a_further_pod_of_a_group_joins_its_rack() -> None:
    c = racked(racks=2, nodes=3)
    groups = Groups(c)
    groups.composite_seen(CompositeGroup("default/top", "top", 0.0, "v1alpha3", 2), 0.0)
    for one in in_racks(2):
        groups.seen(one, 0.0)
    see(c, *(member(i, f"g{g}") for g in range(2) for i in range(2)))
    before = racks_of(binds(settle(c, 1.0)))
    see(c, member(2, "g1"), now_s=2.0)
    assert racks_of(binds(settle(c, 3.0))) == {"g1": before["g1"]}
    c.validate()


def test_a_child_that_is_recreated_without_a_parent_stands_alone() -> None:
    c = cluster(2)
    groups = Groups(c)
    groups.seen(a_group("a", uid="1", parent="default/top"), 0.0)
    see(c, member(0, "a"), member(1, "a"))
    assert binds(settle(c, 1.0)) == {}
    groups.seen(a_group("a", uid="2"), 2.0)
    assert len(binds(settle(c, 3.0))) == 2
    groups.composite_gone("default/top", 4.0)
    c.validate()


def test_the_priority_of_a_group_is_that_of_its_members() -> None:
    groups = Groups(cluster(1))
    groups.seen(a_group(priority=7, preempts=False), 0.0)
    assert groups.again == ["default/g"]
    named = SchedulingGroup(pod_group_name="g")
    assert groups.priorities.of("default", named) == GroupTerms(7, False)
    assert groups.priorities.of("other", named) == groups.priorities.of("default", None) == GroupTerms()
    groups.seen(a_group(priority=7, preempts=False, least=3), 1.0)
    assert groups.again == ["default/g"]  # no news
    groups.gone("default/g", 2.0, "v1beta1")
    assert groups.priorities.of("default", named) == GroupTerms()


@pytest.mark.parametrize(("disruption", "evicted"), [(Disruption.SINGLE, 1), (Disruption.ALL, 2)])
def test_the_disruption_mode_says_what_a_preemption_evicts(disruption: Disruption, evicted: int) -> None:
    c = cluster(2)
    groups = Groups(c)
    together = ("default/g",) if disruption is Disruption.ALL else ()
    groups.seen(a_group(least=1, disruption=disruption, disrupted_with=together), 0.0)
    see(c, member(0), member(1))
    assert len(binds(settle(c, 1.0))) == 2
    see(c, pod("vip", priority=1000), now_s=2.0)
    (made,) = (one for one in settle(c, 3.0) if isinstance(one, Preempt))
    assert len(made.victims) == evicted
