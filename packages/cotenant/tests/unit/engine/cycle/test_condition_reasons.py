"""The reason of PodScheduled=False: Unschedulable only where more nodes would help, which is what autoscalers act on.

What they do is modelled here from their sources: Karpenter provisions for a pod with reason Unschedulable, without a
node and without a nominated node; Cluster Autoscaler counts a nominated pod as placed, and asks the same reason.
"""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster import gang_world, quota_world

from cotenant.engine.framework.instructions import HELD, UNSCHEDULABLE, Instruction, Preempt, Unschedulable
from cotenant.model.cluster.observed import ExpectedRoom, ObservedPod


def scaled_up_for(given: list[Instruction] | tuple[Instruction, ...]) -> set[str]:
    """The pods that an autoscaler would add nodes for, after all these conditions are written."""
    last = {one.key.partition("/")[2]: one for one in given if isinstance(one, Unschedulable)}
    return {name for name, one in last.items() if one.reason == UNSCHEDULABLE and not one.nominated}


def reasons(given: list[Instruction] | tuple[Instruction, ...]) -> set[str]:
    return {one.reason for one in given if isinstance(one, Unschedulable)}


def gang_given(*pods: ObservedPod, nodes: int = 1) -> list[Instruction]:
    made = gang_world.cluster(nodes)
    gang_world.see(made, *pods)
    given: list[Instruction] = []
    for at_s in (0.0, 1.0, 2.0, 30.0):
        given += made.decide(at_s)
    return given


def test_a_pod_that_no_node_has_room_for_is_unschedulable_in_the_words_that_are_known() -> None:
    given = gang_given(gang_world.pod("huge", cpu=9000))
    assert scaled_up_for(given) == {"huge"}
    (told,) = (one for one in given if isinstance(one, Unschedulable))
    assert told.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_without_any_node_too() -> None:
    given = gang_given(gang_world.pod("web"), nodes=0)
    assert scaled_up_for(given) == {"web"}


def test_a_pod_that_waits_for_its_victims_has_its_node_with_the_condition() -> None:
    given = gang_given(gang_world.pod("low", on="n0"), gang_world.pod("vip", priority=9))
    assert any(isinstance(one, Preempt) for one in given)
    (told,) = (one for one in given if isinstance(one, Unschedulable))
    assert (told.reason, told.nominated) == (UNSCHEDULABLE, "n0")
    assert scaled_up_for(given) == set()


def test_a_gang_that_waits_for_its_victims_too() -> None:
    low = [gang_world.pod(f"low-{i}", on=f"n{i}") for i in range(2)]
    given = gang_given(*low, *gang_world.members("vip", 2, priority=9), nodes=2)
    assert {one.nominated for one in given if isinstance(one, Unschedulable)} == {"n0", "n1"}
    assert scaled_up_for(given) == set()


def test_a_pod_for_which_a_rebalancer_makes_room_is_held() -> None:
    resident = gang_world.pod("web", on="n0", priority=5)
    room = ExpectedRoom("n0", 1000.0, (resident.uid,))
    given = gang_given(resident, replace(gang_world.pod("waits"), expected_room=room))
    assert scaled_up_for(given) == set()
    assert reasons(given) == {HELD}


def test_an_incomplete_gang_is_held_and_one_that_does_not_fit_is_not() -> None:
    given = gang_given(*gang_world.members("ai", 2, least=3))
    assert (scaled_up_for(given), reasons(given)) == (set(), {HELD})
    given = gang_given(*gang_world.members("ai", 3))
    assert scaled_up_for(given) == {"ai-0", "ai-1", "ai-2"}


def test_a_pod_beyond_its_quota_is_held() -> None:
    world = quota_world.World(quota_world.node("n0", 16))
    world.write(quota_world.quota("q", 0, 2))
    world.create(quota_world.pod("in", 2, "q"), quota_world.pod("over", 2, "q"))
    given = world.go()
    assert (scaled_up_for(given), reasons(given)) == (set(), {HELD})
    world = quota_world.World(quota_world.node("n0", 1), quota_world.node("n1", 1))
    world.write(quota_world.quota("q", 0, 8))
    world.create(quota_world.pod("within", 2, "q"))
    assert scaled_up_for(world.go()) == {"within"}  # its quota has room: a node would help


def test_a_pod_with_a_gate_of_its_own_is_not_touched() -> None:
    assert gang_given(replace(gang_world.pod("gated"), gates=("example.com/wait",))) == []


def test_a_pod_whose_description_we_cannot_evaluate_is_held() -> None:
    given = gang_given(replace(gang_world.pod("odd"), unsupported=("spec.x: not supported",)))
    assert (scaled_up_for(given), reasons(given)) == (set(), {HELD})
